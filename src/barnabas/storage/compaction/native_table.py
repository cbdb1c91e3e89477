"""The kernels behind `native.NativeKeyMap`: a hash table from keys to offsets, and the copying of what stays.

A key is known by its 128-bit SipHash under a secret key: nobody can choose keys that collide, and by chance one pair
among a hundred million keys collides once in 10**22 logs. A row of the table has three 64-bit numbers, 24 bytes: the
hash, and the offset plus one, so that a row of zeros is free. Rows are probed one after the other.

All kernels release the interpreter lock. They take records by their index (`core.records.kernels`), which was checked,
and never look outside the arrays they are given.
"""

from typing import Any, Final, TypeAlias

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from barnabas.core.records.kernels import (
    END,
    KEY_LENGTH,
    KEY_START,
    OFFSET,
    START,
    TIMESTAMP,
    VALUE_LENGTH,
    Index,
)
from barnabas.core.records.native import Bytes, Kernel, native

Table: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = NDArray[np.int64]
U64: TypeAlias = Any  # a machine word, which wraps: numba's idea of int, not Python's

ROW_SIZE: Final = 24
MAX_ROWS: Final = 2**32 - 1

# What `select` says of a batch.
COUNT: Final = 0
TOMBSTONES: Final = 1
OLDEST: Final = 2
NEWEST: Final = 3
FACTS: Final = 4

_DATA: Final = types.Array(types.uint8, 1, "C", readonly=True)
_BYTES: Final = types.Array(types.uint8, 1, "C")
_INDEX: Final = types.Array(types.int64, 2, "C")
_NUMBERS: Final = types.Array(types.int64, 1, "C")
_TABLE: Final = types.Array(types.uint64, 2, "C")
_INT: Final = types.int64
_WORD: Final = types.uint64
_TWO_WORDS: Final = types.Tuple((_WORD, _WORD))  # type: ignore[no-untyped-call]
_U: Final = np.uint64


def _part(function: Kernel) -> Kernel:
    """A part of the kernels below, compiled into each."""
    compiled: Any = numba.njit(nogil=True)(function)
    kernel: Kernel = compiled
    return kernel


@_part
def _round(v0: U64, v1: U64, v2: U64, v3: U64) -> tuple[U64, U64, U64, U64]:
    v0 += v1
    v1 = (v1 << _U(13) | v1 >> _U(51)) ^ v0
    v0 = v0 << _U(32) | v0 >> _U(32)
    v2 += v3
    v3 = (v3 << _U(16) | v3 >> _U(48)) ^ v2
    v0 += v3
    v3 = (v3 << _U(21) | v3 >> _U(43)) ^ v0
    v2 += v1
    v1 = (v1 << _U(17) | v1 >> _U(47)) ^ v2
    v2 = v2 << _U(32) | v2 >> _U(32)
    return v0, v1, v2, v3


@_part
def _word(data: Bytes, at: U64, size: U64) -> U64:
    """Up to eight bytes as a little-endian number."""
    word = _U(0)
    for i in range(size):
        word |= _U(data[at + _U(i)]) << (_U(i) << _U(3))
    return word


