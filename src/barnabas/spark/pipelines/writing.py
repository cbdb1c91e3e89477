"""How a view is written: one function for each kind of sink, each giving the frame to write and its writer.

A writer takes a `DataStreamWriter` and where the query keeps its checkpoint, and makes it write there.
"""

import dataclasses
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from barnabas.core.errors import InvalidRequest
from barnabas.spark.pipelines.model import (
    ConsoleSink,
    DeltaSink,
    IcebergSink,
    ParquetSink,
    Sink,
    TopicSink,
    duration_ms,
)
from barnabas.spark.pipelines.problems import part
from barnabas.spark.tables.files import open_filesystem, write_durably
from barnabas.spark.tables.fitting import check_fits
from barnabas.spark.tables.settings import DELETE_COLUMN, TableSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Writer: TypeAlias = Callable[["DataStreamWriter", str], "DataStreamWriter"]
_MARK: Final = "barnabas-writer-id"


def is_counted(sink: Sink) -> bool:
    """Whether Spark itself says how many rows a sink was given; of files and of foreachBatch it does not."""
    match sink:
        case ParquetSink():
            return False
        case TopicSink():
            return sink.mode == "append"
        case DeltaSink() | IcebergSink():
            return sink.mode != "update"
        case ConsoleSink():
            return True


def describe_sink(sink: Sink) -> str:
    """Where a sink writes to, in few words."""
    match sink:
        case TopicSink():
            return "topics of the rows" if sink.topic is None else f"topic {sink.topic}"
        case IcebergSink():
            return f"iceberg {sink.table}"
        case DeltaSink() | ParquetSink():
            return f"{sink.__struct_config__.tag} {sink.path}"
        case ConsoleSink():
            return "console"


def output_mode(sink: Sink) -> str:
    return "append" if isinstance(sink, ParquetSink) else sink.mode


class Places(Protocol):
    """Where relative paths and unnamed brokers are."""

    @property
    def bootstrap(self) -> str: ...

    def resolve(self, path: str) -> str: ...


def writer_of(sink: Sink, frame: "DataFrame", places: Places) -> tuple["DataFrame", Writer]:
    """The rows to write, and how."""
    match sink:
        case TopicSink():
            return _into_topic(sink, frame, places)
        case DeltaSink():
            return _into_delta(sink, frame, places)
        case IcebergSink():
            return _into_iceberg(sink, frame, places)
        case ParquetSink():
            with part("partition_by"):
                _refuse_missing(frame, sink.partition_by)
            path = places.resolve(sink.path)
            options = sink.options

            def write(stream: "DataStreamWriter", _checkpoint: str) -> "DataStreamWriter":
                stream = stream.partitionBy(*sink.partition_by) if sink.partition_by else stream
                return stream.format("parquet").options(**options).option("path", path)

            return frame, write
        case ConsoleSink():
            return (
                frame,
                lambda stream, _checkpoint: stream.outputMode(sink.mode).format("console").option("numRows", sink.rows),
            )


def _into_topic(sink: TopicSink, frame: "DataFrame", places: Places) -> tuple["DataFrame", Writer]:
    rows = _record_columns(sink, frame)
    if sink.topic is None and "topic" not in rows.columns:
        raise InvalidRequest("a topic sink needs 'topic', or a column topic")
    options = {name: str(value) for name, value in sink.options.items()}
    return rows, topic_writer(sink.topic, sink.bootstrap or places.bootstrap, options, sink.mode)


def topic_writer(topic: str | None, bootstrap: str, options: Mapping[str, str], mode: str = "append") -> Writer:
    """Into a topic, or into the one that each row names."""
    given = {"kafka.bootstrap.servers": bootstrap, **options}
    if topic is not None:
        given["topic"] = topic

    def write(stream: "DataStreamWriter", checkpoint: str) -> "DataStreamWriter":
        if mode == "append":
            return stream.format("barnabas").options(**given)
        # Spark lets Python sinks only append; a batch in foreachBatch is published once by its name and number.
        name = _writer_id(checkpoint)

        def publish(batch: "DataFrame", batch_id: int) -> None:
            named = {"txnAppId": name, "txnVersion": str(batch_id), "checkpointLocation": checkpoint}
            batch.write.format("barnabas").options(**given, **named).mode("append").save()

        return stream.outputMode(mode).foreachBatch(publish)

    return write


