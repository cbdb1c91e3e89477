"""The ready-made jobs as commands.

Each makes a pipeline from its options; `--yaml` prints the pipeline instead of running it.
"""

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import typer

from barnabas.cli import connection
from barnabas.cli.connection import DEFAULT_BOOTSTRAP, Bootstrap, complete_topic, parse_pairs
from barnabas.cli.pipeline_running import Explain, Master, Once, Remote, Seconds, Verbose, run_pipeline
from barnabas.cli.timestamps import parse_timestamp

if TYPE_CHECKING:
    from barnabas.spark.pipelines import Pipeline

FORMATS = ("json", "avro", "raw")
TABLE_FORMATS = ("delta", "parquet", "iceberg")

Topic: TypeAlias = Annotated[str, typer.Argument(help="The topic to read.", autocompletion=complete_topic)]
Target: TypeAlias = Annotated[str, typer.Argument(help="The topic to write; created if it does not exist.")]
Schema: TypeAlias = Annotated[
    str | None, typer.Option(help="For JSON, as in 'id long, at timestamp'; for Avro, the schema as JSON.")
]
SchemaFile: TypeAlias = Annotated[str | None, typer.Option(help="A file with the schema.")]
Format: TypeAlias = Annotated[
    str | None, typer.Option(help="json, avro or raw; default: json if a schema is given, else raw.")
]
Confluent: TypeAlias = Annotated[
    bool, typer.Option("--confluent", help="Avro values start with a schema registry's five bytes.")
]
Check: TypeAlias = Annotated[list[str] | None, typer.Option(help="A SQL condition that good rows meet (repeatable).")]
DeadLetters: TypeAlias = Annotated[
    str | None, typer.Option(help="The topic for bad records; default: NAME.dead-letters.")
]
TableFormat: TypeAlias = Annotated[str, typer.Option(help="delta, parquet or iceberg.")]
ToTopic: TypeAlias = Annotated[str | None, typer.Option(help="The topic to write; created if it does not exist.")]
ToTable: TypeAlias = Annotated[str | None, typer.Option(help="The Delta table to write.")]


def add_jobs(app: typer.Typer) -> None:
    """Add each job as a command, with its own options and the shared ones."""
    for job in (archive, replay, cdc, mirror, aggregate, dedupe, enrich, redrive):
        app.command()(_as_command(job))
    app.command("join", hidden=True)(_as_command(enrich))


def _as_command(job: Callable[..., "Pipeline"]) -> Callable[..., None]:
    shared = inspect.signature(_shared_options).parameters
    own = [each for each in inspect.signature(job).parameters.values() if each.name != "common"]

    def command(**given: Any) -> None:
        settings = {name: given.pop(name) for name in shared}
        running = {name: settings.pop(name) for name in ("once", "seconds", "explain", "master", "remote", "verbose")}
        as_yaml = settings.pop("yaml")
        settings["starting_offsets"] = settings.pop("starting")
        pipeline = job(**given, common={name: value for name, value in settings.items() if value is not None})
        if as_yaml:
            typer.echo(pipeline.to_yaml(), nl=False)
        else:
            run_pipeline(pipeline, **running)

    # typer reads a function's parameters from these.
    by_name = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared.values())]
    command.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    hints = {**get_type_hints(_shared_options, include_extras=True), **_own_hints(job)}
    command.__annotations__ = {name: hint for name, hint in hints.items() if name != "return"}
    command.__name__, command.__doc__ = job.__name__, job.__doc__
    return command


def _own_hints(job: Callable[..., "Pipeline"]) -> dict[str, Any]:
    return {name: hint for name, hint in job.__annotations__.items() if name not in ("return", "common")}


