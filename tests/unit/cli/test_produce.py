"""`barnabas produce`: what becomes of a line."""

import io
import sys
import threading
from pathlib import Path

import pytest
import typer

from barnabas.cli import output, produce
from barnabas.cli.produce import Line, parse_json, parse_text, read_lines
from barnabas.client import Bus, DeliveryFailed
from barnabas.core.errors import InvalidRecord, RecordTooLarge
from barnabas.testing.embedded import EmbeddedBroker
from tests.unit.cli.conftest import Barnabas
from tests.unit.cli.fake_bus import FakeBus


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
    return raw


@pytest.fixture
def orders(bus: FakeBus) -> FakeBus:
    bus.create_topic("orders", partitions=2)
    return bus


def test_each_line_of_stdin_is_a_record(
    barnabas: Barnabas, orders: FakeBus, stdin: io.BytesIO, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin.write(b"one\n\ntwo \xff\r\nlast")
    stdin.seek(0)

    assert barnabas("produce", "orders") == 0

    assert [record.value for record in orders.logs["orders"][0]] == [b"one", b"", b"two \xff\r", b"last"]
    assert orders.flush_count == 1
    assert capsys.readouterr().out == "4 records sent to orders\n"


def test_files_are_sent_with_keys_headers_and_partition(barnabas: Barnabas, orders: FakeBus, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text("a::1\nno key\n")
    second.write_text("b::2::3\n")

    arguments = ("--key-separator", "::", "--partition", "1", "--header", "from=test")
    assert barnabas("produce", "orders", str(first), str(second), *arguments) == 0

    records = orders.logs["orders"][1]
    assert [(record.key, record.value) for record in records] == [(b"a", b"1"), (None, b"no key"), (b"b", b"2::3")]
    assert {record.headers for record in records} == {(("from", b"test"),)}


def test_json_lines_are_what_consume_prints(
    barnabas: Barnabas, orders: FakeBus, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    orders.send("orders", b"\xff", key=b"k", headers=(("h", None),), timestamp_ms=5, partition=1)
    assert barnabas("consume", "orders", "--format", "json") == 0
    printed = tmp_path / "printed"
    printed.write_bytes(capfdbinary.readouterr().out)

    assert barnabas("produce", "orders", str(printed), "--json") == 0

    before, after = orders.logs["orders"][1]
    assert (before.key, before.value, before.headers, before.timestamp_ms) == (
        after.key,
        after.value,
        after.headers,
        after.timestamp_ms,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-file",),
        ("--json", "--key-separator", ":"),
        ("--key-separator", ""),
        ("--header", "x"),
        ("--rate", "0"),
    ],
)
def test_wrong_usage_exits_with_2_and_sends_nothing(
    barnabas: Barnabas, orders: FakeBus, arguments: tuple[str, ...]
) -> None:
    assert barnabas("produce", "orders", *arguments) == 2
    assert orders.flush_count == 0


def test_a_topic_that_does_not_exist_exits_with_1(barnabas: Barnabas, bus: FakeBus, stdin: io.BytesIO) -> None:
    stdin.write(b"one\n")
    stdin.seek(0)

    assert barnabas("produce", "orders") == 1


def test_the_first_separator_ends_the_key() -> None:
    assert parse_text(b"a:b:c", b":") == Line(b"b:c", b"a")
    assert parse_text(b":v", b":") == Line(b"v", b"")
    assert parse_text(b"v", b":") == Line(b"v")


def test_json_values_may_be_text_objects_or_null() -> None:
    assert parse_json(b'{"value": "x", "key": null}') == Line(b"x")
    assert parse_json(b'{"value": {"a": 1}}') == Line(b'{"a":1}')
    assert parse_json(b'{"value": null, "key": "k", "partition": 3}') == Line(None, b"k", 3)


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"{}", b'{"value_base64": "?"}', b'{"value": "x", "headers": [1]}'])
def test_a_line_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidRecord, match="not a record in JSON"):
        parse_json(line)


