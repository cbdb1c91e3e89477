"""The contents of a pipeline file. The JSON Schema in docs/pipeline.schema.json is made from these structs.

Owns the names and the types; what types cannot express (names that must exist, options that exclude each other) is in
`checking`.
"""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

_UNITS = r"(millisecond|second|minute|hour|day)s?"

ViewName: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="A name for SQL: letters, digits and underscores."),
]
PipelineName: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="Letters, digits, dots, underscores and hyphens.")
]
Duration: TypeAlias = Annotated[str, Meta(pattern=rf"^[0-9]+ {_UNITS}$", description="As in: 10 seconds.")]
_UNITS_MS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Names: TypeAlias = Annotated[list[Text], Meta(min_length=1)]
TriggerText: TypeAlias = Annotated[
    str,
    Meta(
        pattern=rf"^(available_now|once|continuous|every [0-9]+ {_UNITS})$",
        description=(
            "available_now (or once): up to the current end, then stop; continuous: one micro-batch after another; "
            "every 10 seconds: a micro-batch that often."
        ),
    ),
]
OutputMode: TypeAlias = Literal["append", "update", "complete"]
Options: TypeAlias = Annotated[dict[str, str | int | float | bool], Meta(description="Passed to Spark as they are.")]


class _Struct(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """No unknown keys; what is left out has its default, and is left out when written."""


def duration_ms(duration: str) -> int:
    """A `Duration` as a number."""
    count, unit = duration.split(" ")
    return int(count) * _UNITS_MS[unit.removesuffix("s")]


class Watermark(_Struct, frozen=True, kw_only=True):
    """How late a row may be, by the time in a column."""

    column: Text
    delay: Duration


class Parse(_Struct, frozen=True, kw_only=True):
    """How bytes become columns. What cannot be read, or fails a check, goes to the dead letters."""

    format: Literal["json", "avro", "raw"]
    schema: Annotated[Text, Meta(description="JSON: a Spark DDL schema. Avro: the schema as JSON.")] | None = None
    schema_file: Annotated[Text, Meta(description="The same in a file, beside the pipeline.")] | None = None
    checks: Annotated[list[Text], Meta(description="SQL conditions that a good row meets.")] = []
    column: Annotated[Text, Meta(description="The column with the bytes.")] = "value"
    confluent: Annotated[bool, Meta(description="Skip the five bytes of a schema registry before the value.")] = False
    tombstone_keys: Annotated[
        list[Text],
        Meta(
            description="Columns that a record without a value takes from its key, which is a JSON object, or the text "
            "of the one column. There is a column _tombstone then; checks are not made of such rows."
        ),
    ] = []


class TopicSource(_Struct, frozen=True, kw_only=True, tag="topic", tag_field="type"):
    """Records of topics; `options` are those of Spark's Kafka source."""

    name: ViewName
    topic: Text | None = None
    topics: Names | None = None
    pattern: Annotated[Text, Meta(description="All topics in whose name this regular expression is found.")] | None = (
        None
    )
    bootstrap: Text | None = None
    starting_offsets: Annotated[Text, Meta(description="earliest, latest, or JSON by topic and partition.")] = (
        "earliest"
    )
    starting_timestamp: Annotated[int, Meta(ge=0, description="Milliseconds since 1970.")] | None = None
    ending_timestamp: Annotated[int, Meta(ge=0, description="Milliseconds since 1970; exclusive.")] | None = None
    max_per_trigger: Annotated[int, Meta(ge=1, description="At most so many records in a micro-batch.")] | None = None
    group: Annotated[Text, Meta(description="Commit progress as this consumer group, so that lag shows.")] | None = None
    parse: Parse | None = None
    watermark: Watermark | None = None
    options: Options = {}


class FilesSource(_Struct, frozen=True, kw_only=True, tag="files", tag_field="type"):
    """Files of a directory, each read once."""

    name: ViewName
    path: Text
    format: Literal["json", "csv", "parquet", "orc", "text"]
    schema: Annotated[Text, Meta(description="A Spark DDL schema; found by looking if left out.")] | None = None
    stream: Annotated[bool, Meta(description="Take up files that come later; else read all, once per batch.")] = True
    watermark: Watermark | None = None
    options: Options = {}


class TableSource(_Struct, frozen=True, kw_only=True, tag="table", tag_field="type"):
    """A table: to join with, or, as a stream, to replay once.

    Each micro-batch is joined with what a Delta or Iceberg table has when it runs; of Parquet files, with those that
    were there when the pipeline started.
    """

    name: ViewName
    format: Literal["delta", "parquet", "iceberg"]
    path: Annotated[Text, Meta(description="Where the table is; of Iceberg: the warehouse.")]
    table: Annotated[Text, Meta(description="Of Iceberg: namespace.name.")] | None = None
    stream: Annotated[bool, Meta(description="Read the current contents once, file by file.")] = False
    version: Annotated[int, Meta(ge=0, description="Of Delta: this version instead of the newest.")] | None = None
    options: Options = {}


class JdbcSource(_Struct, frozen=True, kw_only=True, tag="jdbc", tag_field="type"):
    """A table or a query of a database, read as it is when the pipeline starts. The driver's JAR is yours to bring."""

    name: ViewName
    url: Text
    table: Text | None = None
    query: Text | None = None
    options: Options = {}


Source: TypeAlias = TopicSource | FilesSource | TableSource | JdbcSource


class Step(_Struct, frozen=True, kw_only=True):
    """A view made from those before it: by SQL, or by a Python function of data frames."""

    name: ViewName
    sql: Text | None = None
    python: (
        Annotated[
            str,
            Meta(
                pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$",
                description="package.module:function; gets the frames of `inputs`, gives one.",
            ),
        ]
        | None
    ) = None
    inputs: Annotated[list[ViewName], Meta(description="For `python` and `parse`; default: the view before.")] = []
    options: Annotated[Options, Meta(description="Keyword arguments of the function.")] = {}
    parse: Parse | None = None
    watermark: Watermark | None = None


class Merge(_Struct, frozen=True, kw_only=True):
    """Upsert instead of append: the newest row of each key wins."""

    keys: Names
    order_by: Annotated[Names, Meta(description="The newest row of a key has the greatest of these.")]
    delete: Annotated[Text, Meta(description="SQL condition: rows that remove their key.")] | None = None
    remember_deletions: Annotated[
        Duration, Meta(description="How long an older row that comes after a deletion is known as such.")
    ] = "7 days"


class _Sink(_Struct, frozen=True, kw_only=True):
    name: ViewName | None = None
    from_: Annotated[ViewName, Meta(description="The view to write; default: the last.")] | None = field(
        default=None, name="from"
    )


class TopicSink(_Sink, frozen=True, kw_only=True, tag="topic", tag_field="type"):
    """Into a topic, exactly once. Without `value`: the column value if it is text or bytes, else the row as JSON."""

    topic: Text | None = None
    bootstrap: Text | None = None
    key: Annotated[Text, Meta(description="SQL expression.")] | None = None
    value: Annotated[Text, Meta(description="SQL expression.")] | None = None
    headers: Annotated[Text, Meta(description="SQL expression: array<struct<key string, value binary>>.")] | None = None
    timestamp: Annotated[Text, Meta(description="SQL expression.")] | None = None
    partition: Annotated[Text, Meta(description="SQL expression.")] | None = None
    partitions: Annotated[int, Meta(ge=1, description="If the topic has to be made: so many.")] | None = None
    sync_groups: Annotated[
        list[Text],
        Meta(
            description="Names (or regular expressions) of consumer groups of the source topic that are to go on here: "
            "their offsets are translated by the header mirror.offset, which the job mirror adds."
        ),
    ] = []
    mode: OutputMode = "append"
    options: Options = {}


class DeltaSink(_Sink, frozen=True, kw_only=True, tag="delta", tag_field="type"):
    """Into a Delta table, exactly once."""

    path: Text
    partition_by: list[Text] = []
    evolve: Annotated[bool, Meta(description="Add columns that the table does not have.")] = False
    merge: Merge | None = None
    mode: OutputMode = "append"


class ParquetSink(_Sink, frozen=True, kw_only=True, tag="parquet", tag_field="type"):
    """Into Parquet files, by Spark's own sink: exactly once for readers that know _spark_metadata."""

    path: Text
    partition_by: list[Text] = []
    options: Options = {}


class IcebergSink(_Sink, frozen=True, kw_only=True, tag="iceberg", tag_field="type"):
    """Into an Iceberg table, exactly once. The catalog is catalog.db in the warehouse unless `catalog` says."""

    table: Annotated[str, Meta(pattern=r"^[^.]+\.[^.]+$", description="namespace.name")]
    warehouse: Text
    partition_by: list[Text] = []
    evolve: Annotated[bool, Meta(description="Add columns that the table does not have.")] = False
    catalog: Annotated[dict[str, str], Meta(description="PyIceberg's properties of another catalog.")] = {}
    merge: Merge | None = None
    mode: OutputMode = "append"


class ConsoleSink(_Sink, frozen=True, kw_only=True, tag="console", tag_field="type"):
    """Onto the terminal."""

    rows: Annotated[int, Meta(ge=1)] = 20
    mode: OutputMode = "append"


Sink: TypeAlias = TopicSink | DeltaSink | ParquetSink | IcebergSink | ConsoleSink


class DeadLetters(_Struct, frozen=True, kw_only=True):
    """Where bad records go."""

    topic: Text
    bootstrap: Text | None = None
    partitions: Annotated[int, Meta(ge=1, description="If the topic has to be made: so many.")] | None = None


class PipelineModel(_Struct, frozen=True, kw_only=True):
    """One pipeline: sources are read, steps make views of them, sinks write views."""

    name: PipelineName
    description: str | None = None
    bootstrap: Annotated[Text, Meta(description="Brokers of all topics; default: BARNABAS_BOOTSTRAP.")] | None = None
    sources: Annotated[list[Source], Meta(min_length=1)]
    steps: list[Step] = []
    sinks: Annotated[list[Sink], Meta(min_length=1)]
    trigger: TriggerText = "continuous"
    checkpoint: Annotated[Text, Meta(description="Directory; default: .checkpoints/NAME beside the file.")] | None = (
        None
    )
    dead_letters: DeadLetters | Text | None = None
    spark: Annotated[dict[str, str | int | float | bool], Meta(description="Settings of the Spark session.")] = {}