def _shared_options(  # noqa: PLR0913 - one for each option
    *,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    name: Annotated[str | None, typer.Option(help="The name of the pipeline; default: made of job and topic.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="The checkpoint directory; default: .checkpoints/NAME.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Commit progress as this consumer group, so that its lag can be seen.")
    ] = None,
    starting: Annotated[str | None, typer.Option(help="earliest or latest.")] = None,
    max_per_trigger: Annotated[
        int | None, typer.Option(min=1, help="At most this many records in a micro-batch.")
    ] = None,
    trigger: Annotated[str | None, typer.Option(help="continuous, available_now, or 'every 10 seconds'.")] = None,
    once: Once = False,
    seconds: Seconds = None,
    explain: Explain = False,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the pipeline as a file and run nothing.")] = False,
    master: Master = None,
    remote: Remote = None,
    verbose: Verbose = False,
) -> None:
    """Never called: holds the options that all jobs share."""


def archive(  # noqa: PLR0913 - one for each option
    topic: Topic,
    table: Annotated[str, typer.Argument(help="The path of the table; for Iceberg, of the warehouse.")],
    *,
    common: dict[str, Any],
    format: Format = None,  # noqa: A002 - the option's name
    schema: Schema = None,
    schema_file: SchemaFile = None,
    confluent: Confluent = False,
    check: Check = None,
    table_format: TableFormat = "delta",
    iceberg_table: Annotated[str | None, typer.Option(help="For Iceberg: NAMESPACE.NAME.")] = None,
    time: Annotated[
        str | None, typer.Option(help="The column whose date partitions the table; default: the record's timestamp.")
    ] = None,
    evolve: Annotated[bool, typer.Option("--evolve", help="Add missing columns to the table.")] = False,
    dead_letters: DeadLetters = None,
) -> "Pipeline":
    """Archive a topic in a table, partitioned by date, exactly once."""
    from barnabas.spark.pipelines import jobs

    return jobs.archive(
        topic,
        table,
        format=_one_of(format, "--format", FORMATS),
        schema=schema,
        schema_file=schema_file,
        confluent=confluent,
        checks=check or (),
        table_format=_one_of(table_format, "--table-format", TABLE_FORMATS),
        iceberg_table=iceberg_table,
        time=time,
        evolve=evolve,
        dead_letters=dead_letters,
        **common,
    )


def replay(
    to_topic: Target,
    *,
    common: dict[str, Any],
    table: Annotated[str | None, typer.Option(help="The table to replay.")] = None,
    table_format: Annotated[str, typer.Option(help="delta or parquet.")] = "delta",
    topic: Annotated[
        str | None, typer.Option(help="The topic to replay, instead of a table.", autocompletion=complete_topic)
    ] = None,
    start: Annotated[str | None, typer.Option(help="From this time: milliseconds since 1970, or ISO 8601.")] = None,
    end: Annotated[str | None, typer.Option(help="Up to this time, exclusive.")] = None,
    where: Annotated[str | None, typer.Option(help="A SQL condition: only these rows.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The key, as SQL; default: column key if it is text or bytes.")
    ] = None,
    value: Annotated[str | None, typer.Option(help="The value, as SQL; default: column value, else JSON.")] = None,
) -> "Pipeline":
    """Replay a table, or a time range of a topic, into a topic, once."""
    from barnabas.spark.pipelines import jobs

    return jobs.replay(
        to_topic,
        table=table,
        table_format=_one_of(table_format, "--table-format", TABLE_FORMATS),
        topic=topic,
        start_ms=None if start is None else parse_timestamp(start, "--start"),
        end_ms=None if end is None else parse_timestamp(end, "--end"),
        where=where,
        key=key,
        value=value,
        **common,
    )


def cdc(  # noqa: PLR0913 - one for each option
    topic: Topic,
    table: Annotated[str, typer.Argument(help="The path of the table; for Iceberg, of the warehouse.")],
    *,
    common: dict[str, Any],
    key: Annotated[list[str], typer.Option(help="A column of the key (repeatable).")],
    schema: Schema = None,
    schema_file: SchemaFile = None,
    format: Format = None,  # noqa: A002
    confluent: Confluent = False,
    check: Check = None,
    order_by: Annotated[
        list[str] | None,
        typer.Option(help="A column that determines which row is newer (repeatable); default: the offset."),
    ] = None,
    delete: Annotated[str | None, typer.Option(help="The SQL condition of a deletion, as in \"op = 'd'\".")] = None,
    column: Annotated[list[str] | None, typer.Option(help="A column to keep (repeatable); default: all.")] = None,
    remember_deletions: Annotated[
        str | None,
        typer.Option(help="How long deletions are remembered; default with --order-by: 7 days."),
    ] = None,
    tombstone_order: Annotated[
        list[str] | None,
        typer.Option(help="With --order-by: the SQL to order records without a value by, as in '_timestamp'."),
    ] = None,
    table_format: Annotated[str, typer.Option(help="delta or iceberg.")] = "delta",
    iceberg_table: Annotated[str | None, typer.Option(help="For Iceberg: NAMESPACE.NAME.")] = None,
    evolve: Annotated[bool, typer.Option("--evolve", help="Add missing columns to the table.")] = False,
    dead_letters: DeadLetters = None,
) -> "Pipeline":
    """Apply change events to a table: the newest row of each key, deletions included."""
    from barnabas.spark.pipelines import jobs

    return jobs.cdc(
        topic,
        table,
        keys=key,
        schema=schema,
        schema_file=schema_file,
        format=_one_of(format, "--format", FORMATS),
        confluent=confluent,
        checks=check or (),
        order_by=order_by or (),
        delete=delete,
        columns=column or (),
        remember_deletions=remember_deletions,
        tombstone_order=tombstone_order or (),
        table_format=_one_of(table_format, "--table-format", ("delta", "iceberg")),
        iceberg_table=iceberg_table,
        evolve=evolve,
        dead_letters=dead_letters,
        **common,
    )


def mirror(
    topic: Topic,
    *,
    common: dict[str, Any],
    to: Annotated[str, typer.Option(metavar="HOST:PORT", help="Brokers of the other cluster.")],
    to_topic: Annotated[str | None, typer.Option(help="The topic's name there, if different.")] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of a new topic; default: as many as here.")
    ] = None,
    sync_groups: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUPS", help="Consumer groups to synchronize: names or regular expressions, as in 'a,b,team-.*'."
        ),
    ] = None,
) -> "Pipeline":
    """Mirror a topic into another cluster, with its keys, headers, timestamps, partitions and consumer groups."""
    from barnabas.spark.pipelines import jobs

    if partitions is None:
        with connection.open_bus(common["bootstrap"]) as bus:
            partitions = len(bus.describe_topic(topic).partitions)
    groups = [each.strip() for text in sync_groups or () for each in _split_outside_braces(text) if each.strip()]
    return jobs.mirror(topic, to_bootstrap=to, to_topic=to_topic, partitions=partitions, sync_groups=groups, **common)


