"""What tells whether a batch that is run again is the one that was published.

Of a stream that is what its sources give for the batch: the entry of Spark's offset log in the checkpoint, and of a
source of files their names, where that is a directory that can be read from here. Of a batch write with a name it is
the rows themselves.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from barnabas.core.records.arrow_encoding import bytes_column
from barnabas.spark.sink.columns import Layout

_HEAD_LINES: Final = 2  # the version of the log, and the time and settings of the run: not what is read
_DIGEST_BYTES: Final = 16


def source_digest(checkpoint: str | None, batch_id: int) -> str:
    """A digest of what a batch reads; nothing where the checkpoint is not a directory of this machine."""
    directory = _local(checkpoint)
    if directory is None:
        return ""
    try:
        offsets = (directory / "offsets" / str(batch_id)).read_text().splitlines()[_HEAD_LINES:]
        parts = [part for number, offset in enumerate(offsets) for part in (offset, *_files(directory, number, offset))]
    except (OSError, ValueError):
        return ""
    return str(_hash("\n".join(parts).encode()).hexdigest())


def _local(checkpoint: str | None) -> Path | None:
    if not checkpoint:
        return None
    parts = urlsplit(checkpoint)
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
        return None
    return Path(unquote(parts.path) if parts.scheme else checkpoint)


def _files(directory: Path, source: int, offset: str) -> list[str]:
    """Of a source of files, the names of those that the offset stands for, as it has written them down."""
    about = json.loads(offset) if offset.startswith("{") else None
    number = about.get("logOffset") if isinstance(about, dict) else None
    if number is None:
        return []
    log = directory / "sources" / str(source)
    entry = log / str(number)
    return [(entry if entry.exists() else log / f"{number}.compact").read_text()]


class RowDigest:
    """A digest of what is sent of rows, in their order, however they are dealt out to Arrow batches."""

    def __init__(self, layout: Layout) -> None:
        self._positions = layout.positions
        self._streams: dict[str, Any] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        for name, position in self._positions.items():
            self._add(name, batch.column(position))

    def hexdigest(self) -> str:
        whole = _hash(b"")
        for name in sorted(self._streams):
            whole.update(name.encode() + b"\0" + self._streams[name].digest())
        return str(whole.hexdigest())

    def _add(self, name: str, column: Any) -> None:
        """Which values are null, how long they are, and what is in them: a stream each."""
        self._feed(f"{name}/null", pc.is_null(column).cast(pa.uint8()).to_numpy())
        if pa.types.is_list(column.type):
            self._feed(f"{name}/size", pc.list_value_length(column).fill_null(0).to_numpy())
            self._add(f"{name}/item", column.flatten())
        elif pa.types.is_struct(column.type):
            for field, child in zip(column.type, column.flatten(), strict=True):
                self._add(f"{name}/{field.name}", child)
        elif pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type):
            self._feed(f"{name}/number", column.cast(pa.int64()).fill_null(0).to_numpy())
        else:
            values = bytes_column(column.fill_null("" if pa.types.is_string(column.type) else b""))
            self._feed(f"{name}/size", values.lengths)
            if len(column):
                end = values.starts[-1] + values.lengths[-1]
                self._feed(f"{name}/bytes", values.data[values.starts[0] : end])

    def _feed(self, name: str, values: Any) -> None:
        self._streams.setdefault(name, _hash(b"")).update(values.tobytes())


def _hash(data: bytes) -> Any:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES)
