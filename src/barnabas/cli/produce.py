"""`barnabas produce`: lines of files or of stdin become records."""

import base64
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer

from barnabas.cli import connection, output, signals
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, Bootstrap, Topic, parse_pairs
from barnabas.cli.timestamps import parse_timestamp
from barnabas.core.errors import InvalidRecord, RecordTooLarge

if TYPE_CHECKING:
    from barnabas.client import Bus

MAX_LINE_BYTES = 64 * 1024 * 1024
_PROBE_EVERY = 1000  # records after which it is looked whether an earlier one failed
_PROGRESS_BYTES = 64 * 1024
_LAST_S = 5.0  # how long an interrupted command waits for what is on its way
_WHY_SLOW = "see the logs of the brokers: a disk may be full, or a partition cannot be written"
_Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Line:
    """The record that one line of input stands for."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


def produce(  # noqa: PLR0913, PLR0917 - one for each option
    topic: Topic,
    files: Annotated[list[Path] | None, typer.Argument(help="Files to read; default: stdin.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    key_separator: Annotated[
        str | None, typer.Option(help="What separates the key from the value; a line without it has no key.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The key of every record.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Send every record to this partition.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="A header for every record, NAME=VALUE (repeatable).")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(help="The time of every record: milliseconds since 1970, or ISO 8601. Default: now."),
    ] = None,
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"] | None,
        typer.Option(metavar="CODEC", help="none, gzip, snappy, lz4 or zstd."),
    ] = None,
    acks: Annotated[
        Literal["0", "1", "all"] | None,
        typer.Option(
            metavar="ACKS",
            help="Who must have a record: all (in-sync replicas, the default), 1 (the leader) or 0 (nobody).",
        ),
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="At most this many records per second.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Lines are JSON, as `consume --format json` prints them.")
    ] = False,
) -> None:
    """Send each line of stdin, or of files, as a record."""
    if as_json and key_separator is not None:
        raise typer.BadParameter("--json lines have their own keys: omit --key-separator")
    if key is not None and (as_json or key_separator is not None):
        raise typer.BadParameter("give only one of --key, --key-separator and --json")
    if key_separator == "":
        raise typer.BadParameter("must not be empty", param_hint="--key-separator")
    headers = tuple((name, value.encode()) for name, value in parse_pairs(header or [], "--header").items())
    parse = parse_json if as_json else _text_parser(key_separator)
    every = Line(
        None,
        None if key is None else key.encode(),
        partition,
        headers,
        None if timestamp is None else parse_timestamp(timestamp),
    )
    _refuse_missing(files or [])
    with connection.open_bus(bootstrap, config=_client_settings(compression, acks)) as bus:
        sender = _Sender(bus, topic, every, rate)
        try:
            with _progress(files or []) as advance:
                for number, line in enumerate(_lines(files or []), 1):
                    sender.send(_parsed(parse, line, number))
                    advance(len(line))
                waiting = f"waiting for the broker to acknowledge records of {topic}"
                with output.said_when_slow(lambda: f"{waiting}; {connection.why_slow(bootstrap) or _WHY_SLOW}"):
                    bus.flush()
        except KeyboardInterrupt:
            _end_early(bus, topic, is_typed=not files and sys.stdin.isatty())
    output.say(f"{_records(sender.count)} sent to {topic}")


def _client_settings(compression: str | None, acks: str | None) -> dict[str, str]:
    settings = {} if compression is None else {"compression.type": compression}
    if acks is not None:
        settings |= {"acks": acks, "enable.idempotence": "true" if acks == "all" else "false"}
    return settings


def _end_early(bus: "Bus", topic: str, *, is_typed: bool) -> None:
    """At Ctrl-C or SIGTERM, print how many records were acknowledged and how many were not.

    This is the usual end of typed input.
    """
    lost = _count_lost(bus)
    if is_typed and not lost:
        return
    message = f"interrupted: {_records(bus.acknowledged_count)} sent to {topic}"
    if lost:
        message += f", {_records(lost)} not acknowledged (it is unknown whether they were written)"
    output.say(f"barnabas: {message}", error=True)
    raise typer.Exit(signals.exit_code())


def _count_lost(bus: "Bus") -> int:
    """How many records are not acknowledged soon, or now if there is a second Ctrl-C; none is sent afterwards."""
    from barnabas.client import DeliveryFailed

    lost = 0
    for patience_s in (_LAST_S, 0.0):
        try:
            bus.flush(patience_s)
        except DeliveryFailed as failure:
            lost = failure.count
        except KeyboardInterrupt:
            continue
        break
    with contextlib.suppress(DeliveryFailed):
        bus.close(0)
    return lost


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


class _Sender:
    """Sends lines, at most at the given rate, and stops early when deliveries fail.

    What `every` record has is given by options; the partition also where a line names another.
    """

    def __init__(self, bus: "Bus", topic: str, every: Line, rate: float | None) -> None:
        self._bus, self._topic, self._every, self._rate = bus, topic, every, rate
        self._started = time.monotonic()
        self._probe: Any = None
        self.count = 0

    def send(self, line: Line) -> None:
        self._keep_rate()
        every = self._every
        sent = self._bus.send(
            self._topic,
            line.value,
            key=line.key if every.key is None else every.key,
            partition=line.partition if every.partition is None else every.partition,
            headers=every.headers + line.headers,
            timestamp_ms=line.timestamp_ms if every.timestamp_ms is None else every.timestamp_ms,
        )
        if self.count % _PROBE_EVERY == 0:
            if self._probe is not None and self._probe.done():
                self._probe.result(0)
            self._probe = sent
        self.count += 1

    def _keep_rate(self) -> None:
        if self._rate is not None:
            early_s = self._started + self.count / self._rate - time.monotonic()
            if early_s > 0:
                time.sleep(early_s)


def _parsed(parse: Callable[[bytes], Line], line: bytes, number: int) -> Line:
    try:
        return parse(line.removesuffix(b"\n"))
    except InvalidRecord as refusal:
        raise InvalidRecord(f"line {number}: {refusal}") from None


def _text_parser(separator: str | None) -> Callable[[bytes], Line]:
    if separator is None:
        return Line
    wanted = separator.encode()
    return lambda line: parse_text(line, wanted)


def parse_text(line: bytes, separator: bytes) -> Line:
    key, found, value = line.partition(separator)
    return Line(value, key) if found else Line(line)


def parse_json(line: bytes) -> Line:
    """Parse a line as `consume --format json` prints it; only the value is required, null for a tombstone."""
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise TypeError('it is not an object, such as {"key": "a", "value": "b"}')
        return Line(
            value=_json_bytes(row, "value"),
            key=_json_bytes(row, "key", None),
            partition=row.get("partition"),
            headers=tuple((str(one["name"]), _json_bytes(one, "value")) for one in row.get("headers", ())),
            timestamp_ms=row.get("timestamp"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else error
        raise InvalidRecord(f"not a record in JSON: {line[:100]!r} ({problem})") from None


def _json_bytes(row: Any, name: str, *default: None) -> bytes | None:
    encoded = row.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    value = row.get(name, *default) if default else row[name]
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()


def _refuse_missing(files: list[Path]) -> None:
    for path in files:
        if not path.is_file():
            raise typer.BadParameter(f"{path} is not a file", param_hint="FILES")


def _lines(files: list[Path]) -> Iterator[bytes]:
    if not files:
        yield from read_lines(sys.stdin.buffer)
    for path in files:
        with path.open("rb") as file:
            yield from read_lines(file)


def read_lines(file: BinaryIO, max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Lines with their line ends; a line that is too long is refused before it fills the memory."""
    while line := file.readline(max_bytes + 1):
        if len(line) > max_bytes:
            raise RecordTooLarge(f"a line is longer than {max_bytes} bytes")
        yield line


@contextlib.contextmanager
def _progress(files: list[Path]) -> Iterator[_Advance]:
    """A bar on a terminal, unless lines are typed there; nothing elsewhere."""
    if not sys.stderr.isatty() or (not files and sys.stdin.isatty()):
        yield lambda _size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    total = sum(path.stat().st_size for path in files) if files else None
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sending", total=total)
        waiting = 0

        def advance(size: int) -> None:
            nonlocal waiting
            waiting += size
            if waiting >= _PROGRESS_BYTES:  # moving the bar for every record would cost more than sending it
                progress.advance(task, waiting)
                waiting = 0

        yield advance