def aggregate(  # noqa: PLR0913 - one for each option
    topic: Topic,
    *,
    common: dict[str, Any],
    select: Annotated[list[str], typer.Option(metavar="NAME=SQL", help="As in 'revenue=sum(amount)' (repeatable).")],
    window: Annotated[str, typer.Option(help="As in '10 seconds'.")],
    to_topic: ToTopic = None,
    to_table: ToTable = None,
    by: Annotated[list[str] | None, typer.Option(help="A column to group by (repeatable).")] = None,
    time: Annotated[str | None, typer.Option(help="The column with the time; default: the record's timestamp.")] = None,
    slide: Annotated[str | None, typer.Option(help="Start a window this often; default: one after another.")] = None,
    delay: Annotated[str, typer.Option(help="How late a record may be.")] = "0 seconds",
    mode: Annotated[
        str, typer.Option(help="append: write a window when it is closed; update: whenever it changes.")
    ] = "append",
    format: Format = None,  # noqa: A002
    schema: Schema = None,
    schema_file: SchemaFile = None,
    confluent: Confluent = False,
    check: Check = None,
    dead_letters: DeadLetters = None,
) -> "Pipeline":
    """Aggregate a topic over time windows, into a topic or a table."""
    from barnabas.spark.pipelines import jobs

    return jobs.aggregate(
        topic,
        aggregates=parse_pairs(select, "--select"),
        window=window,
        time=time,
        slide=slide,
        delay=delay,
        by=by or (),
        to_topic=to_topic,
        to_table=to_table,
        mode=_one_of(mode, "--mode", ("append", "update")),
        format=_one_of(format, "--format", FORMATS),
        schema=schema,
        schema_file=schema_file,
        confluent=confluent,
        checks=check or (),
        dead_letters=dead_letters,
        **common,
    )


