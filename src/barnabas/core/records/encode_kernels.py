"""Rows to records at native speed: compiled by numba, holding no interpreter lock.

Owns three loops: which partition each row goes to, the rows of each partition together, and the records section of a
batch. Bytes come as Arrow has them, one array of all, with where each begins and how long it is (-1: null).

Invariants: no kernel writes outside the arrays it is given; the sizes and starts in them are the caller's to be
right. What is written is what `record.encode_batch` writes, byte for byte.

Costs: as `kernels`, which see. Must not know: Arrow, sockets.
"""

from typing import Final

from barnabas.core.records.native import Bytes, Int64, native

try:
    import numba
    import numpy as np
    from numba import types
    from numpy.typing import NDArray
except ImportError as error:
    raise ImportError("native record encoding needs numba: pip install 'barnabas[arrow]'") from error

_DATA: Final = types.Array(types.uint8, 1, "C", readonly=True)
_BYTES: Final = types.Array(types.uint8, 1, "C")
_LONGS: Final = types.Array(types.int64, 1, "C")
_INTS: Final = types.Array(types.int32, 1, "C")
_INT: Final = types.int64
_THREE_INTS: Final = types.Tuple((_INT, _INT, _INT))  # type: ignore[no-untyped-call]

_SEED: Final = np.uint64(0x9747B28C)
_MULTIPLIER: Final = np.uint64(0x5BD1E995)
_MASK: Final = np.uint64(0xFFFFFFFF)
_POSITIVE: Final = np.uint64(0x7FFFFFFF)


@native(types.void(_DATA, _LONGS, _LONGS, _INT, _INT, _INTS))
def assign_partitions(
    data: Bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64], keyless: int, count: int, out: NDArray[np.int32]
) -> None:
    """Fill in what is negative in `out`: the partition, of `count`, of a key by its hash; `keyless` for a null.

    The hash is murmur2 as every Kafka client computes it.
    """
    for i in range(len(out)):
        if out[i] >= 0:
            continue
        length = lengths[i]
        if length < 0:
            out[i] = keyless
            continue
        at = np.uint64(starts[i])
        result = (_SEED ^ np.uint64(length)) & _MASK
        for _ in range(length >> 2):
            word = (
                np.uint64(data[at])
                | np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
                | np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
                | np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
            )
            word = word * _MULTIPLIER & _MASK
            word ^= word >> np.uint64(24)
            word = word * _MULTIPLIER & _MASK
            result = (result * _MULTIPLIER & _MASK) ^ word
            at += np.uint64(4)
        left = length & 3
        if left > 0:
            for j in range(left):
                result ^= np.uint64(data[at + np.uint64(j)]) << np.uint64(8 * j)
            result = result * _MULTIPLIER & _MASK
        result ^= result >> np.uint64(13)
        result = result * _MULTIPLIER & _MASK
        result ^= result >> np.uint64(15)
        out[i] = np.int32((result & _POSITIVE) % np.uint64(count))


@native(types.void(_INTS, _LONGS, _LONGS))
def group_rows(partitions: NDArray[np.int32], ends: NDArray[np.int64], order: NDArray[np.int64]) -> None:
    """The numbers of the rows, those of one partition together and in their order; and where those of each end."""
    ends[:] = 0
    for i in range(len(partitions)):
        ends[partitions[i]] += 1
    total = 0
    for each in range(len(ends)):  # first where each begins; filling moves that to its end
        count = ends[each]
        ends[each] = total
        total += count
    for i in range(len(partitions)):
        order[ends[partitions[i]]] = i
        ends[partitions[i]] += 1


@numba.njit(nogil=True)
def _varint_size(number: Int64) -> Int64:
    zigzag = np.uint64((number << 1) ^ (number >> 63))
    size = 1
    while zigzag >= np.uint64(0x80):
        zigzag >>= np.uint64(7)
        size += 1
    return size


