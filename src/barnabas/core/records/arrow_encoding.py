"""Arrow columns to record batches, with no Python per record: the way back of `columnar`.

Owns how a batch grows: its records section is written into one buffer behind the room for a header, up to a limit, and
is compressed and given its header when it is taken. The producer and the sequence are set later, without a copy.

Needs the optional dependencies pyarrow and numba. Must not know: sockets, partitions, Spark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.core.errors import InvalidRecord
from barnabas.core.model import NO_EPOCH
from barnabas.core.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Codec,
    attributes_of,
    seal,
    write_header,
)
from barnabas.core.records.compression import compress

try:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from barnabas.core.records import encode_kernels
except ImportError as error:
    raise ImportError("encoding records from Arrow needs pyarrow and numba: pip install 'barnabas[arrow]'") from error

_FIRST_ROOM: Final = 16 * 1024
_LARGEST: Final = 2**31 - 1 - HEADER_SIZE
_NO_BYTES: Final = np.empty(0, np.uint8)
_NO_LONGS: Final = np.empty(0, np.int64)


class BytesColumn(NamedTuple):
    """A binary or string column: all its bytes, where each value begins, and its length, -1 for a null."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


class HeadersColumn(NamedTuple):
    """For each row, where its headers begin in `names` and `contents` and how many they are; or empty arrays."""

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    names: BytesColumn
    contents: BytesColumn


NO_HEADERS: Final = HeadersColumn(
    _NO_LONGS,
    _NO_LONGS,
    BytesColumn(_NO_BYTES, _NO_LONGS, _NO_LONGS),
    BytesColumn(_NO_BYTES, _NO_LONGS, _NO_LONGS),
)


class RowColumns(NamedTuple):
    """Rows that are to become records."""

    keys: BytesColumn
    values: BytesColumn
    timestamps_ms: NDArray[np.int64]
    headers: HeadersColumn = NO_HEADERS


def bytes_column(array: Any) -> BytesColumn:
    """A column of type binary, string, or their large kinds; the bytes are not copied."""
    is_large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    every = np.frombuffer(offsets, np.int64 if is_large else np.int32)
    bounds = every[array.offset : array.offset + len(array) + 1].astype(np.int64)
    starts, lengths = bounds[:-1], np.diff(bounds)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    return BytesColumn(_NO_BYTES if data is None else np.frombuffer(data, np.uint8), starts, lengths)


def null_column(count: int) -> BytesColumn:
    """A column of nothing but nulls."""
    return BytesColumn(_NO_BYTES, np.zeros(count, np.int64), np.full(count, -1, np.int64))


def headers_column(array: Any) -> HeadersColumn:
    """A column of type list<struct<key: string, value: binary>>, without nulls in it but for values and whole lists."""
    ends = array.offsets.to_numpy().astype(np.int64)
    counts = np.diff(ends)
    if array.null_count:
        counts[array.is_null().to_numpy(zero_copy_only=False)] = 0
    pairs = array.values
    return HeadersColumn(ends[:-1].copy(), counts, bytes_column(pairs.field(0)), bytes_column(pairs.field(1)))


@dataclass(slots=True)
class EncodedBatch:
    """A batch without its producer: `stamp` completes it."""

    buffer: memoryview
    record_count: int
    base_timestamp: int
    max_timestamp: int
    codec: Codec
    level: int | None

    def stamp(self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool) -> None:
        """Write the header, with the checksum."""
        header = BatchHeader(
            base_offset=0,
            batch_length=len(self.buffer) - LOG_OVERHEAD,
            leader_epoch=NO_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=attributes_of(self.codec, is_transactional=is_transactional),
            last_offset_delta=self.record_count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.record_count,
        )
        write_header(self.buffer, 0, header)
        seal(self.buffer, 0, len(self.buffer))


class BatchBuilder:
    """A batch that grows row by row up to `limit_bytes`, its header counted and before compression.

    A record that is larger than that is a batch of its own.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._out = np.empty(min(_FIRST_ROOM, max(limit_bytes, HEADER_SIZE)), np.uint8)
        self._used = HEADER_SIZE
        self._base_timestamp = 0
        self._max_timestamp = 0
        self.record_count = 0

    @property
    def size(self) -> int:
        """How large the batch is so far, before compression."""
        return self._used

    def add(self, columns: RowColumns, rows: NDArray[np.int64], first: int) -> int:
        """Append the records of the rows with the numbers `rows[first:]`; how many, which is fewer when it is full."""
        if self.record_count == 0:
            self._base_timestamp = self._max_timestamp = int(columns.timestamps_ms[rows[first]])
        start = first
        while True:
            taken, self._used, too_large = self._encode(columns, rows, first)
            self.record_count += taken
            first += taken
            if not too_large or not self._make_room(too_large):
                break
        if first > start:
            newest = int(columns.timestamps_ms[rows[start:first]].max())
            self._max_timestamp = max(self._max_timestamp, newest)
        return first - start

    def take(self, codec: Codec = Codec.NONE, level: int | None = None) -> EncodedBatch:
        """The batch so far; the next one begins."""
        buffer = self._out.data[: self._used]
        if codec is not Codec.NONE:
            section = compress(codec, buffer[HEADER_SIZE:], level)
            buffer = memoryview(bytearray(HEADER_SIZE + len(section)))
            buffer[HEADER_SIZE:] = section
        taken = EncodedBatch(buffer, self.record_count, self._base_timestamp, self._max_timestamp, codec, level)
        self._out = np.empty(min(len(self._out), max(self._limit, HEADER_SIZE)), np.uint8)
        self._used, self.record_count = HEADER_SIZE, 0
        return taken

    def _encode(self, columns: RowColumns, rows: NDArray[np.int64], first: int) -> Sequence[int]:
        keys, values, timestamps, headers = columns
        found: Sequence[int] = encode_kernels.encode_records(
            rows,
            first,
            *keys,
            *values,
            timestamps,
            headers.starts,
            headers.counts,
            *headers.names,
            *headers.contents,
            self._base_timestamp,
            self.record_count,
            self._out,
            self._used,
        )
        return found

    def _make_room(self, size: int) -> bool:
        """Grow for a record of `size`, unless the batch is full."""
        needed = self._used + size
        if needed > self._limit and self.record_count:
            return False
        if needed > _LARGEST:
            raise InvalidRecord(f"a record of {size} bytes is too large for any batch")
        grown = np.empty(max(needed, min(2 * len(self._out), self._limit)), np.uint8)
        grown[: self._used] = self._out[: self._used]
        self._out = grown
        return True
