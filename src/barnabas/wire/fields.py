"""Fields of a request that is read by hand: strings, lengths and counts, each checked against the bytes available."""

import struct
from typing import Final

from barnabas.wire.errors import MalformedRequest
from barnabas.wire.frame import read_uvarint

_unpack_int16: Final = struct.Struct(">h").unpack_from
_unpack_int32: Final = struct.Struct(">i").unpack_from


def piece(data: memoryview, start: int, stop: int, end: int) -> memoryview:
    """The bytes from `start` to `stop` of a request that ends at `end`."""
    if stop > end:
        raise MalformedRequest(f"{stop - start} bytes are claimed, {end - start} are available")
    return data[start:stop]


def read_string(data: memoryview, position: int, end: int) -> tuple[str | None, int]:
    (size,) = _unpack_int16(data, position)
    position += 2
    if size < 0:
        return None, position
    return str(piece(data, position, position + size, end), "utf-8"), position + size


def read_compact_string(data: memoryview, position: int, end: int) -> tuple[str | None, int]:
    size, position = read_uvarint(data, position, end)
    if size == 0:
        return None, position
    return str(piece(data, position, position + size - 1, end), "utf-8"), position + size - 1


def read_count(data: memoryview, position: int, end: int, *, at_most: int) -> tuple[int, int]:
    """The number of elements of an array, which may not be null."""
    (count,) = _unpack_int32(data, position)
    return _checked_count(count, position + 4, end, at_most)


def read_compact_count(data: memoryview, position: int, end: int, *, at_most: int) -> tuple[int, int]:
    """As `read_count`, in a flexible version."""
    count, position = read_uvarint(data, position, end)
    return _checked_count(count - 1, position, end, at_most)


def _checked_count(count: int, position: int, end: int, at_most: int) -> tuple[int, int]:
    if count < 0 or count > end - position:
        raise MalformedRequest(f"an array of {count} does not fit in {end - position} bytes")
    if count > at_most:
        raise MalformedRequest(f"an array of {count} elements is too large")
    return count, position