@numba.njit(nogil=True)
def _write_varint(out: Bytes, at: Int64, number: Int64) -> Int64:
    zigzag = np.uint64((number << 1) ^ (number >> 63))
    while zigzag >= np.uint64(0x80):
        out[np.uint64(at)] = np.uint8(zigzag & np.uint64(0x7F) | np.uint64(0x80))
        zigzag >>= np.uint64(7)
        at += 1
    out[np.uint64(at)] = np.uint8(zigzag)
    return at + 1


@numba.njit(nogil=True)
def _write_bytes(out: Bytes, at: Int64, data: Bytes, start: Int64, length: Int64) -> Int64:
    """A length, which is -1 for a null, and the bytes."""
    at = _write_varint(out, at, length)
    # Indexes that cannot be negative: only then does this become a copy of many bytes at a time.
    source = np.uint64(start)
    target = np.uint64(at)
    for i in range(np.uint64(max(length, 0))):
        out[target + i] = data[source + i]
    return at + max(length, 0)


@numba.njit(nogil=True)
def _bytes_size(length: Int64) -> Int64:
    return _varint_size(length) + max(length, 0)


_COLUMN: Final = (_DATA, _LONGS, _LONGS)


@native(
    _THREE_INTS(_LONGS, _INT, *_COLUMN, *_COLUMN, _LONGS, _LONGS, _LONGS, *_COLUMN, *_COLUMN, _INT, _INT, _BYTES, _INT)
)
def encode_records(  # noqa: PLR0913, PLR0917 - columns come as three arrays each
    rows: NDArray[np.int64],
    first: int,
    keys: Bytes,
    key_starts: NDArray[np.int64],
    key_lengths: NDArray[np.int64],
    values: Bytes,
    value_starts: NDArray[np.int64],
    value_lengths: NDArray[np.int64],
    timestamps: NDArray[np.int64],
    header_starts: NDArray[np.int64],
    header_counts: NDArray[np.int64],
    names: Bytes,
    name_starts: NDArray[np.int64],
    name_lengths: NDArray[np.int64],
    contents: Bytes,
    content_starts: NDArray[np.int64],
    content_lengths: NDArray[np.int64],
    base_timestamp: int,
    record_count: int,
    out: Bytes,
    used: int,
) -> tuple[int, int, int]:
    """Append the records of `rows[first:]` to `out`, as long as they fit.

    `record_count` are in it already. A row has `header_counts` headers from `header_starts` on; if those arrays are
    empty, no row has any. Returns how many rows fitted, how much of `out` is used then, and how large
    the first record is that did not fit, or 0.
    """
    at: Int64 = used
    has_headers = len(header_starts) > 0
    for n in range(first, len(rows)):
        row = rows[n]
        first_header = header_starts[row] if has_headers else 0
        header_count = header_counts[row] if has_headers else 0
        timestamp_delta = timestamps[row] - base_timestamp
        offset_delta = record_count + n - first
        size: Int64 = 1 + _varint_size(timestamp_delta) + _varint_size(offset_delta)
        size += _bytes_size(key_lengths[row]) + _bytes_size(value_lengths[row])
        size += _varint_size(header_count)
        for header in range(first_header, first_header + header_count):
            size += _bytes_size(name_lengths[header]) + _bytes_size(content_lengths[header])
        whole = size + _varint_size(size)
        if whole > len(out) - at:
            return n - first, at, whole
        at = _write_varint(out, at, size)
        out[np.uint64(at)] = np.uint8(0)  # attributes, which mean nothing yet
        at = _write_varint(out, at + 1, timestamp_delta)
        at = _write_varint(out, at, offset_delta)
        at = _write_bytes(out, at, keys, key_starts[row], key_lengths[row])
        at = _write_bytes(out, at, values, value_starts[row], value_lengths[row])
        at = _write_varint(out, at, header_count)
        for header in range(first_header, first_header + header_count):
            at = _write_bytes(out, at, names, name_starts[header], name_lengths[header])
            at = _write_bytes(out, at, contents, content_starts[header], content_lengths[header])
    return len(rows) - first, at, 0
