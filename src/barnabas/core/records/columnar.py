"""Record batches to Arrow: whole fetch responses and log reads as columns, with no Python per record.

Owns the columns, and which batches a consumer gets to see: control batches never, batches of aborted
transactions if it is told which those are. Beside the columns, no more than two decompressed batches are in
memory at a time.

The columns:

- `key`, `value`: binary, null where the record's is.
- `offset`: int64.
- `timestamp`: timestamp('ms', 'UTC'). Kafka counts milliseconds since 1970 in UTC; with the zone Arrow and
  Spark take it for the instant it is, without it for the wall clock of wherever they run. A record without a
  timestamp has -1, one millisecond before 1970, as Kafka's own consumers show it.
- `timestamp_type`: int8, 0 for the producer's time and 1 for the log's.
- `headers`: list<struct<key: string, value: binary>>, empty if there are none. An Arrow string must be UTF-8,
  so in a header key that is not, what is wrong becomes U+FFFD, as in Java's consumer.

Needs the optional dependencies pyarrow and numba; importing this module without them says how to get them.

Must not know: sockets, files, the order of partitions, Spark.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from barnabas.core.errors import RecordTooLarge
from barnabas.core.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    Codec,
    check_crc,
    iter_batches,
    iter_whole_batches,
)
from barnabas.core.records.control import MarkerType, read_marker
from barnabas.core.records.record import check_counts, payload

try:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import DTypeLike, NDArray

    from barnabas.core.records import kernels, native
except ImportError as error:
    raise ImportError("decoding records to Arrow needs pyarrow and numba: pip install 'barnabas[arrow]'") from error

# What all batches of one call may decompress to. Arrow's binary columns end at 2 GiB, so this may as well.
DEFAULT_MAX_BYTES: Final = 512 * 1024 * 1024
LARGEST_MAX_BYTES: Final = 2**31 - 1

_HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
_HEADERS_TYPE: Final = pa.list_(pa.field("item", _HEADER_TYPE, nullable=False))
SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("timestamp_type", pa.int8(), nullable=False),
        pa.field("headers", _HEADERS_TYPE, nullable=False),
    ]
)

# Producer id and first offset of an aborted transaction, as a fetch response lists them.
AbortedTransaction: TypeAlias = tuple[int, int]

_FLUSH_ROWS: Final = 4096  # an index of that many rows stays in the processor's cache


def decode_arrow(
    buffer: Buffer,
    *,
    start_offset: int = 0,
    end_offset: int | None = None,
    columns: Iterable[str] | None = None,
    aborted: Iterable[AbortedTransaction] = (),
    max_bytes: int = DEFAULT_MAX_BYTES,
    verify_crc: bool = True,
    allow_partial: bool = True,
) -> pa.RecordBatch:
    """The records of all batches in `buffer` with `start_offset <= offset < end_offset`, as columns.

    `columns` picks some of `SCHEMA` by name, in that order; what is not picked is not copied. Transactions in
    `aborted` are left out, the way a read_committed consumer does. An incomplete last batch, which a fetch
    response may end with, is ignored unless `allow_partial` is false. Over `max_bytes` of records, after
    decompression, is `RecordTooLarge`: read less at a time.
    """
    if not 0 <= max_bytes <= LARGEST_MAX_BYTES:
        raise ValueError(f"max_bytes is {max_bytes}; Arrow's binary columns hold 0..{LARGEST_MAX_BYTES}")
    fields = _pick(columns)
    sink = _Columns({field.name for field in fields}, len(buffer))
    whole = np.frombuffer(buffer, np.uint8)
    left = max_bytes
    for position, header in _visible_batches(buffer, aborted, verify_crc=verify_crc, allow_partial=allow_partial):
        if _is_outside(header, start_offset, end_offset):
            continue
        if verify_crc:
            check_crc(buffer, position, header)
        if header.codec is Codec.NONE:
            data, start, stop = whole, position + HEADER_SIZE, position + header.size
        else:
            data = np.frombuffer(payload(buffer, position, header, max_bytes=left), np.uint8)
            start, stop = 0, len(data)
        left -= stop - start
        if left < 0:
            raise RecordTooLarge(f"the records take more than the limit of {max_bytes} bytes")
        sink.add(data, start, stop, header)
        if header.base_offset < start_offset or (end_offset is not None and header.last_offset >= end_offset):
            sink.trim(header, start_offset, end_offset)
    sink.flush()
    return pa.RecordBatch.from_arrays([sink.column(f.name) for f in fields], schema=pa.schema(fields))


def next_offset(buffer: Buffer, *, allow_partial: bool = True) -> int | None:
    """The offset after the last whole batch, seen or not: where to read on. None if there is no batch."""
    offset = None
    for _, header in _batches(buffer, allow_partial=allow_partial):
        offset = header.next_offset
    return offset


def _pick(columns: Iterable[str] | None) -> list[Any]:
    if columns is None:
        return list(SCHEMA)
    names = list(columns)
    unknown = [name for name in names if name not in SCHEMA.names]
    if unknown or len(set(names)) < len(names):
        raise ValueError(f"columns {names}: pick each at most once from {SCHEMA.names}")
    return [SCHEMA.field(name) for name in names]


def _is_outside(header: BatchHeader, start_offset: int, end_offset: int | None) -> bool:
    """Whether none of the batch is wanted; one with an invalid range is never skipped, but refused later."""
    if header.last_offset_delta < 0:
        return False
    return header.last_offset < start_offset or (end_offset is not None and header.base_offset >= end_offset)


def _batches(buffer: Buffer, *, allow_partial: bool) -> Iterator[tuple[int, BatchHeader]]:
    return iter_whole_batches(buffer) if allow_partial else iter_batches(buffer)


def _visible_batches(
    buffer: Buffer, aborted: Iterable[AbortedTransaction], *, verify_crc: bool, allow_partial: bool
) -> Iterator[tuple[int, BatchHeader]]:
    """The batches with records for a consumer.

    A producer's batches are aborted from the first offset of an aborted transaction up to its abort marker:
    the same producer may have committed before and may commit after it.
    """
    pending = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    for position, header in _batches(buffer, allow_partial=allow_partial):
        while pending and pending[-1][1] <= header.last_offset:
            aborting.add(pending.pop()[0])
        if header.is_control:
            if header.producer_id in aborting:
                if verify_crc:
                    check_crc(buffer, position, header)
                if read_marker(buffer, position, header).type is MarkerType.ABORT:
                    aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield position, header


class _Growing:
    """An array of one type that is made larger when there is no room; only what was written is touched."""

    def __init__(self, dtype: DTypeLike, capacity: int) -> None:
        self.array: NDArray[Any] = np.empty(capacity, dtype)

    def reserve(self, used: int, extra: int) -> NDArray[Any]:
        """The free part of the array after `used`, with room for `extra`."""
        needed = used + extra
        if needed > len(self.array):
            larger = np.empty(max(needed, 2 * len(self.array)), self.array.dtype)
            larger[:used] = self.array[:used]
            self.array = larger
        return self.array[used:needed]


class _BytesColumn:
    """Binary values one after the other, as Arrow keeps them."""

    def __init__(self, capacity: int) -> None:
        self.data = _Growing(np.uint8, capacity)
        self.used = 0
        self.count = 0
        self._offsets = _Growing(np.int32, _FLUSH_ROWS)
        self._offsets.array[0] = 0
        self._valid = _Growing(np.uint8, _FLUSH_ROWS)

    def reserve(self, count: int, size: int) -> tuple[native.Bytes, kernels.Offsets, native.Bytes]:
        """Room for `count` values of `size` bytes in all: the data from its start, the ends, the validity."""
        self.data.reserve(self.used, size)
        ends = self._offsets.reserve(self.count + 1, count)
        return self.data.array, ends, self._valid.reserve(self.count, count)

    def note(self, count: int, used: int) -> None:
        """`count` more values were written, and `used` bytes are in use now."""
        self.count += count
        self.used = used

    def to_arrow(self) -> Any:
        valid = self._valid.array[: self.count]
        null_count = self.count - int(np.count_nonzero(valid))
        validity = pa.py_buffer(np.packbits(valid, bitorder="little")) if null_count else None
        offsets = pa.py_buffer(self._offsets.array[: self.count + 1])
        data = pa.py_buffer(self.data.array[: self.used])
        return pa.Array.from_buffers(pa.binary(), self.count, [validity, offsets, data], null_count)


class _HeadersColumn:
    """The headers of all records, and how many of them each record has."""

    def __init__(self) -> None:
        self._count = 0
        self._offsets = _Growing(np.int32, _FLUSH_ROWS)
        self._offsets.array[0] = 0
        self._keys = _BytesColumn(0)
        self._values = _BytesColumn(0)

    def append(self, data: native.Bytes, rows: kernels.Index) -> None:
        counts = rows[:, kernels.HEADER_COUNT]
        ends = self._offsets.reserve(self._count + 1, len(rows))
        self._count += len(rows)
        count = int(counts.sum())
        if count == 0:
            ends.fill(self._keys.count)
            return
        np.cumsum(counts, out=ends)
        ends += self._keys.count
        size = int((rows[:, kernels.END] - rows[:, kernels.HEADERS_START]).sum())
        keys, key_ends, key_valid = self._keys.reserve(count, size)
        values, value_ends, value_valid = self._values.reserve(count, size)
        key_valid.fill(1)
        keys_used, values_used = kernels.gather_headers(
            data, rows, keys, self._keys.used, key_ends, values, self._values.used, value_ends, value_valid
        )
        self._keys.note(count, keys_used)
        self._values.note(count, values_used)

    def to_arrow(self) -> Any:
        pairs = pa.StructArray.from_arrays(
            [_as_utf8(self._keys.to_arrow()), self._values.to_arrow()], fields=list(_HEADER_TYPE)
        )
        offsets = pa.py_buffer(self._offsets.array[: self._count + 1])
        return pa.Array.from_buffers(_HEADERS_TYPE, self._count, [None, offsets], 0, children=[pairs])


class _Columns:
    """The columns that were asked for.

    Batches are indexed one by one, but copied out only when enough rows are waiting, so that many small
    batches cost little more than one large one. All waiting rows are of one array of bytes.
    """

    def __init__(self, names: set[str], size: int) -> None:
        self._count = 0
        self._data = np.empty(0, np.uint8)
        self._index = np.empty((_FLUSH_ROWS, kernels.INDEX_WIDTH), np.int64)
        self._waiting = 0
        self._last_batch = 0  # how many of the waiting rows are of the batch that was added last
        # The records of an uncompressed buffer fit its size; what is not filled of it is never touched.
        self._bytes = {
            name: (_BytesColumn(size), start)
            for name, start in (("key", kernels.KEY_START), ("value", kernels.VALUE_START))
            if name in names
        }
        self._numbers = {
            name: (_Growing(np.int64, _FLUSH_ROWS), column)
            for name, column in (("offset", kernels.OFFSET), ("timestamp", kernels.TIMESTAMP))
            if name in names
        }
        self._types = _Growing(np.int8, _FLUSH_ROWS) if "timestamp_type" in names else None
        self._headers = _HeadersColumn() if "headers" in names else None

    def add(self, data: native.Bytes, start: int, stop: int, header: BatchHeader) -> None:
        """Index the batch whose records are `data[start:stop]`."""
        if data is not self._data or self._waiting >= _FLUSH_ROWS:
            self.flush()
            self._data = data
        check_counts(header, stop - start)
        count = header.record_count
        waiting = self._waiting
        if waiting + count > len(self._index):
            larger = np.empty((max(waiting + count, 2 * len(self._index)), kernels.INDEX_WIDTH), np.int64)
            larger[:waiting] = self._index[:waiting]
            self._index = larger
        kernels.index_into(data, start, stop, header, self._index, waiting)
        if self._types is not None:
            self._types.reserve(self._count + waiting, count).fill(header.timestamp_type)
        self._waiting = waiting + count
        self._last_batch = count

    def trim(self, header: BatchHeader, start_offset: int, end_offset: int | None) -> None:
        """Drop the rows out of range of the batch just added: it comes whole when only a part is wanted."""
        first = self._waiting - self._last_batch
        batch = self._index[first : self._waiting]
        offsets = batch[:, kernels.OFFSET]
        low, high = 0, len(batch)
        if header.base_offset < start_offset:
            low = int(np.searchsorted(offsets, start_offset))
        if end_offset is not None and header.last_offset >= end_offset:
            high = int(np.searchsorted(offsets, end_offset))
        kept = max(high - low, 0)
        batch[:kept] = batch[low : low + kept]
        self._waiting = first + kept

    def flush(self) -> None:
        """Copy out the rows that are waiting."""
        rows = self._index[: self._waiting]
        count = len(rows)
        if count == 0:
            return
        size = int(rows[-1, kernels.END] - rows[0, kernels.START])
        for column, start in self._bytes.values():
            out, ends, valid = column.reserve(count, size)
            column.note(count, kernels.gather_bytes(self._data, rows, start, out, column.used, ends, valid))
        for numbers, start in self._numbers.values():
            kernels.gather_numbers(rows, start, numbers.reserve(self._count, count))
        if self._headers is not None:
            self._headers.append(self._data, rows)
        self._count += count
        self._waiting = 0

    def column(self, name: str) -> Any:
        if name in self._bytes:
            return self._bytes[name][0].to_arrow()
        if self._headers is not None and name == "headers":
            return self._headers.to_arrow()
        numbers = self._numbers[name][0] if name in self._numbers else self._types
        assert numbers is not None
        data = pa.py_buffer(numbers.array[: self._count])
        return pa.Array.from_buffers(SCHEMA.field(name).type, self._count, [None, data], 0)


def _as_utf8(keys: Any) -> Any:
    """Header keys as strings. Nearly always they are UTF-8 already, and Arrow checks that without a copy."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        names = keys.dictionary_encode()  # the same few names come again and again: mend each once
        mended = [name.decode("utf-8", "replace") for name in names.dictionary.to_pylist()]
        return pa.array(mended, pa.string()).take(names.indices)