def test_a_line_that_is_too_long_is_refused() -> None:
    assert list(read_lines(io.BytesIO(b"1234\n5"), max_bytes=5)) == [b"1234\n", b"5"]
    with pytest.raises(RecordTooLarge, match="longer than 5"):
        list(read_lines(io.BytesIO(b"123456"), max_bytes=5))


def test_what_is_on_its_way_when_produce_is_interrupted_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(produce, "_LAST_S", 0.1)
    with EmbeddedBroker() as broker:
        broker.bus.create_topic("orders")
        bus = Bus(broker.bootstrap)
        bus.send("orders", b"1").result(60)
    bus.send("orders", b"2")
    bus.send("orders", b"3")

    with pytest.raises(typer.Exit) as leaving:
        produce._end_early(bus, "orders", is_typed=False)

    assert leaving.value.exit_code == 130
    printed = "1 record sent to orders, 2 records not acknowledged (it is unknown whether they were written)"
    assert capsys.readouterr().err == f"barnabas: interrupted: {printed}\n"


def test_a_second_interrupt_ends_produce_at_once(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    patience: list[float | None] = []

    def flush(timeout: float | None = None) -> None:
        patience.append(timeout)
        if timeout:
            raise KeyboardInterrupt
        raise DeliveryFailed("2 records were not acknowledged in time", 2)

    monkeypatch.setattr(bus, "flush", flush)

    assert produce._count_lost(bus) == 2  # type: ignore[arg-type]
    assert patience == [produce._LAST_S, 0.0]


def test_a_line_of_json_that_is_no_record_is_named_by_its_number(
    barnabas: Barnabas, orders: FakeBus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text('{"value": "a"}\n[1]\n')

    assert barnabas("produce", "orders", str(lines), "--json") == 1
    assert "line 2: not a record in JSON" in (said := capsys.readouterr().err)
    assert "it is not an object" in said


def test_a_producer_that_waits_for_long_says_what_for(
    barnabas: Barnabas,
    orders: FakeBus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\n")
    was_said = threading.Event()
    say = output.say

    def note(message: str, *, error: bool = False) -> None:
        say(message, error=error)
        was_said.set()

    monkeypatch.setattr(output, "SLOW_S", 0.01)
    monkeypatch.setattr(output, "say", note)
    monkeypatch.setattr(orders, "flush", lambda *_: was_said.wait(60))

    assert barnabas("produce", "orders", str(lines)) == 0
    assert "waiting for the broker to acknowledge records of orders" in capsys.readouterr().err


def test_a_question_that_is_not_answered_soon_says_whom_it_waits_for(
    barnabas: Barnabas, bus: FakeBus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    was_said = threading.Event()
    say = output.say

    def note(message: str, *, error: bool = False) -> None:
        say(message, error=error)
        was_said.set()

    monkeypatch.setattr(output, "SLOW_S", 0.01)
    monkeypatch.setattr(output, "say", note)
    monkeypatch.setattr(bus, "groups", lambda: [] if was_said.wait(60) else None)

    assert barnabas("group", "list", "--bootstrap", "somewhere:1") == 0
    assert "waiting for an answer from somewhere:1" in capsys.readouterr().err


def test_options_hold_for_every_record(
    barnabas: Barnabas, bus: FakeBus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.create_topic("orders")
    (tmp_path / "lines").write_text("a\nb\n")
    options = ("--key", "k", "--timestamp", "1234", "--compression", "zstd", "--acks", "1")
    assert barnabas("produce", "orders", str(tmp_path / "lines"), *options) == 0
    assert "2 records sent" in capsys.readouterr().out
    assert [(each.key, each.timestamp_ms) for each in bus.logs["orders"][0]] == [(b"k", 1234)] * 2
    assert bus.options["config"] == {"compression.type": "zstd", "acks": "1", "enable.idempotence": "false"}
    assert barnabas("produce", "orders", "--key", "k", "--key-separator", ":") == 2
    assert barnabas("produce", "orders", "--acks", "2") == 2