@_part
def _siphash(data: Bytes, start: U64, length: U64, k0: U64, k1: U64) -> tuple[U64, U64]:
    """SipHash-2-4 with 128 bits of output."""
    v0 = k0 ^ _U(0x736F6D6570736575)
    v1 = k1 ^ _U(0x646F72616E646F6D) ^ _U(0xEE)
    v2 = k0 ^ _U(0x6C7967656E657261)
    v3 = k1 ^ _U(0x7465646279746573)
    words = length >> _U(3)
    for i in range(words + _U(1)):
        at = start + (_U(i) << _U(3))
        word = _word(data, at, _U(8)) if i < words else _word(data, at, length & _U(7)) | length << _U(56)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
    v2 ^= _U(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= _U(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@_part
def _find(table: Table, first: U64, second: U64) -> U64:
    """The row of this hash, or the free one where it belongs. The table must never be full."""
    rows = _U(len(table))
    row = (first >> _U(32)) * rows >> _U(32)
    while table[row, 2] != _U(0) and (table[row, 0] != first or table[row, 1] != second):
        row += _U(1)
        if row == rows:
            row = _U(0)
    return row


@native(_TWO_WORDS(_DATA, _WORD, _WORD))
def hash_bytes(data: Bytes, k0: int, k1: int) -> tuple[int, int]:
    """The hash of a single key: for tests."""
    return _siphash(data, _U(0), _U(len(data)), k0, k1)


@native(_INT(_DATA, _INDEX, _WORD, _WORD, _TABLE, _INT, _INT))
def put_keys(data: Bytes, index: Index, k0: int, k1: int, table: Table, used: int, max_used: int) -> int:
    """Note the offset of each key, as the newest; returns how many rows are used then, or -1 if too few are left."""
    for i in range(len(index)):
        length = index[i, KEY_LENGTH]
        if length < 0:
            continue
        first, second = _siphash(data, _U(index[i, KEY_START]), _U(length), k0, k1)
        row = _find(table, first, second)
        if table[row, 2] == _U(0):
            if used >= max_used:
                return -1
            used += 1
            table[row, 0] = first
            table[row, 1] = second
        table[row, 2] = _U(index[i, OFFSET] + 1)
    return used


@native(_INT(_TABLE, _TABLE))
def move_rows(source: Table, target: Table) -> int:
    """Put every row into a larger table; returns how many there are."""
    used = 0
    for i in range(len(source)):
        if source[i, 2] != _U(0):
            row = _find(target, source[i, 0], source[i, 1])
            target[row, 0] = source[i, 0]
            target[row, 1] = source[i, 1]
            target[row, 2] = source[i, 2]
            used += 1
    return used


@native(types.void(_DATA, _INDEX, _WORD, _WORD, _TABLE, types.boolean, _BYTES, _NUMBERS))
def select(
    data: Bytes,
    index: Index,
    k0: int,
    k1: int,
    table: Table,
    keeps_tombstones: bool,
    keep: Bytes,
    facts: Numbers,
) -> None:
    """Fill in whether each record stays, and the facts on those that do."""
    count = tombstones = 0
    oldest, newest = np.int64(2**63 - 1), np.int64(-(2**63))
    for i in range(len(index)):
        is_tombstone = index[i, VALUE_LENGTH] < 0
        length = index[i, KEY_LENGTH]
        keep[i] = 0
        if length < 0 or (is_tombstone and not keeps_tombstones):
            continue
        first, second = _siphash(data, _U(index[i, KEY_START]), _U(length), k0, k1)
        if table[_find(table, first, second), 2] > _U(index[i, OFFSET] + 1):
            continue
        keep[i] = 1
        count += 1
        tombstones += is_tombstone
        oldest = min(oldest, index[i, TIMESTAMP])
        newest = max(newest, index[i, TIMESTAMP])
    facts[COUNT], facts[TOMBSTONES], facts[OLDEST], facts[NEWEST] = count, tombstones, oldest, newest


@_part
def _copy(source: Bytes, start: int, stop: int, out: Bytes, at: int) -> int:
    # Indexes that cannot be negative: only then does this become a copy of many bytes at a time.
    first, place = _U(start), _U(at)
    for i in range(_U(stop - start)):
        out[place + i] = source[first + i]
    return at + stop - start


@native(_INT(_DATA, _INDEX, _BYTES, _BYTES))
def copy_kept(data: Bytes, index: Index, keep: Bytes, out: Bytes) -> int:
    """Copy the records that stay, as they are; `out` must have room for all. Returns the bytes used."""
    used = 0
    i = 0
    while i < len(index):
        if keep[i] == 0:
            i += 1
            continue
        start = index[i, START]
        while i + 1 < len(index) and keep[i + 1]:
            i += 1
        used = _copy(data, start, index[i, END], out, used)
        i += 1
    return used


@_part
def _zigzag(number: int) -> U64:
    return _U(number << 1) ^ _U(number >> 63)


@_part
def _varint_size(zigzag: U64) -> int:
    size = 1
    while zigzag >= _U(0x80):
        zigzag >>= _U(7)
        size += 1
    return size


@_part
def _put_varint(zigzag: U64, out: Bytes, at: int) -> int:
    while zigzag >= _U(0x80):
        out[_U(at)] = np.uint8(zigzag & _U(0x7F) | _U(0x80))
        zigzag >>= _U(7)
        at += 1
    out[_U(at)] = np.uint8(zigzag)
    return at + 1


@_part
def _skip_varint(data: Bytes, at: int) -> int:
    while data[_U(at)] >= 0x80:
        at += 1
    return at + 1


@native(_INT(_DATA, _INDEX, _BYTES, _INT, _BYTES))
def rebase_kept(data: Bytes, index: Index, keep: Bytes, base_timestamp: int, out: Bytes) -> int:
    """Copy the records that stay with timestamps relative to another base; `out` needs 16 more bytes for each."""
    used = 0
    for i in range(len(index)):
        if keep[i] == 0:
            continue
        # The length, the attributes, the timestamp; the rest stays as it is.
        rest = _skip_varint(data, _skip_varint(data, index[i, START]) + 1)
        end = index[i, END]
        delta = _zigzag(index[i, TIMESTAMP] - base_timestamp)
        used = _put_varint(_zigzag(1 + _varint_size(delta) + end - rest), out, used)
        out[_U(used)] = 0
        used = _put_varint(delta, out, used + 1)
        used = _copy(data, rest, end, out, used)
    return used
