"""Parquet files of one task: one for each value of the partition columns.

Owns their layout (`column=value/part-...parquet`) and their durability: a file that is handed on is on disk.
"""

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from barnabas.core.errors import InvalidRequest

if TYPE_CHECKING:
    import pyarrow as pa

MAX_OPEN_FILES: Final = 64
Values: TypeAlias = tuple[str | int | bool | date | None, ...]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file, its path relative to the table."""

    path: str
    size: int
    rows: int
    partition_values: tuple[tuple[str, str | None], ...]

    def stats(self) -> str:
        """What Delta keeps of a file: the number of its rows."""
        return json.dumps({"numRecords": self.rows})


def local_path(uri: str) -> Path | None:
    """The path of a table on this machine, or None if it is elsewhere."""
    if uri.startswith("file:"):
        return Path("/" + uri.removeprefix("file:").lstrip("/"))
    return None if re.match(r"^[a-z0-9]+://", uri) else Path(uri)


class PartFiles:
    """The files that one task writes below `root`."""

    def __init__(
        self, root: str, schema: "pa.Schema", *, partition_by: Sequence[str], keep_partition_columns: bool, part: str
    ) -> None:
        self._root = root
        self._partition_by = list(partition_by)
        self._schema = schema if keep_partition_columns else without(schema, partition_by)
        self._part = part
        self._open: dict[Values, _PartFile] = {}
        self._written: list[WrittenFile] = []
        for name in partition_by:
            _refuse_partition_type(schema, name)

    def write(self, batches: Iterable["pa.RecordBatch"]) -> list[WrittenFile]:
        """Write all, and return when it is on disk."""
        for batch in batches:
            for values, rows in split(batch, self._partition_by):
                self._file(values).write(rows.select(self._schema.names).cast(self._schema))
        for values in list(self._open):
            self._close(values)
        return self._written

    def _file(self, values: Values) -> "_PartFile":
        if values not in self._open:
            if len(self._open) >= MAX_OPEN_FILES:
                self._close(next(iter(self._open)))
            named = dict(zip(self._partition_by, values, strict=True))
            folder = "".join(f"{name}={_folder_name(value)}/" for name, value in named.items())
            path = f"{folder}part-{self._part}-{uuid.uuid4().hex}.parquet"
            texts = tuple((name, _text(value)) for name, value in named.items())
            self._open[values] = _PartFile(self._root, path, self._schema, texts)
        return self._open[values]

    def _close(self, values: Values) -> None:
        self._written.append(self._open.pop(values).close())


class _PartFile:
    def __init__(
        self, root: str, path: str, schema: "pa.Schema", partition_values: tuple[tuple[str, str | None], ...]
    ) -> None:
        import pyarrow.parquet as pq

        self._path = path
        self._partition_values = partition_values
        self._rows = 0
        self._filesystem, full = open_filesystem(root, path)
        self._full = full
        self._filesystem.create_dir(full.rpartition("/")[0], recursive=True)
        self._writer = pq.ParquetWriter(full, schema, filesystem=self._filesystem, compression="zstd")

    def write(self, batch: "pa.RecordBatch") -> None:
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def close(self) -> WrittenFile:
        self._writer.close()
        if self._filesystem.type_name == "local":
            _sync(Path(self._full))
        size = self._filesystem.get_file_info(self._full).size
        return WrittenFile(self._path, size, self._rows, self._partition_values)


def open_filesystem(root: str, path: str = "") -> tuple[Any, str]:
    """Where a table is, and the full path of one of its files there."""
    from pyarrow import fs

    local = local_path(root)
    if local is not None:
        return fs.LocalFileSystem(), str(local.absolute() / path)
    filesystem, base = fs.FileSystem.from_uri(root)
    return filesystem, f"{base.rstrip('/')}/{path}"


def write_durably(filesystem: Any, path: str, content: bytes) -> None:
    """Create a file that is on disk, complete, when this returns, and does not exist before."""
    filesystem.create_dir(path.rpartition("/")[0], recursive=True)
    is_local = filesystem.type_name == "local"  # elsewhere an object is there as a whole or not at all
    unfinished = f"{path}.unfinished" if is_local else path
    with filesystem.open_output_stream(unfinished) as stream:
        stream.write(content)
    if is_local:
        _sync(Path(unfinished))
        Path(unfinished).replace(path)
        _sync(Path(path))


def split(batch: "pa.RecordBatch", columns: list[str]) -> Iterator[tuple[Values, "pa.RecordBatch"]]:
    """The rows of a batch by the values of some columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not columns:
        yield (), batch
        return
    found = pa.Table.from_batches([batch]).select(columns).group_by(columns).aggregate([]).to_pylist()
    for row in found:
        mask: Any = pa.scalar(True)
        for name, value in row.items():
            column = batch.column(name)
            mask = pc.and_(
                mask, pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type))
            )
        yield tuple(row[name] for name in columns), (batch if len(found) == 1 else batch.filter(mask))


def without(schema: "pa.Schema", names: Iterable[str]) -> "pa.Schema":
    import pyarrow as pa

    left_out = set(names)
    return pa.schema([field for field in schema if field.name not in left_out])


def table_schema(schema: "pa.Schema") -> "pa.Schema":
    """Spark's Arrow schema as tables have it: times in UTC, everything optional."""
    import pyarrow as pa

    def plain(kind: "pa.DataType") -> "pa.DataType":
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return pa.timestamp("us", tz="UTC")
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(each.name, plain(each.type), nullable=True) for each in kind])
        if pa.types.is_list(kind):
            return pa.list_(pa.field("element", plain(kind.value_type), nullable=True))
        return kind

    return pa.schema([pa.field(field.name, plain(field.type), nullable=True) for field in schema])


def read_batches(
    root: str, path: str, partition_values: Mapping[str, str | None], schema: "pa.Schema"
) -> Iterator["pa.RecordBatch"]:
    """The rows of one file of a table, in exactly this schema; what the file does not have is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    filesystem, full = open_filesystem(root, path) if not path.startswith("/") else open_filesystem(path)
    with pq.ParquetFile(full, filesystem=filesystem) as file:
        present = set(file.schema_arrow.names)
        for batch in file.iter_batches(columns=[name for name in schema.names if name in present]):
            columns = []
            for field in schema:
                if field.name in present:
                    columns.append(batch.column(field.name).cast(field.type))
                else:
                    constant = pa.scalar(partition_values.get(field.name), pa.string()).cast(field.type)
                    columns.append(pa.repeat(constant, batch.num_rows))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _refuse_partition_type(schema: "pa.Schema", name: str) -> None:
    import pyarrow as pa

    if name not in schema.names:
        raise InvalidRequest(f"there is no column {name!r} to partition by: there is {', '.join(schema.names)}")
    kind = schema.field(name).type
    if not any(test(kind) for test in (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)):
        raise InvalidRequest(
            f"column {name!r} is {kind}: a table can be partitioned by text, whole numbers, dates, booleans"
        )


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def _folder_name(value: Any) -> str:
    """A folder for a value. The table's log has the value itself; the name is for people."""
    text = _text(value)
    if text is None:
        return "__HIVE_DEFAULT_PARTITION__"
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", text):
        return text
    return f"__{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _sync(path: Path) -> None:
    for each in (path, path.parent):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
