"""Zigzag variable-length integers, the way records write their lengths and deltas.

Owns the encoding: seven bits a byte, lowest first, the top bit says that more follow, the sign folded into
the lowest bit. A *varint* holds 32 bits in at most 5 bytes, a *varlong* 64 bits in at most 10. Reading never
looks past the end of its buffer (positions count from its start), and whatever cannot be such a number is
`CorruptRecord`. A number written in more bytes than it needs is taken, as Kafka takes it, as long as it stays
within its limit.

Must not know: what the numbers mean.
"""

from typing import Final

from barnabas.core.errors import CorruptRecord
from barnabas.core.records.batch import Buffer

MAX_VARINT_SIZE: Final = 5
MAX_VARLONG_SIZE: Final = 10

_UINT32_LIMIT: Final = 1 << 32
_UINT64_LIMIT: Final = 1 << 64


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The 32-bit number at `position`, and the position after it."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
        # Two bytes hold every length from 64 to 8191: worth a path of its own.
        high = buffer[position + 1]
        if high < 0x80:
            return (byte & 0x7F | high << 7) >> 1 ^ -(byte & 1), position + 2
    except IndexError:
        raise _runs_off(buffer, position) from None
    return _read(buffer, position, MAX_VARINT_SIZE, _UINT32_LIMIT)


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """The 64-bit number at `position`, and the position after it."""
    return _read(buffer, position, MAX_VARLONG_SIZE, _UINT64_LIMIT)


def encode_varint(value: int) -> bytes:
    """A number of 32 bits; a larger one is a mistake of the caller (`ValueError`)."""
    zigzag = (value << 1) ^ (value >> 31)
    if 0 <= zigzag < _TABLE_SIZE:
        return _TABLE[zigzag]
    if not 0 <= zigzag < _UINT32_LIMIT:
        raise ValueError(f"{value} does not fit the 32 bits of a varint")
    return _encode(zigzag)


def encode_varlong(value: int) -> bytes:
    """A number of 64 bits; a larger one is a mistake of the caller (`ValueError`)."""
    zigzag = (value << 1) ^ (value >> 63)
    if 0 <= zigzag < _TABLE_SIZE:
        return _TABLE[zigzag]
    if not 0 <= zigzag < _UINT64_LIMIT:
        raise ValueError(f"{value} does not fit the 64 bits of a varlong")
    return _encode(zigzag)


def _read(buffer: Buffer, position: int, max_size: int, limit: int) -> tuple[int, int]:
    zigzag = 0
    shift = 0
    end = min(len(buffer), position + max_size)
    for at in range(position, end):
        byte = buffer[at]
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >= limit:
                raise CorruptRecord(f"number at byte {position} has more bits than its type")
            return (zigzag >> 1) ^ -(zigzag & 1), at + 1
        shift += 7
    if end == position + max_size:
        raise CorruptRecord(f"number at byte {position} goes on beyond {max_size} bytes")
    raise _runs_off(buffer, position)


def _runs_off(buffer: Buffer, position: int) -> CorruptRecord:
    return CorruptRecord(f"number at byte {position} runs off the end of its {len(buffer)} bytes")


def _encode(zigzag: int) -> bytes:
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


# Nearly every length and delta of a real record is small, and a table is several times quicker than the loop.
_TABLE_SIZE: Final = 2048
_TABLE: Final = [_encode(zigzag) for zigzag in range(_TABLE_SIZE)]
