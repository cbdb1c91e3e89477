"""The ready-made jobs as commands. Each makes a pipeline of its options; `--yaml` prints it instead of running it."""

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
Target: TypeAlias = Annotated[str, typer.Argument(help="The topic to write; made if it is not there.")]
Schema: TypeAlias = Annotated[str | None, typer.Option(help="JSON: as in 'id long, at timestamp'. Avro: its JSON.")]
SchemaFile: TypeAlias = Annotated[str | None, typer.Option(help="The schema in a file.")]
Format: TypeAlias = Annotated[str | None, typer.Option(help="json, avro or raw; default: json if there is a schema.")]
Confluent: TypeAlias = Annotated[bool, typer.Option("--confluent", help="Avro after a schema registry's five bytes.")]
Check: TypeAlias = Annotated[list[str] | None, typer.Option(help="A condition that good rows meet (repeatable).")]
DeadLetters: TypeAlias = Annotated[str | None, typer.Option(help="Topic of bad records; default: NAME.dead-letters.")]
TableFormat: TypeAlias = Annotated[str, typer.Option(help="delta, parquet or iceberg.")]
ToTopic: TypeAlias = Annotated[str | None, typer.Option(help="The topic to write; made if it is not there.")]
ToTable: TypeAlias = Annotated[str | None, typer.Option(help="The Delta table to write.")]


def add_jobs(app: typer.Typer) -> None:
    """Each job as a command, with its own options and those that all have."""
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
    name: Annotated[str | None, typer.Option(help="The name of the pipeline; default: job and topic.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Directory; default: .checkpoints/NAME.")] = None,
    group: Annotated[str | None, typer.Option(help="Commit progress as this group, so that lag shows.")] = None,
    starting: Annotated[str | None, typer.Option(help="earliest or latest.")] = None,
    max_per_trigger: Annotated[int | None, typer.Option(min=1, help="Records in a micro-batch.")] = None,
    trigger: Annotated[str | None, typer.Option(help="continuous, available_now, or 'every 10 seconds'.")] = None,
    once: Once = False,
    seconds: Seconds = None,
    explain: Explain = False,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the pipeline as a file, run nothing.")] = False,
    master: Master = None,
    remote: Remote = None,
    verbose: Verbose = False,
) -> None:
    """Never called: the options that all jobs have."""


def archive(  # noqa: PLR0913 - one for each option
    topic: Topic,
    table: Annotated[str, typer.Argument(help="Where the table is, or is made; of Iceberg: the warehouse.")],
    *,
    common: dict[str, Any],
    format: Format = None,  # noqa: A002 - the option's name
    schema: Schema = None,
    schema_file: SchemaFile = None,
    confluent: Confluent = False,
    check: Check = None,
    table_format: TableFormat = "delta",
    iceberg_table: Annotated[str | None, typer.Option(help="Of Iceberg: namespace.name.")] = None,
    time: Annotated[str | None, typer.Option(help="The column whose date partitions; default: the record's.")] = None,
    evolve: Annotated[bool, typer.Option("--evolve", help="Add columns that the table lacks.")] = False,
    dead_letters: DeadLetters = None,
) -> "Pipeline":
    """A topic into a table, partitioned by date, exactly once."""
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
    topic: Annotated[str | None, typer.Option(help="Or the topic.", autocompletion=complete_topic)] = None,
    start: Annotated[str | None, typer.Option(help="From this time: ms since 1970, or ISO 8601.")] = None,
    end: Annotated[str | None, typer.Option(help="Up to this time, exclusive.")] = None,
    where: Annotated[str | None, typer.Option(help="A condition on rows.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The key, as SQL; default: column key if it is text or bytes.")
    ] = None,
    value: Annotated[str | None, typer.Option(help="The value, as SQL; default: column value, else JSON.")] = None,
) -> "Pipeline":
    """A table, or a range of time of a topic, into a topic, once."""
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
    table: Annotated[str, typer.Argument(help="Where the Delta table is, or is made.")],
    *,
    common: dict[str, Any],
    key: Annotated[list[str], typer.Option(help="A column of the key (repeatable).")],
    schema: Schema = None,
    schema_file: SchemaFile = None,
    format: Format = None,  # noqa: A002
    confluent: Confluent = False,
    check: Check = None,
    order_by: Annotated[list[str] | None, typer.Option(help="What makes a row newer; default: its offset.")] = None,
    delete: Annotated[str | None, typer.Option(help="The condition of a deletion, as in \"op = 'd'\".")] = None,
    column: Annotated[list[str] | None, typer.Option(help="A column to keep (repeatable); default: all.")] = None,
    remember_deletions: Annotated[
        str | None,
        typer.Option(help="How long older events after a deletion are known; default with --order-by: 7 days."),
    ] = None,
    dead_letters: DeadLetters = None,
) -> "Pipeline":
    """Change events into a table with the newest row of each key."""
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
        dead_letters=dead_letters,
        **common,
    )


