"""The records of a batch, walked at native speed: compiled by numba, holding no interpreter lock.

Owns the index of a batch: one row of `INDEX_WIDTH` 64-bit numbers per record, which says where everything is, so that
users of the records (columns, log cleaning) need not read varints. Positions count from the start of the array the
records are in:

=================  ===================================================================================
`START`, `END`     the whole record, its length included: the bytes between can be copied as they are
`OFFSET`           of the record in its log; grows from row to row
`TIMESTAMP`        of the record, or of the log's append if that is what the batch goes by
`KEY_START`        where the key's bytes begin
`KEY_LENGTH`       how many they are; -1: the key is null
`VALUE_START`      where the value's bytes begin
`VALUE_LENGTH`     how many they are; -1: the value is null, the record a tombstone
`HEADERS_START`    where the first header begins, after their count
`HEADER_COUNT`     how many headers there are
=================  ===================================================================================

Invariants: indexing accepts and refuses exactly what `record.decode_records` does, headers included, so the
kernels after it trust an index without asking again. No kernel reads or writes outside the arrays it is
given, whatever the bytes in them.

Costs: importing this module imports numba, and compiles the kernels once per machine (their signatures are
fixed, so nothing is compiled later); after that they are loaded from numba's cache. Where no directory can be
written there is no cache and each process compiles for itself; `NUMBA_CACHE_DIR` can name one.

Must not know: Arrow, files.
"""

from typing import Final, TypeAlias

from barnabas.core.errors import CorruptRecord
from barnabas.core.records.batch import MIN_RECORD_SIZE, BatchHeader, Buffer, TimestampType
from barnabas.core.records.checking import BAD_END, BAD_HEADERS, BAD_LENGTH, OK, PROBLEMS, TRAILING_BYTES
from barnabas.core.records.native import DATA, INT, TWO_INTS, Bytes, Int64, decode_long, decode_short, native
from barnabas.core.records.record import check_counts

try:
    import numba
    import numpy as np
    from numba import types
    from numpy.typing import NDArray
except ImportError as error:
    raise ImportError("native record decoding needs numba: pip install 'barnabas[arrow]'") from error

START: Final = 0
END: Final = 1
OFFSET: Final = 2
TIMESTAMP: Final = 3
KEY_START: Final = 4
KEY_LENGTH: Final = 5
VALUE_START: Final = 6
VALUE_LENGTH: Final = 7
HEADERS_START: Final = 8
HEADER_COUNT: Final = 9
INDEX_WIDTH: Final = 10

# The numbers at the front of every record, in their order; a bad one has the status of its number plus one.
_LENGTH_FIELD: Final = 0
_TIMESTAMP_FIELD: Final = 1
_OFFSET_FIELD: Final = 2
_KEY_FIELD: Final = 3
_VALUE_FIELD: Final = 4
_HEADERS_FIELD: Final = 5

Index: TypeAlias = NDArray[np.int64]
Offsets: TypeAlias = NDArray[np.int32]

_BYTES: Final = types.Array(types.uint8, 1, "C")
_INDEX: Final = types.Array(types.int64, 2, "C")
_LONGS: Final = types.Array(types.int64, 1, "C")
_OFFSETS: Final = types.Array(types.int32, 1, "C")


def index_batch(payload: Buffer, header: BatchHeader) -> Index:
    """The index of a batch's decompressed records section (`record.payload`), fully checked."""
    data = np.frombuffer(payload, np.uint8)
    check_counts(header, len(data))
    index = np.empty((header.record_count, INDEX_WIDTH), np.int64)
    index_into(data, 0, len(data), header, index, 0)
    return index


def index_into(data: Bytes, start: int, stop: int, header: BatchHeader, out: Index, row: int) -> None:
    """Index the records section `data[start:stop]` into `out` from `row` on.

    `check_counts` must have passed, and `out` have room.
    """
    status = index_records(
        data,
        start,
        stop,
        header.record_count,
        header.base_offset,
        header.last_offset_delta,
        header.base_timestamp,
        out,
        row,
    )
    if status != OK:
        problem = PROBLEMS[status & 0xFF]
        raise CorruptRecord(f"record {status >> 8} of the batch at offset {header.base_offset} {problem}")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        out[row : row + header.record_count, TIMESTAMP] = header.max_timestamp


