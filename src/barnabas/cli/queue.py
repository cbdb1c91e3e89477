"""`barnabas queue`: consume, stats, peek, purge, redrive."""

import dataclasses
import itertools
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from barnabas.cli import connection, output
from barnabas.cli.confirming import Yes, confirm
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Group, Topic, complete_group
from barnabas.cli.consume import render_option, write_records
from barnabas.cli.formatting import FORMAT_HELP

if TYPE_CHECKING:
    from barnabas.client import Bus, Job, Message

app = typer.Typer(name="queue", help="Work off a topic as a queue (a share group).", no_args_is_help=True)

_PEEKED: Final = 10

OfGroup: TypeAlias = Annotated[
    str, typer.Option("--group", "-g", help="The share group.", autocompletion=complete_group)
]
Format: TypeAlias = Annotated[str, typer.Option("--format", "-f", help=FORMAT_HELP)]
AsJsonLines: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object per record.")]


@app.command()
def consume(
    topic: Topic,
    group: OfGroup,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many jobs.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds without a job.")] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--exec",
            metavar="CMD",
            help="Run this command for each job, with its value as input, instead of printing it. The job is accepted "
            "if the command exits with 0, and released to be tried again if not.",
        ),
    ] = None,
    format_: Format = r"%v\n",
    as_json: AsJsonLines = False,
) -> None:
    """Take jobs off a queue: print each, or run a command for it. A job is done once it is printed."""
    render = render_option("json" if as_json else format_)
    words = None if command is None else _words(command)
    with (
        output.quiet_end(),
        connection.open_bus(bootstrap) as bus,
        bus.queue(topic, group=group, timeout=timeout) as queue,
    ):
        for job in itertools.islice(queue, count):
            if words is None:
                with job:
                    write_records([job.message], render, at_once=True)
            else:
                _run(job, words)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise typer.BadParameter(f"{command!r}: {error}", param_hint="--exec") from None
    if not words:
        raise typer.BadParameter("the command is empty", param_hint="--exec")
    return words


def _run(job: "Job", words: list[str]) -> None:
    """Accept or release a job by the exit code of a command; if the command cannot be run, that ends it all."""
    try:
        with job:
            if subprocess.run(words, input=job.value or b"", check=False).returncode:
                job.release()
    except OSError as error:
        raise typer.BadParameter(f"cannot run {words[0]!r}: {error.strerror}", param_hint="--exec") from None


@app.command()
def stats(group: Group, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show how many records of each partition are not finished, and where the first of them is; then the dead letters
    that were not redriven.

    "retrying" records came back, and wait for a worker or for their time; the dead letters of "archiving" ones are yet
    to be written.
    """
    with connection.ask_bus(bootstrap) as bus:
        found = bus.queues.stats(group)
    rows = [
        (
            each.topic,
            each.partition,
            "-" if each.start_offset is None else each.start_offset,
            each.end_offset,
            "-" if each.depth is None or each.is_letters else each.depth,
            "-" if each.retrying is None else each.retrying,
            "-" if each.archiving is None else each.archiving,
            each.depth if each.is_letters else "-",
        )
        for each in found
    ]
    titles = ("topic", "partition", "start offset", "end offset", "depth", "retrying", "archiving", "dead letters")
    output.print_found(found, titles, rows, as_json=as_json)


@app.command()
def peek(
    topic: Topic,
    group: OfGroup,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    count: Annotated[int, typer.Option(min=1, help="How many records of each partition.")] = _PEEKED,
    format_: Format = r"%p\t%o\t%v\n",
    as_json: AsJsonLines = False,
) -> None:
    """Print what is next in each partition of a queue, without taking it; some of it may be with a worker already."""
    render = render_option("json" if as_json else format_)
    with output.quiet_end(), connection.ask_bus(bootstrap) as bus:
        for partition, start in sorted(bus.queues.starts(group, topic).items()):
            write_records(_read(bus, topic, partition, start, count), render, at_once=False)


def _read(bus: "Bus", topic: str, partition: int, start: int, count: int) -> "Iterator[Message]":
    with closing(bus.consume(topic, partitions=[partition], offset=start, until_end=True, max_records=count)) as found:
        yield from found


@app.command()
def purge(
    group: Group,
    topic: Topic,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Skip all records that a topic has now, for a group without members. The records themselves stay."""
    confirm(f"Skip all records of topic {topic} in group {group}?", yes=yes)
    with connection.ask_bus(bootstrap) as bus:
        starts = bus.queues.purge(group, topic)
    found = [Purged(topic, partition, start) for partition, start in starts.items()]
    rows = [(each.topic, each.partition, each.start_offset) for each in found]
    output.print_found(found, ("topic", "partition", "start offset"), rows, as_json=as_json)


@app.command()
def redrive(
    group: Group,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    limit: Annotated[int | None, typer.Option(min=1, help="Send no more letters than this.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Send the dead letters of a group back to the topics and partitions of their records.

    Each letter is sent once: how far they were read is kept in the group GROUP.redrive. Exits with 1 if some could not
    be sent, since they have no copy and their records are gone.
    """
    if not dry_run:
        confirm(f"Send the dead letters of group {group} back to their topics?", yes=yes)
    with connection.ask_bus(bootstrap) as bus:
        found = bus.queues.redrive(group, limit=limit, dry_run=dry_run)
    rows = [(found.topic, topic, count) for topic, count in sorted(found.sent.items())]
    output.print_found([found], ("letters", "to topic", "count"), rows, as_json=as_json)
    if found.duplicates or found.others:
        output.say(
            f"barnabas: left out {found.duplicates} letters that were there twice, and {found.others} records that are "
            f"no letters of group {group}",
            error=True,
        )
    if found.gone:
        output.say(f"barnabas: {found.gone} letters were not sent: their records are gone", error=True)
        raise typer.Exit(1)


@dataclasses.dataclass(frozen=True, slots=True)
class Purged:
    """Where a partition of a queue begins now."""

    topic: str
    partition: int
    start_offset: int