def _record_columns(sink: TopicSink, frame: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    kinds = dict(frame.dtypes)
    columns = []
    as_bytes = {"key": sink.key, "value": sink.value}
    for name, text in as_bytes.items():
        if text is not None:
            with part(name):
                kind = "binary" if _type_of(frame, text) == "binary" else "string"
            columns.append(F.expr(text).cast(kind).cast("binary").alias(name))
        elif kinds.get(name) in ("binary", "string"):
            columns.append(F.col(name).cast("binary").alias(name))
        elif name == "value":
            columns.append(F.to_json(F.struct("*")).cast("binary").alias(name))
    typed = {"headers": sink.headers, "timestamp": sink.timestamp, "partition": sink.partition}
    kind_of = {"timestamp": "timestamp", "partition": "int", "headers": "array<struct<key:string,value:binary>>"}
    for name, text in typed.items():
        if text is not None:
            with part(name):
                _ = frame.select(F.expr(text).cast(kind_of[name])).columns
            columns.append(F.expr(text).cast(kind_of[name]).alias(name))
        elif kinds.get(name) == kind_of[name] and "value" in kinds and sink.value is None:
            columns.append(F.col(name))  # a record as the source had it, or as a step has made it
    if sink.topic is None and "topic" in kinds:
        columns.append(F.col("topic"))
    return frame.select(*columns)


def _type_of(frame: "DataFrame", text: str) -> str:
    from pyspark.sql import functions as F  # noqa: N812

    return frame.select(F.expr(text)).dtypes[0][1]


def _into_delta(sink: DeltaSink, frame: "DataFrame", places: Places) -> tuple["DataFrame", Writer]:
    settings = TableSettings("delta", places.resolve(sink.path), evolve=sink.evolve, **_layout(sink))
    return _into_table(sink, settings, frame)


def _into_iceberg(sink: IcebergSink, frame: "DataFrame", places: Places) -> tuple["DataFrame", Writer]:
    if sink.mode == "complete":
        raise InvalidRequest("an Iceberg table can only be appended to: mode complete is not possible")
    settings = TableSettings(
        "iceberg",
        places.resolve(sink.warehouse),
        table=sink.table,
        evolve=sink.evolve,
        catalog=dict(sink.catalog),
        **_layout(sink),
    )
    return _into_table(sink, settings, frame)


def _layout(sink: DeltaSink | IcebergSink) -> dict[str, Any]:
    merge = sink.merge
    return {
        "partition_by": tuple(sink.partition_by),
        "merge_keys": tuple(merge.keys) if merge else (),
        "merge_order": tuple(merge.order_by) if merge else (),
        "remember_deletions_ms": duration_ms(merge.remember_deletions) if merge and merge.delete else 0,
    }


def _into_table(
    sink: DeltaSink | IcebergSink, settings: TableSettings, frame: "DataFrame"
) -> tuple["DataFrame", Writer]:
    from pyspark.sql import functions as F  # noqa: N812

    with part("partition_by"):
        _refuse_missing(frame, settings.partition_by)
    with part("merge", "keys"):
        _refuse_missing(frame, settings.merge_keys)
        _refuse_no_keys(frame, settings.merge_keys)
    with part("merge", "order_by"):
        _refuse_missing(frame, settings.merge_order)
    check_fits(settings, frame.drop(DELETE_COLUMN))
    if sink.merge is not None and sink.merge.delete is not None:
        with part("merge", "delete"):
            _ = frame.where(sink.merge.delete).columns
        frame = frame.withColumn(DELETE_COLUMN, F.coalesce(F.expr(sink.merge.delete), F.lit(False)))
    return frame, _table_writer(settings, sink.mode)


def _table_writer(settings: TableSettings, mode: str) -> Writer:
    def write(stream: "DataStreamWriter", checkpoint: str) -> "DataStreamWriter":
        options = dataclasses.replace(settings, checkpoint=checkpoint).to_options()
        if mode != "update":
            return stream.outputMode(mode).format("barnabas-table").options(**options)

        # As with topics; tasks of foreachBatch know the query and the batch, so the commit is once here too.
        def add(batch: "DataFrame", _batch_id: int) -> None:
            batch.write.format("barnabas-table").options(**options).mode("append").save()

        return stream.outputMode("update").foreachBatch(add)

    return write


def _refuse_missing(frame: "DataFrame", names: tuple[str, ...] | list[str]) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise InvalidRequest(f"no column {', '.join(missing)}; the columns are {', '.join(frame.columns)}")


def _refuse_no_keys(frame: "DataFrame", names: tuple[str, ...]) -> None:
    """Refuse columns that do not tell rows apart: of NaN and -0.0, tables disagree about what is equal."""
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType, VariantType

    for name in names:
        kind = frame.schema[name].dataType
        if isinstance(kind, (FloatType, DoubleType, ArrayType, MapType, StructType, VariantType)):
            raise InvalidRequest(
                f"column {name} is {kind.simpleString()}, which is no key: rows are told apart by text, whole numbers, "
                f"decimals, dates, times, booleans and bytes; convert it in a step, as in cast({name} AS string)"
            )


def _writer_id(checkpoint: str) -> str:
    """A name that lives as long as the checkpoint: a new checkpoint counts its batches from 0 again."""
    filesystem, path = open_filesystem(checkpoint, _MARK)
    info: Any = filesystem.get_file_info(path)
    if info.is_file and info.size:  # an empty one is from before they were written whole
        with filesystem.open_input_stream(path) as stream:
            known: str = stream.read().decode()
            return known
    name = uuid.uuid4().hex
    write_durably(filesystem, path, name.encode())
    return name