def dedupe(
    topic: Topic,
    to_topic: Target,
    *,
    common: dict[str, Any],
    by: Annotated[
        list[str] | None, typer.Option(help="A column that identifies duplicates (repeatable); default: key.")
    ] = None,
    within: Annotated[str, typer.Option(help="How long a record is remembered.")] = "1 hour",
) -> "Pipeline":
    """Copy a topic without its duplicates."""
    from barnabas.spark.pipelines import jobs

    return jobs.dedupe(topic, to_topic, by=by or ("key",), within=within, **common)


def enrich(  # noqa: PLR0913 - one for each option
    topic: Topic,
    *,
    common: dict[str, Any],
    table: Annotated[str, typer.Option(help="The table to join with.")],
    on: Annotated[list[str], typer.Option(help="A column to join on (repeatable).")],
    schema: Schema = None,
    schema_file: SchemaFile = None,
    table_format: Annotated[str, typer.Option(help="delta or parquet.")] = "delta",
    to_topic: ToTopic = None,
    to_table: ToTable = None,
    column: Annotated[list[str] | None, typer.Option(help="A column to add (repeatable); default: all.")] = None,
    inner: Annotated[bool, typer.Option("--inner", help="Leave out records without a match.")] = False,
    key: Annotated[str | None, typer.Option(help="The key, as SQL; default: the record's.")] = None,
    format: Format = None,  # noqa: A002
    confluent: Confluent = False,
    check: Check = None,
    dead_letters: DeadLetters = None,
) -> "Pipeline":
    """Add the columns of a table to each record, into a topic or a table."""
    from barnabas.spark.pipelines import jobs

    return jobs.enrich(
        topic,
        table=table,
        on=on,
        schema=schema,
        schema_file=schema_file,
        table_format=_one_of(table_format, "--table-format", TABLE_FORMATS),
        to_topic=to_topic,
        to_table=to_table,
        columns=column or (),
        inner=inner,
        key=key,
        format=_one_of(format, "--format", FORMATS),
        confluent=confluent,
        checks=check or (),
        dead_letters=dead_letters,
        **common,
    )


def redrive(
    dead_letters: Annotated[str, typer.Argument(help="The topic of dead letters.", autocompletion=complete_topic)],
    *,
    common: dict[str, Any],
    to_topic: Annotated[
        str | None, typer.Option(help="Send all records to this topic; default: each to the topic it came from.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="A SQL condition on error, source_topic, source_offset, key, ...")
    ] = None,
) -> "Pipeline":
    """Send dead letters back to where they came from, once."""
    from barnabas.spark.pipelines import jobs

    return jobs.redrive(dead_letters, to_topic=to_topic, where=where, **common)


def _split_outside_braces(text: str) -> list[str]:
    """Split at commas, except those inside the braces of a regular expression, as in {2,3}."""
    return re.split(r",(?![^{}]*\})", text)


def _one_of(given: str | None, option: str, choices: tuple[str, ...]) -> Any:
    if given is not None and given not in choices:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(choices)}", param_hint=option)
    return given
