import json

import pytest

from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus

Captured = pytest.CaptureFixture[str]


def test_groups_are_listed(barnabas: Barnabas, capsys: Captured) -> None:
    assert barnabas("group", "list") == 0
    assert capsys.readouterr().out.splitlines() == ["group\tstate\ttype", "billing\tstable\tclassic"]
    assert barnabas("group", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"name": "billing", "state": "stable", "type": "classic", "is_simple": False}
    ]


def test_a_group_is_described_with_its_lag_in_records_and_seconds(barnabas: Barnabas, capsys: Captured) -> None:
    assert barnabas("group", "describe", "billing") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "group billing: stable, classic, assignor range"
    assert lines[2].split("\t") == ["orders", "0", "5", "8", "3", "1.2", "m-1"]
    assert lines[3].split("\t") == ["orders", "1", "-", "8", "-", "-", "-"]
    assert lines[5].split("\t") == ["m-1", "app", "/10.0.0.1", "-", "1"]


def test_a_description_is_json_if_asked_for(barnabas: Barnabas, capsys: Captured) -> None:
    assert barnabas("group", "describe", "billing", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["partitions"][0]["lag_seconds"] == 1.25
    assert found["members"][0]["partitions"] == [{"topic": "orders", "partition": 0}]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (["--to-earliest"], {"to": "earliest"}),
        (["--to-latest", "--dry-run"], {"to": "latest", "dry_run": True}),
        (["--to-offset", "0"], {"to": 0}),
        (["--to-timestamp", "2026-01-01T00:00:00Z"], {"timestamp_ms": 1767225600000}),
        (["--shift-by", "-3", "--topic", "a", "--topic", "b"], {"shift_by": -3, "topic": ["a", "b"]}),
    ],
)
def test_a_group_is_reset(
    barnabas: Barnabas, bus: FakeBus, capsys: Captured, options: list[str], asked: dict[str, object]
) -> None:
    assert barnabas("group", "reset", "billing", "--yes", *options) == 0
    nothing = {"to": None, "timestamp_ms": None, "shift_by": None, "topic": None, "dry_run": False}
    assert bus.asked == nothing | asked
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("would be" if "--dry-run" in options else "now")
    assert lines[1:] == ["orders\t0\t5\t0", "orders\t1\t-\t0"]


@pytest.mark.parametrize("options", [[], ["--to-earliest", "--to-latest"], ["--to-timestamp", "soon"]])
def test_a_reset_without_one_place_to_go_is_wrong_usage(barnabas: Barnabas, options: list[str]) -> None:
    assert barnabas("group", "reset", "billing", *options) == 2


def test_a_group_is_deleted(barnabas: Barnabas, bus: FakeBus) -> None:
    assert barnabas("group", "delete", "billing", "--yes") == 0
    assert bus.asked == {"deleted": "billing"}


@pytest.mark.parametrize("command", [["describe"], ["reset", "--to-earliest", "--yes"], ["delete", "--yes"]])
def test_a_group_that_is_not_there_is_one_line(barnabas: Barnabas, capsys: Captured, command: list[str]) -> None:
    verb, *options = command
    assert barnabas("group", verb, "none", *options) == 1
    assert capsys.readouterr().err == "barnabas: group 'none' does not exist\n"


def test_records_are_consumed_in_a_group(barnabas: Barnabas, bus: FakeBus, capsys: Captured) -> None:
    bus.create_topic("orders")
    bus.send("orders", b"first")
    assert barnabas("consume", "orders", "--group", "billing", "--until-end", "--max", "5") == 0
    assert capsys.readouterr().out == "first\n"
    assert (bus.asked["group"], bus.asked["mode"], bus.asked["max_records"]) == ("billing", "at-least-once", 5)
    assert barnabas("consume", "orders", "--group", "billing", "--partition", "0") == 2
