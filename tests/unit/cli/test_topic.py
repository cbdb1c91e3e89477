"""`barnabas topic`: what it asks of the bus, what it prints, its exit codes."""

import json

import pytest

from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus


def test_a_topic_is_created_with_its_settings(
    barnabas: Barnabas, bus: FakeBus, capsys: pytest.CaptureFixture[str]
) -> None:
    code = barnabas("topic", "create", "orders", "--partitions", "3", "--set", "retention.ms=1000", "--set", "a=b=c")

    assert code == 0
    assert capsys.readouterr().out == "topic orders: 3 partitions, replication factor 1\n"
    assert bus.configs["orders"] == {"retention.ms": "1000", "a": "b=c"}


def test_a_topic_that_is_there_is_refused_in_one_line(
    barnabas: Barnabas, bus: FakeBus, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.create_topic("orders")

    assert barnabas("topic", "create", "orders") == 1
    assert capsys.readouterr().err == "barnabas: topic 'orders' is there already\n"
    assert barnabas("topic", "create", "orders", "--if-not-exists") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "orders", "--set", "novalue"),
        ("create", "orders", "--set", "=x"),
        ("create", "orders", "--partitions", "0"),
        ("alter", "orders"),
        ("alter", "orders", "--partitions", "many"),
        ("truncate", "orders", "--before", "-1"),
    ],
)
def test_wrong_usage_exits_with_2_and_asks_nothing(
    barnabas: Barnabas, bus: FakeBus, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert barnabas("topic", *arguments) == 2
    assert bus.logs == {}
    assert capsys.readouterr().out == ""


def test_a_listing_in_a_pipe_is_tab_separated_without_internal_topics(
    barnabas: Barnabas, bus: FakeBus, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.create_topic("b", partitions=2)
    bus.create_topic("a")
    bus.create_topic("__internal")

    assert barnabas("topic", "list") == 0
    assert capsys.readouterr().out == "topic\tpartitions\treplication factor\na\t1\t1\nb\t2\t1\n"
    assert barnabas("topic", "list", "--internal", "--json") == 0
    assert [topic["name"] for topic in json.loads(capsys.readouterr().out)] == ["__internal", "a", "b"]


def test_a_description_has_partitions_and_settings(
    barnabas: Barnabas, bus: FakeBus, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.create_topic("orders", config={"retention.ms": "1"})
    bus.send("orders", b"x")

    assert barnabas("topic", "describe", "orders", "--json") == 0
    described = json.loads(capsys.readouterr().out)
    assert described["config"] == {"retention.ms": "1"}
    assert described["partitions"][0] == {
        "partition": 0,
        "leader": 1,
        "replicas": [1, 2],
        "in_sync": [1],
        "start_offset": 0,
        "end_offset": 1,
        "problem": None,
    }
    assert barnabas("topic", "describe", "orders") == 0
    assert "0\t1\t1,2\t1\t0\t1\n" in capsys.readouterr().out


def test_altering_sets_unsets_and_warns_that_keys_move(
    barnabas: Barnabas, bus: FakeBus, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.create_topic("orders", config={"old": "1"})

    code = barnabas("topic", "alter", "orders", "--set", "new=2", "--unset", "old", "--partitions", "4")

    assert code == 0
    assert bus.configs["orders"] == {"new": "2"}
    assert len(bus.logs["orders"]) == 4
    assert capsys.readouterr().err == "barnabas: warning: keys move\n"


def test_deleting_and_truncating(barnabas: Barnabas, bus: FakeBus, capsys: pytest.CaptureFixture[str]) -> None:
    bus.create_topic("orders", partitions=2)
    bus.send("orders", b"x", partition=1)

    assert barnabas("topic", "truncate", "orders", "--yes") == 0
    assert capsys.readouterr().out == "partition\tstart offset\n0\t0\n1\t1\n"
    assert barnabas("topic", "delete", "orders", "--yes") == 0
    assert bus.logs == {}
    assert barnabas("topic", "delete", "orders", "--yes") == 1
