"""Reading the values of fields: numbers, strings, bytes, records and arrays of them; the bytes are untrusted.

A reader is a function that is made once for a field and takes the body of a message and a position. What a message may
cost is bounded by the number of its elements: `Body` counts them.

Must not know: structs and their fields (`reading`).
"""

import struct
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from barnabas.wire.errors import Malformed
from barnabas.wire.frame import MAX_STRING_BYTES, read_uvarint
from barnabas.wire.schema import FORMATS

ELEMENTS_PER_STEP: Final = 40  # of arrays, of which each takes some microseconds
BYTES_PER_ELEMENT: Final = 4096  # which take as long again
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class Body:
    """The bytes of one message, and how many elements may still be read from them."""

    __slots__ = ("data", "elements_left", "end", "left_in_step")

    def __init__(self, data: bytes | memoryview, *, max_elements: int) -> None:
        self.data = data
        self.end = len(data)
        self.elements_left = max_elements  # of all arrays together
        self.left_in_step = ELEMENTS_PER_STEP


# Reads a value at a position: the value, and where it ends.
Read = Callable[[Body, int], tuple[Any, int]]
# The same in steps, for what has arrays that may be long.
ReadSteps = Callable[[Body, int], Generator[None, None, tuple[Any, int]]]


def value_reader(kind: str, *, is_flexible: bool) -> Read:
    if kind == "uuid":
        return _read_uuid
    if kind == "string":
        return _text(_read_compact_bytes if is_flexible else _read_string)
    if kind in ("bytes", "records"):
        return _READ_BYTES[kind, is_flexible]
    layout = struct.Struct(">" + FORMATS[kind])
    if kind.startswith("timedelta"):
        return _converted(layout, lambda ms: timedelta(milliseconds=ms))
    if kind == "datetime_i64":
        return _converted(layout, lambda ms: None if ms == -1 else _EPOCH + timedelta(milliseconds=ms))

    def read_number(body: Body, position: int) -> tuple[Any, int]:
        return layout.unpack_from(body.data, position)[0], position + layout.size

    return read_number


def _converted(layout: struct.Struct, convert: Callable[[int], Any]) -> Read:
    return lambda body, position: (convert(layout.unpack_from(body.data, position)[0]), position + layout.size)


def within(body: Body, position: int, size: int) -> int:
    """Where `size` bytes from `position` on end."""
    if position + size > body.end:
        raise Malformed(f"{size} bytes are claimed, {body.end - position} are available")
    return position + size


def _read_uuid(body: Body, position: int) -> tuple[UUID | None, int]:
    stop = within(body, position, 16)
    data = bytes(body.data[position:stop])
    return UUID(bytes=data) if any(data) else None, stop


def _read_sized(body: Body, position: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, position
    stop = within(body, position, size)
    data = body.data[position:stop]
    return data if type(data) is bytes else bytes(data), stop  # a call saved, for each text of a request


def _read_string(body: Body, position: int) -> tuple[bytes | None, int]:
    return _read_sized(body, position + 2, _INT16.unpack_from(body.data, position)[0])


def _read_bytes(body: Body, position: int) -> tuple[bytes | None, int]:
    return _read_sized(body, position + 4, _INT32.unpack_from(body.data, position)[0])


def _read_compact_bytes(body: Body, position: int) -> tuple[bytes | None, int]:
    size, position = read_uvarint(body.data, position, body.end)
    if not size:
        return None, position
    stop = position + size - 1
    data = body.data[position : stop if stop <= body.end else within(body, position, size - 1)]
    return data if type(data) is bytes else bytes(data), stop


def _read_view(body: Body, position: int, size: int) -> tuple[memoryview | None, int]:
    if size < 0:
        return None, position
    stop = within(body, position, size)
    return memoryview(body.data)[position:stop], stop


def _read_records(body: Body, position: int) -> tuple[memoryview | None, int]:
    return _read_view(body, position + 4, _INT32.unpack_from(body.data, position)[0])


def _read_compact_records(body: Body, position: int) -> tuple[memoryview | None, int]:
    size, position = read_uvarint(body.data, position, body.end)
    return _read_view(body, position, size - 1)


_READ_BYTES: Final[dict[tuple[str, bool], Read]] = {
    ("bytes", False): _read_bytes,
    ("bytes", True): _read_compact_bytes,
    ("records", False): _read_records,
    ("records", True): _read_compact_records,
}


def _text(read: Read) -> Read:
    def read_text(body: Body, position: int) -> tuple[str | None, int]:
        data, position = read(body, position)
        if data is None:
            return None, position
        if len(data) > MAX_STRING_BYTES:  # a flexible version could say so; Kafka takes no longer one either
            raise Malformed(f"a string of {len(data)} bytes; the maximum is {MAX_STRING_BYTES}")
        return data.decode(), position

    return read_text


def array_reader(read: Read, *, is_flexible: bool) -> Read:
    def read_array(body: Body, position: int) -> tuple[Any, int]:
        count, position = read_count(body, position, is_flexible=is_flexible)
        if count < 0:
            return None, position
        elements = []
        for _ in range(count):
            element, position = read(body, position)
            elements.append(element)
        return tuple(elements), position

    return read_array


def array_steps(read: Read, steps: ReadSteps | None, *, is_flexible: bool) -> ReadSteps:
    """An array of elements that are read by `read`, or, if they have long arrays themselves, by `steps`."""

    def read_array(body: Body, position: int) -> Generator[None, None, tuple[Any, int]]:
        count, position = read_count(body, position, is_flexible=is_flexible)
        if count < 0:
            return None, position
        elements = []
        for _ in range(count):
            if body.left_in_step <= 0:
                yield
                body.left_in_step = ELEMENTS_PER_STEP
            body.left_in_step -= 1
            if steps is None:
                begin = position
                element, position = read(body, begin)
                body.left_in_step -= (position - begin) // BYTES_PER_ELEMENT
            else:
                element, position = yield from steps(body, position)
            elements.append(element)
        return tuple(elements), position

    return read_array


def number_array(layout: str, *, is_flexible: bool) -> Read:
    size = struct.calcsize(">" + layout)

    def read_array(body: Body, position: int) -> tuple[Any, int]:
        count, position = read_count(body, position, is_flexible=is_flexible)
        if count < 0:
            return None, position
        return struct.unpack_from(f">{count}{layout}", body.data, position), position + size * count

    return read_array


def read_count(body: Body, position: int, *, is_flexible: bool) -> tuple[int, int]:
    """How many elements an array has, -1 when it is null, and where the first begins."""
    if is_flexible:
        size, position = read_uvarint(body.data, position, body.end)
        count = size - 1
    else:
        (count,) = _INT32.unpack_from(body.data, position)
        position += 4
    if count > body.end - position:
        raise Malformed(f"an array of {count} does not fit in {body.end - position} bytes")
    body.elements_left -= max(count, 0)
    if body.elements_left < 0:
        raise Malformed("it has too many elements")
    return count, position


def not_null(read: Read, name: str) -> Read:
    def read_value(body: Body, position: int) -> tuple[Any, int]:
        value, position = read(body, position)
        if value is None:
            raise Malformed(f"{name} is null")
        return value, position

    return read_value


def not_null_steps(steps: ReadSteps, name: str) -> ReadSteps:
    def read_value(body: Body, position: int) -> Generator[None, None, tuple[Any, int]]:
        value, position = yield from steps(body, position)
        if value is None:
            raise Malformed(f"{name} is null")
        return value, position

    return read_value
