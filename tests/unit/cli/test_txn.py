import json

import pytest

from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus

Captured = pytest.CaptureFixture[str]


def test_transactions_are_listed(barnabas: Barnabas, capsys: Captured) -> None:
    assert barnabas("txn", "list") == 0
    assert capsys.readouterr().out.splitlines() == [
        "transactional id\tstate\tproducer id\tcoordinator",
        "billing\tOngoing\t7\t1",
    ]
    assert barnabas("txn", "list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"transactional_id": "billing", "state": "Ongoing", "producer_id": 7, "coordinator": 1}
    ]


def test_a_listing_can_be_narrowed(barnabas: Barnabas, bus: FakeBus) -> None:
    options = ["--state", "Ongoing", "--state", "Empty", "--longer-than", "1.5", "--pattern", "b.*"]
    assert barnabas("txn", "list", *options) == 0
    assert bus.asked == {"states": ["Ongoing", "Empty"], "longer_than": 1.5, "pattern": "b.*"}


def test_a_transaction_is_described(barnabas: Barnabas, capsys: Captured) -> None:
    assert barnabas("txn", "describe", "billing") == 0
    assert capsys.readouterr().out.splitlines() == [
        "transactional id billing: Ongoing, open for 12.3 s",
        "producer id\tproducer epoch\ttimeout in ms\tstart in ms\tcoordinator",
        "7\t3\t60000\t1000\t1",
        "topic\tpartition",
        "orders\t0",
    ]
    assert barnabas("txn", "describe", "billing", "--json") == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == [{"topic": "orders", "partition": 0}]


def test_a_transactional_id_without_a_transaction_is_described(barnabas: Barnabas, capsys: Captured) -> None:
    assert barnabas("txn", "describe", "idle") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "transactional id idle: Empty"
    assert lines[2:] == ["7\t3\t60000\t-\t1"]


def test_transactions_that_hang_are_found(barnabas: Barnabas, bus: FakeBus, capsys: Captured) -> None:
    assert barnabas("txn", "hanging") == 0
    assert bus.asked == {"topic": None, "older_than": 900.0}
    assert capsys.readouterr().out.splitlines() == [
        "topic\tpartition\tstart offset\tproducer id\tproducer epoch\tage in seconds\tid",
        "orders\t0\t42\t9\t2\t1000\t-",
    ]
    assert barnabas("txn", "hanging", "--topic", "orders", "--older-than", "5", "--json") == 0
    assert bus.asked == {"topic": "orders", "older_than": 5.0}
    assert json.loads(capsys.readouterr().out)[0]["start_offset"] == 42


def test_a_transaction_is_aborted_by_its_id(barnabas: Barnabas, bus: FakeBus, capsys: Captured) -> None:
    assert barnabas("txn", "abort", "billing", "--yes") == 0
    assert bus.asked == {"aborted": "billing"}
    assert capsys.readouterr().out == "transactional id billing: aborted and fenced\n"


def test_one_that_hangs_is_aborted_by_its_place(barnabas: Barnabas, bus: FakeBus, capsys: Captured) -> None:
    assert barnabas("txn", "abort", "--topic", "orders", "--partition", "0", "--start-offset", "42", "--yes") == 0
    assert bus.asked == {"aborted": ("orders", 0, 42)}
    assert capsys.readouterr().out == "orders-0: the transaction since offset 42 was aborted\n"


@pytest.mark.parametrize(
    "options",
    [[], ["billing", "--topic", "orders"], ["--topic", "orders", "--partition", "0"], ["--start-offset", "-1"]],
)
def test_an_abort_that_does_not_say_what_is_wrong_usage(barnabas: Barnabas, options: list[str]) -> None:
    assert barnabas("txn", "abort", *options) == 2


@pytest.mark.parametrize("command", [["describe", "none"], ["abort", "none", "--yes"]])
def test_an_id_that_is_not_known_is_one_line(barnabas: Barnabas, capsys: Captured, command: list[str]) -> None:
    assert barnabas("txn", *command) == 1
    assert capsys.readouterr().err == "barnabas: transactional id 'none' does not exist\n"


def test_records_of_aborted_transactions_are_printed_if_asked_for(barnabas: Barnabas, bus: FakeBus) -> None:
    bus.create_topic("orders")
    assert barnabas("consume", "orders", "--until-end") == 0
    assert bus.asked["isolation"] == "read_committed"
    for more in ([], ["--ordered"], ["--group", "billing"]):
        assert barnabas("consume", "orders", "--until-end", "--isolation", "read_uncommitted", *more) == 0
        assert bus.asked["isolation"] == "read_uncommitted"
