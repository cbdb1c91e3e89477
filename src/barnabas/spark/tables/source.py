"""The data source `barnabas-table`: tables into Spark, whole or file by file as a stream, and streams into tables."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from barnabas.spark.checkpoints import source_offsets
from barnabas.spark.tables import delta, iceberg, merging, steps
from barnabas.spark.tables.files import PartFiles, WrittenFile, read_batches, table_schema
from barnabas.spark.tables.fitting import plain_types
from barnabas.spark.tables.identity import Batch, fingerprint
from barnabas.spark.tables.settings import TableSettings
from barnabas.spark.tables.steps import TableStep

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_FORMAT: Final = "barnabas-table"


class TableDataSource(DataSource):
    """Delta or Iceberg, as `TableSettings` say."""

    @classmethod
    def name(cls) -> str:
        return TABLE_FORMAT

    def schema(self) -> StructType:
        import pyarrow as pa

        settings = self._settings()
        if settings.format == "delta":
            arrow = pa.schema(delta.open_table(settings).schema().to_arrow())
        else:
            arrow = iceberg.open_table(settings).schema().as_arrow()
        return from_arrow_schema(plain_types(arrow))

    def reader(self, schema: StructType) -> "TableReader":
        return TableReader(self._settings(), schema)

    def streamReader(self, schema: StructType) -> "TableStreamReader":  # noqa: N802 - Spark's name
        return TableStreamReader(self._settings(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> "TableWriter":
        return TableWriter(self._settings(), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "TableStreamWriter":  # noqa: N802
        return TableStreamWriter(self._settings(), schema, overwrite=overwrite)

    def _settings(self) -> TableSettings:
        return TableSettings.from_options(self.options)


@dataclass
class TableFile(InputPartition):
    """One file to read; `partition_values` are the columns that are not in it."""

    path: str
    partition_values: dict[str, str | None]


@dataclass
class FilesWritten(WriterCommitMessage):
    """What one task wrote, of which batch of which query."""

    query_id: str
    batch_id: int
    files: list[WrittenFile]


class NewestVersion(InputPartition):
    """All files of the version that is the newest when the task runs."""


class TableReader(DataSourceReader):
    """The table as it is when a job runs, or at the version that was asked for.

    Spark plans a frame once, for all jobs that it is used in: what is the newest version is left to the task. There is
    one task, because several would not agree on it while somebody writes.
    """

    def __init__(self, settings: TableSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        files = _list_files(self._settings)  # what cannot be read is refused before anything runs
        return [NewestVersion(None)] if self._settings.version is None else files

    def read(self, partition: InputPartition | None) -> Iterator["pa.RecordBatch"]:
        files = _list_files(self._settings) if isinstance(partition, NewestVersion) else [partition]
        for each in files:
            yield from _read(self._settings, self._schema, each)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The files of one version, in order, each once. The version is part of the offset: a restart stays with it."""

    def __init__(self, settings: TableSettings, schema: StructType) -> None:
        self._settings = settings
        self._schema = schema

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"version": delta.open_table(self._settings).version(), "file": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802, ARG002
        count = len(self._files(start["version"]))
        end = min(count, start["file"] + self._settings.max_files_per_trigger)
        return {"version": start["version"], "file": max(end, start["file"])}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The version is fixed, so there is an end in any case."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._files(end["version"])[start["file"] : end["file"]]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return _read(self._settings, self._schema, partition)

    def _files(self, version: int) -> list[TableFile]:
        cached: tuple[int, list[TableFile]] | None = getattr(self, "_cached", None)
        if cached is None or cached[0] != version:
            from dataclasses import replace

            self._cached = cached = (version, _list_files(replace(self._settings, version=version)))
        return cached[1]


class _TwoPhases:
    """Tasks write files, the commit adds them to the table: all of a batch, and once."""

    def __init__(self, settings: TableSettings, schema: StructType, *, overwrite: bool) -> None:
        self._settings = settings
        self._schema = schema
        self._overwrite = overwrite

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> FilesWritten:
        context = TaskContext.get()
        assert context is not None
        query_id, batch_id = _identity(context)
        prefix = ""
        root = self._settings.path
        if self._settings.merge_keys:
            prefix = f"{merging.STAGING}/{query_id}/{batch_id}/"
            root = merging.staging_of(self._settings, query_id, batch_id)
        elif self._settings.format == "iceberg":
            root = iceberg.files_root(self._settings)
        files = PartFiles(
            root,
            self._arrow_schema(),
            partition_by=() if self._settings.merge_keys else self._settings.partition_by,
            keep_partition_columns=self._settings.format == "iceberg",
            part=f"{context.partitionId():05d}",
        )
        written = files.write(batch for batch in iterator if batch.num_rows)
        if written:
            steps.reached(TableStep.WRITTEN, self._settings.path)
        return FilesWritten(query_id, batch_id, [_prefixed(prefix, each) for each in written])

    def _add(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        told = [each for each in messages if isinstance(each, FilesWritten)]
        files = [file for each in told for file in each.files]
        if not told or (not files and not self._overwrite):
            return  # nothing to add, so nothing that could be added twice
        settings, schema = self._settings, self._arrow_schema()
        number = told[0].batch_id
        source = source_offsets(settings.checkpoint, number)
        row_count = sum(each.rows for each in files)
        batch = Batch(told[0].query_id, number, fingerprint(source.digest, row_count), source.topics)
        if settings.merge_keys:
            (iceberg if settings.format == "iceberg" else delta).merge_files(settings, schema, files, batch=batch)
        elif settings.format == "iceberg":
            iceberg.commit_files(settings, schema, files, batch=batch)
        else:
            delta.commit_files(settings, schema, files, batch=batch, overwrite=self._overwrite)

    def _arrow_schema(self) -> "pa.Schema":
        return table_schema(to_arrow_schema(self._schema, timezone="UTC"))


class TableStreamWriter(_TwoPhases, DataSourceStreamArrowWriter):
    """A stream into a table."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        self._add(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Files stay: the commit may have succeeded without our hearing of it. The table's vacuum finds the others."""


class TableWriter(_TwoPhases, DataSourceArrowWriter):
    """A batch of a stream into a table, in foreachBatch: there tasks know query and batch as well."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._add(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """As above."""


def _identity(context: TaskContext) -> tuple[str, int]:
    """Query and batch, which a batch that is run again has again. A write that is no stream has a name of its own."""
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    if query_id is None or batch_id is None:
        return f"batch-{uuid.uuid4().hex}", 0
    return query_id, int(batch_id)


def _prefixed(prefix: str, file: WrittenFile) -> WrittenFile:
    return WrittenFile(prefix + file.path, file.size, file.rows, file.partition_values)


def _list_files(settings: TableSettings) -> list[TableFile]:
    if settings.format == "delta":
        return [TableFile(path, values) for path, values in delta.list_files(settings)]
    return [TableFile(path.removeprefix("file://"), {}) for path in iceberg.list_files(settings)]


def _read(settings: TableSettings, schema: StructType, partition: InputPartition | None) -> Iterator["pa.RecordBatch"]:
    if isinstance(partition, TableFile):
        arrow = to_arrow_schema(schema, timezone="UTC")
        yield from read_batches(settings.path, partition.path, partition.partition_values, arrow)
