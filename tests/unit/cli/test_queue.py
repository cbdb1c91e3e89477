import json
import sys
from pathlib import Path

import pytest

from barnabas.client.queues.locks import Ack
from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def jobs(bus: FakeBus) -> FakeBus:
    bus.create_topic("jobs", partitions=1)
    for number in range(3):
        bus.send("jobs", str(number).encode())
    return bus


def test_jobs_are_printed_and_accepted(barnabas: Barnabas, jobs: FakeBus, capsys: Captured) -> None:
    assert barnabas("queue", "consume", "jobs", "--group", "workers", "--count", "2", "--timeout", "1") == 0
    assert capsys.readouterr().out == "0\n1\n"
    assert jobs.asked == {"group": "workers", "timeout": 1.0}
    assert jobs.answers == {0: Ack.ACCEPT, 1: Ack.ACCEPT}


def test_jobs_are_json_if_asked_for(barnabas: Barnabas, jobs: FakeBus, capsys: Captured) -> None:
    assert barnabas("queue", "consume", "jobs", "-g", "workers", "--json") == 0
    assert [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()] == [0, 1, 2]


def test_the_exit_code_of_a_command_decides(barnabas: Barnabas, jobs: FakeBus, tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text("import sys; sys.exit(sys.stdin.read() == '1')")
    assert barnabas("queue", "consume", "jobs", "-g", "workers", "--exec", f"{sys.executable} {script}") == 0
    assert jobs.answers == {0: Ack.ACCEPT, 1: Ack.RELEASE, 2: Ack.ACCEPT}


@pytest.mark.parametrize("command", ["", "'", "/no/such/command"])
def test_a_command_that_cannot_be_run_is_wrong_usage(barnabas: Barnabas, jobs: FakeBus, command: str) -> None:
    assert barnabas("queue", "consume", "jobs", "-g", "workers", "--exec", command) == 2
    assert Ack.ACCEPT not in jobs.answers.values()


def test_stats_show_each_partition(barnabas: Barnabas, capsys: Captured) -> None:
    assert barnabas("queue", "stats", "billing") == 0
    assert capsys.readouterr().out.splitlines() == [
        "topic\tpartition\tstart offset\tend offset\tdepth\tretrying\tarchiving\tdead letters",
        "orders\t0\t5\t8\t2\t1\t0\t-",
        "orders\t1\t-\t8\t-\t-\t-\t-",
        "dlq.orders\t0\t2\t7\t-\t-\t-\t5",
    ]
    assert barnabas("queue", "stats", "billing", "--json") == 0
    assert json.loads(capsys.readouterr().out)[1]["depth"] is None
    assert barnabas("queue", "stats", "nobody") == 1


def test_a_peek_reads_from_where_the_group_is(barnabas: Barnabas, jobs: FakeBus, capsys: Captured) -> None:
    assert barnabas("queue", "peek", "jobs", "-g", "billing", "--count", "3") == 0
    assert capsys.readouterr().out.splitlines()[0] == "0\t0\t0"
    expected = {"partitions": [0], "offset": 5, "until_end": True, "max_records": 3}
    assert expected.items() <= jobs.asked.items()


def test_a_purge_wants_confirmation(barnabas: Barnabas, bus: FakeBus, capsys: Captured) -> None:
    assert barnabas("queue", "purge", "billing", "orders") == 2
    assert bus.asked == {}
    assert barnabas("queue", "purge", "billing", "orders", "--yes") == 0
    assert bus.asked == {"purged": ("billing", "orders")}
    capsys.readouterr()
    assert barnabas("queue", "purge", "billing", "orders", "--yes", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["start_offset"] == 8


def test_a_redrive_wants_confirmation_and_says_what_it_sent(barnabas: Barnabas, bus: FakeBus, capsys: Captured) -> None:
    assert barnabas("queue", "redrive", "billing") == 2
    assert bus.asked == {}
    capsys.readouterr()
    assert barnabas("queue", "redrive", "billing", "--limit", "5", "--yes") == 0
    assert bus.asked == {"redriven": ("billing", 5, False)}
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["letters\tto topic\tcount", "dlq.orders\tjobs\t2", "dlq.orders\torders\t3"]
    assert "1 letters that were there twice, and 4 records" in printed.err


def test_a_dry_run_needs_no_confirmation(barnabas: Barnabas, bus: FakeBus, capsys: Captured) -> None:
    assert barnabas("queue", "redrive", "billing", "--dry-run", "--json") == 0
    assert bus.asked == {"redriven": ("billing", None, True)}
    assert json.loads(capsys.readouterr().out)[0]["sent"] == {"orders": 3, "jobs": 2}


def test_a_redrive_that_could_not_send_all_fails(barnabas: Barnabas, bus: FakeBus, capsys: Captured) -> None:
    bus.gone_letters = 2
    assert barnabas("queue", "redrive", "billing", "--yes") == 1
    assert "2 letters were not sent" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_that_is_none_is_wrong_usage(barnabas: Barnabas, bus: FakeBus, limit: str) -> None:
    assert barnabas("queue", "redrive", "billing", "--yes", "--limit", limit) == 2
    assert bus.asked == {}
