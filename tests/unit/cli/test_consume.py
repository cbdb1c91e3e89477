"""`barnabas consume` and `barnabas get`: where they begin, what they print, how they end."""

import json

import pytest
import typer

from barnabas.cli import connection
from barnabas.cli.timestamps import parse_timestamp
from barnabas.client import Unreachable
from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus


@pytest.fixture
def orders(bus: FakeBus) -> FakeBus:
    bus.create_topic("orders", partitions=2)
    bus.send("orders", b"one", key=b"k", headers=(("h", b"1"),))
    bus.send("orders", b"\xff\x1b[31m", partition=1)
    return bus


def test_values_are_printed_line_by_line_as_they_are(
    barnabas: Barnabas, orders: FakeBus, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert barnabas("consume", "orders") == 0
    assert capfdbinary.readouterr().out == b"one\n\xff\x1b[31m\n"


def test_a_format_prints_every_part(
    barnabas: Barnabas, orders: FakeBus, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert barnabas("consume", "orders", "--max", "1", "-f", r"%t %p %o %k %s %T %h 100%%\t\\\n") == 0
    assert capfdbinary.readouterr().out == b"orders 0 0 k one 0 h=1 100%\t\\\n"


def test_json_has_one_object_per_line(
    barnabas: Barnabas, orders: FakeBus, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert barnabas("consume", "orders", "--format", "json") == 0

    first, second = map(json.loads, capfdbinary.readouterr().out.splitlines())
    assert first["headers"] == [{"name": "h", "value": "1"}]
    assert (first["key"], first["value"], first["timestamp_type"]) == ("k", "one", "create_time")
    assert second["value_base64"] == "/xtbMzFt"


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ((), {"offset": "latest", "until_end": False, "merge": False}),
        (("--from-beginning",), {"offset": "earliest"}),
        (("--until-end",), {"offset": "earliest", "until_end": True}),
        (("--offset", "7", "--partition", "1"), {"offset": 7, "partitions": [1]}),
        (("--timestamp", "1000"), {"timestamp_ms": 1000}),
        (("--timestamp", "1970-01-01T00:00:02+00:00"), {"timestamp_ms": 2000}),
        (("--ordered",), {"merge": True}),
    ],
)
def test_options_say_where_reading_begins_and_ends(
    barnabas: Barnabas, orders: FakeBus, arguments: tuple[str, ...], asked: dict[str, object]
) -> None:
    assert barnabas("consume", "orders", *arguments) == 0
    assert orders.asked | asked == orders.asked


@pytest.mark.parametrize(
    "arguments",
    [
        ("--format", "%x"),
        ("--format", "%"),
        ("--format", r"\q"),
        ("--timestamp", "yesterday"),
        ("--offset", "-1"),
        ("--offset", "1", "--from-beginning"),
    ],
)
def test_wrong_usage_exits_with_2_before_anything_is_read(
    barnabas: Barnabas, orders: FakeBus, arguments: tuple[str, ...]
) -> None:
    assert barnabas("consume", "orders", *arguments) == 2
    assert orders.asked == {}


def test_a_topic_that_does_not_exist_exits_with_1(barnabas: Barnabas, capsys: pytest.CaptureFixture[str]) -> None:
    assert barnabas("consume", "orders") == 1
    assert capsys.readouterr().err == "barnabas: topic 'orders' does not exist\n"


def test_an_interrupt_ends_well(
    barnabas: Barnabas, orders: FakeBus, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    def read_then_interrupt(topic: str, **_asked: object) -> object:
        yield from orders.logs["orders"][0]
        raise KeyboardInterrupt

    monkeypatch.setattr(orders, "consume", read_then_interrupt)

    assert barnabas("consume", "orders") == 0
    assert capfdbinary.readouterr().out == b"one\n"


def test_one_record_is_printed_by_its_id(
    barnabas: Barnabas, orders: FakeBus, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert barnabas("get", "orders", "0", "0") == 0
    assert capfdbinary.readouterr().out == b"one\n"
    assert barnabas("get", "orders", "0", "0", "--json") == 0
    assert json.loads(capfdbinary.readouterr().out)["offset"] == 0
    assert barnabas("get", "orders", "0", "9") == 1
    assert capfdbinary.readouterr().err == b"barnabas: orders-0 has no record at offset 9\n"
    assert barnabas("get", "orders", "x", "9") == 2


def test_a_time_without_a_zone_is_local() -> None:
    assert parse_timestamp("2026-01-01T00:00:00Z") == 1767225600000
    assert parse_timestamp("0") == 0
    with pytest.raises(typer.BadParameter):
        parse_timestamp("99999-01-01")


def test_completion_gives_names_and_fails_silently(orders: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    context = typer.Context(typer.main.get_command(typer.Typer(callback=lambda: None)))
    orders.create_topic("other")

    assert connection.complete_topic(context, "or") == ["orders"]
    monkeypatch.setattr(connection, "open_bus", None)
    assert connection.complete_topic(context, "or") == []


def test_nobody_listening_is_said_at_once() -> None:
    with pytest.raises(Unreachable, match="barnabas serve"):
        connection.open_bus("127.0.0.1:1")


def test_the_newest_records_come_in_the_order_of_time(
    barnabas: Barnabas, bus: FakeBus, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.create_topic("orders")
    for number in range(5):
        bus.send("orders", str(number).encode(), key=None, partition=0, headers=(), timestamp_ms=None)
    assert barnabas("consume", "orders", "--last", "2") == 0
    assert capsys.readouterr().out.split() == ["3", "4"]
    assert (bus.asked["merge"], bus.asked["last"], bus.asked["until_end"]) == (True, 2, True)


def test_reading_ends_at_a_time(barnabas: Barnabas, bus: FakeBus) -> None:
    bus.create_topic("orders")
    assert barnabas("consume", "orders", "--until", "5000") == 0
    assert (bus.asked["until_ms"], bus.asked["offset"], bus.asked["until_end"]) == (5000, "earliest", True)


@pytest.mark.parametrize(
    "options", [("--last", "2", "--offset", "1"), ("--last", "2", "--max", "1"), ("--group", "g", "--until", "5")]
)
def test_ranges_that_contradict_each_other_are_usage_errors(
    barnabas: Barnabas, bus: FakeBus, options: tuple[str, ...]
) -> None:
    bus.create_topic("orders")
    assert barnabas("consume", "orders", *options) == 2