# One loop with one place that reads a number, rather than a function per field: handing an array to a function
# costs numba more than the function does, and this is four times as quick.
@native(INT(DATA, INT, INT, INT, INT, INT, INT, _INDEX, INT))
def index_records(  # noqa: C901, PLR0912
    data: Bytes,
    start: int,
    stop: int,
    count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    out: Index,
    first_row: int,
) -> int:
    """Fill a row for each of `count` records in `data[start:stop]`; OK, or what is wrong | record << 8."""
    if start < 0 or stop > len(data) or first_row < 0 or count > len(out) - first_row:
        return BAD_LENGTH
    at: Int64 = start
    last_delta: Int64 = -1
    for record in range(count):
        row = np.uint64(first_row + record)  # an index that cannot be negative costs no check for it
        end: Int64 = stop
        out[row, START] = at
        field = 0
        field_count: Int64 = _HEADERS_FIELD + 1
        while field < field_count:
            number, size = 0, 0
            if at + 1 < stop:
                number, size = decode_short(np.int64(data[np.uint64(at)]), np.int64(data[np.uint64(at + 1)]))
            if size == 0:
                number, size = decode_long(data, at, stop, 63 if field == _TIMESTAMP_FIELD else 28)
            at += size
            is_good = size > 0
            if _KEY_FIELD <= field <= _VALUE_FIELD:  # their columns lie in the same order, two each
                is_good &= -1 <= number <= end - at
                out[row, 2 * field - 2] = at
                out[row, 2 * field - 1] = number
                at += max(number, 0)
            elif field == _LENGTH_FIELD:
                is_good &= MIN_RECORD_SIZE - 1 <= number <= stop - at
                end = at + number
                out[row, END] = end
                at += 1  # the attributes, which mean nothing yet
            elif field == _TIMESTAMP_FIELD:
                timestamp = base_timestamp + number
                # Of two numbers of one sign whose sum has the other, the sum overflowed.
                is_good &= ((base_timestamp ^ timestamp) & (number ^ timestamp)) >= 0
                out[row, TIMESTAMP] = timestamp
            elif field == _OFFSET_FIELD:
                is_good &= last_delta < number <= last_offset_delta
                last_delta = number
                out[row, OFFSET] = base_offset + number
            elif field == _HEADERS_FIELD:
                # The smallest header is an empty key and a null value: two bytes.
                is_good &= 0 <= number <= (end - at) // 2
                out[row, HEADERS_START] = at
                out[row, HEADER_COUNT] = number
                field_count += 2 * number
            else:  # the keys and values of the headers take turns, keys first; a key cannot be null
                is_good &= -(field & 1) <= number <= end - at
                at += max(number, 0)
            if not is_good:
                return min(field + 1, BAD_HEADERS) | record << 8
            field += 1
        if at != end:
            return BAD_END | record << 8
    return OK if at == stop else TRAILING_BYTES | max(count - 1, 0) << 8


@native(types.void(_INDEX, INT, _LONGS))
def gather_numbers(index: Index, column: int, out: NDArray[np.int64]) -> None:
    """One column of the index on its own: offsets or timestamps."""
    for i in range(len(index)):
        out[i] = index[i, column]


@numba.njit(nogil=True)
def _copy(source: Bytes, start: Int64, length: Int64, out: Bytes, at: Int64) -> None:
    # Indexes that cannot be negative: only then does this become a copy of many bytes at a time.
    source_start = np.uint64(start)
    out_start = np.uint64(at)
    for i in range(np.uint64(max(length, 0))):
        out[out_start + i] = source[source_start + i]


@native(INT(DATA, _INDEX, INT, _BYTES, INT, _OFFSETS, _BYTES))
def gather_bytes(data: Bytes, index: Index, column: int, out: Bytes, used: int, ends: Offsets, valid: Bytes) -> int:
    """Copy the keys (`column` is `KEY_START`) or values (`VALUE_START`) to `out` from `used` on.

    Fills where each one ends and whether it is not null, and returns how much of `out` is used then; -1,
    and nothing is lost but time, if `out` is too small.
    """
    for i in range(len(index)):
        length = index[i, column + 1]
        valid[i] = length >= 0
        if length > 0:
            if length > len(out) - used:
                return -1
            _copy(data, index[i, column], length, out, used)
            used += length
        ends[i] = used
    return used


@native(TWO_INTS(DATA, _INDEX, _BYTES, INT, _OFFSETS, _BYTES, INT, _OFFSETS, _BYTES))
def gather_headers(
    data: Bytes,
    index: Index,
    keys: Bytes,
    keys_used: int,
    key_ends: Offsets,
    values: Bytes,
    values_used: int,
    value_ends: Offsets,
    value_valid: Bytes,
) -> tuple[int, int]:
    """As `gather_bytes`, for the keys and values of all headers; returns what is used of both."""
    n = 0
    for i in range(len(index)):
        at = index[i, HEADERS_START]
        end = index[i, END]
        for turn in range(2 * index[i, HEADER_COUNT]):
            length, size = 0, 0
            if at + 1 < end:
                length, size = decode_short(np.int64(data[np.uint64(at)]), np.int64(data[np.uint64(at + 1)]))
            if size == 0:
                length, size = decode_long(data, at, end, 28)
            at += size
            if turn & 1 == 0:
                _copy(data, at, length, keys, keys_used)
                keys_used += length
                key_ends[n] = keys_used
            else:
                value_valid[n] = length >= 0
                _copy(data, at, length, values, values_used)
                values_used += max(length, 0)
                value_ends[n] = values_used
                n += 1
            at += max(length, 0)
    return keys_used, values_used
