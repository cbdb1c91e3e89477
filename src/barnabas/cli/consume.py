"""`barnabas consume`: print records as they arrive, or up to the current end."""

import contextlib
import itertools
import sys
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from barnabas.cli import connection, output
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, Bootstrap, Topic
from barnabas.cli.formatting import FORMAT_HELP, Render, parse_format
from barnabas.cli.timestamps import parse_timestamp

if TYPE_CHECKING:
    from barnabas.client import Message


def consume(  # noqa: PLR0913, PLR0917 - one for each option
    topic: Topic,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start at the oldest record.")] = False,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this partition (repeatable).")] = None,
    offset: Annotated[int | None, typer.Option(min=0, help="Start at this offset.")] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(help="Start at this time: milliseconds since 1970, or ISO 8601 (local time without a zone)."),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(min=1, help="Only the newest so many records, in the order of their timestamps."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Stop at the first record of each partition at or after this time, or at the current end."),
    ] = None,
    max_records: Annotated[int | None, typer.Option("--max", min=0, help="Stop after this many records.")] = None,
    format_: Annotated[str, typer.Option("--format", "-f", help=FORMAT_HELP)] = r"%v\n",
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Merge all partitions in the order of their timestamps.")
    ] = False,
    until_end: Annotated[
        bool,
        typer.Option("--until-end", help="Stop at the current end; starts at the oldest record by default."),
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Read as a member of this group, from its committed offsets, and commit. A new group starts at the "
            "end, or at the oldest record with --from-beginning or --until-end.",
        ),
    ] = None,
    mode: Annotated[
        Literal["at-least-once", "at-most-once"],
        typer.Option(metavar="MODE", help="In a group: at-least-once commits after printing, at-most-once before."),
    ] = "at-least-once",
    isolation: Annotated[
        Literal["read_committed", "read_uncommitted"],
        typer.Option(
            metavar="LEVEL",
            help="read_committed, or read_uncommitted: include the records of aborted and open transactions.",
        ),
    ] = "read_committed",
) -> None:
    """Print the records of a topic: new ones as they arrive, or the ones selected by the options."""
    if group is not None:
        if partition or ordered or any(each is not None for each in (offset, timestamp, last, until)):
            raise typer.BadParameter(
                "--group cannot be used with --partition, --offset, --timestamp, --last, --until or --ordered"
            )
        _consume_group(
            topic,
            bootstrap,
            group,
            mode,
            start="earliest" if from_beginning or until_end else "latest",
            max_records=max_records,
            until_end=until_end,
            isolation=isolation,
            render=render_option(format_),
        )
        return
    ends = until_end or last is not None or until is not None
    start = _start(offset, from_beginning=from_beginning or ends)
    timestamp_ms = None if timestamp is None else parse_timestamp(timestamp)
    if sum((from_beginning, offset is not None, timestamp is not None, last is not None)) > 1:
        raise typer.BadParameter("give only one of --from-beginning, --offset, --timestamp and --last")
    if last is not None and (max_records is not None or until is not None):
        raise typer.BadParameter("--last cannot be used with --max or --until")
    render = render_option(format_)
    with output.quiet_end(), connection.open_bus(bootstrap) as bus:
        read = bus.merge if ordered or last is not None else bus.consume
        records = read(
            topic,
            partitions=partition,
            offset=start,
            timestamp_ms=timestamp_ms,
            last=last,
            until_end=ends,
            until_ms=None if until is None else parse_timestamp(until, "--until"),
            isolation=isolation,
        )
        with contextlib.closing(records):
            picked = itertools.islice(records, max_records) if last is None else deque(records, last)
            write_records(picked, render, at_once=not ends)


def _consume_group(
    topic: str,
    bootstrap: str,
    group: str,
    mode: Literal["at-least-once", "at-most-once"],
    *,
    start: Literal["earliest", "latest"],
    max_records: int | None,
    until_end: bool,
    isolation: Literal["read_committed", "read_uncommitted"],
    render: Render,
) -> None:
    """Print as a member of a group; partitions without a committed offset are read from `start`."""
    with output.quiet_end(), connection.open_bus(bootstrap) as bus:
        records = bus.consume(
            topic,
            group=group,
            mode=mode,
            offset=start,
            max_records=max_records,
            until_end=until_end,
            isolation=isolation,
        )
        with contextlib.closing(records):
            write_records(records, render, at_once=True)  # printed before it counts as processed


def _start(offset: int | None, *, from_beginning: bool) -> int | Literal["earliest", "latest"]:
    if offset is not None:
        return offset
    return "earliest" if from_beginning else "latest"


def render_option(format_: str) -> Render:
    """Parse the `--format` option; an invalid format is a usage error."""
    try:
        return parse_format(format_, for_terminal=sys.stdout.isatty())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--format") from None


def write_records(records: "Iterable[Message]", render: Render, *, at_once: bool) -> None:
    """Write records to stdout; with `at_once` each one is flushed."""
    out = sys.stdout.buffer
    for record in records:
        out.write(render(record))
        if at_once:
            out.flush()
    out.flush()