def mirror(
    topic: Topic,
    *,
    common: dict[str, Any],
    to: Annotated[str, typer.Option(metavar="HOST:PORT", help="Brokers of the other cluster.")],
    to_topic: Annotated[str | None, typer.Option(help="Its name there, if it is to be another.")] = None,
    partitions: Annotated[int | None, typer.Option(min=1, help="If it has to be made; default: as many.")] = None,
    sync_groups: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUPS", help="Groups that are to go on there: names or regular expressions, 'a,b,team-.*'."
        ),
    ] = None,
) -> "Pipeline":
    """A topic into another cluster: keys, headers, timestamps, partitions stay, and groups can go on there."""
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
    time: Annotated[str | None, typer.Option(help="The column with the time; default: the record's.")] = None,
    slide: Annotated[str | None, typer.Option(help="A window that often; default: one after another.")] = None,
    delay: Annotated[str, typer.Option(help="How late a record may be.")] = "0 seconds",
    mode: Annotated[str, typer.Option(help="append: a window when it is closed; update: at every change.")] = "append",
    format: Format = None,  # noqa: A002
    schema: Schema = None,
    schema_file: SchemaFile = None,
    confluent: Confluent = False,
    check: Check = None,
    dead_letters: DeadLetters = None,
) -> "Pipeline":
    """Windows of time with sums and counts, into a topic and a table."""
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
    by: Annotated[list[str] | None, typer.Option(help="A column of the record; default: key (repeatable).")] = None,
    within: Annotated[str, typer.Option(help="How long a record is remembered.")] = "1 hour",
) -> "Pipeline":
    """A topic without the records that came again."""
    from barnabas.spark.pipelines import jobs

    return jobs.dedupe(topic, to_topic, by=by or ("key",), within=within, **common)


def enrich(  # noqa: PLR0913 - one for each option
    topic: Topic,
    *,
    common: dict[str, Any],
    table: Annotated[str, typer.Option(help="The table to look up in.")],
    on: Annotated[list[str], typer.Option(help="A column that both have (repeatable).")],
    schema: Schema = None,
    schema_file: SchemaFile = None,
    table_format: Annotated[str, typer.Option(help="delta or parquet.")] = "delta",
    to_topic: ToTopic = None,
    to_table: ToTable = None,
    column: Annotated[list[str] | None, typer.Option(help="A column to add (repeatable); default: all.")] = None,
    inner: Annotated[bool, typer.Option("--inner", help="Leave out records without a match.")] = False,
    key: Annotated[str | None, typer.Option(help="The key, as SQL; default: that of the record.")] = None,
    format: Format = None,  # noqa: A002
    confluent: Confluent = False,
    check: Check = None,
    dead_letters: DeadLetters = None,
) -> "Pipeline":
    """Records with the columns of a table beside them, into a topic or a table."""
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
    to_topic: Annotated[str | None, typer.Option(help="All into this topic; default: each where it was.")] = None,
    where: Annotated[str | None, typer.Option(help="Which: by error, source_topic, source_offset, key, ...")] = None,
) -> "Pipeline":
    """Dead letters back to where they came from, once."""
    from barnabas.spark.pipelines import jobs

    return jobs.redrive(dead_letters, to_topic=to_topic, where=where, **common)


def _split_outside_braces(text: str) -> list[str]:
    """At commas, but for those of a regular expression's {2,3}."""
    return re.split(r",(?![^{}]*\})", text)


def _one_of(given: str | None, option: str, choices: tuple[str, ...]) -> Any:
    if given is not None and given not in choices:
        raise typer.BadParameter(f"{given!r} is none of {', '.join(choices)}", param_hint=option)
    return given
