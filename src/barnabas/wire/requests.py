"""Reading a request by its kio schema, which is loaded when it is first asked for.

A handler is written once for all versions: it takes the request's kio entity, whatever its version, and reads a field
that not every version has by ``getattr`` with the default that the protocol gives it. Where an array is of entities
with nothing but numbers, those are named tuples with the same fields, which take a tenth of the time.

kio has a reader of its own, which cannot be let near a stranger's bytes (0.6.5): it reserves memory for as many
elements as an array claims to have, and a claim of four billion, which takes five bytes, ends the process; and it
refuses tagged fields it does not know, which are to be ignored. This one is plain Python. What a request may cost is
bounded by the number of its elements, and a long one is read in steps, so that others get their turn in between.
"""

import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from barnabas.core.records.batch import Buffer
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.frame import MAX_STRING_BYTES, MAX_TAGGED_FIELDS, RequestHeader, read_uvarint
from barnabas.wire.number_rows import NumberRow, number_row
from barnabas.wire.schema import FORMATS, take_apart
from barnabas.wire.schemas import request_schema

MAX_ELEMENTS: Final = 100_000  # of all arrays of a request together: far more than a client asks for at once
ELEMENTS_PER_STEP: Final = 100  # of arrays, of which each takes some microseconds
BYTES_PER_ELEMENT: Final = 4096  # which take as long again
_ROWS_PER_STEP: Final = 1000  # of numbers, of which one is read in a fraction of a microsecond
_MILLISECOND: Final = timedelta(milliseconds=1)
_PLAIN_NUMBERS: Final = ("int8", "int16", "int32", "int64")  # an array of which is read in one go
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class _Body:
    """The bytes of one request, and what may still come of them."""

    __slots__ = ("data", "elements_left", "end", "left_in_step")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.end = len(data)
        self.elements_left = MAX_ELEMENTS
        self.left_in_step = ELEMENTS_PER_STEP


# Reads a value at a position: the value, and where it ends.
_Read = Callable[[_Body, int], tuple[Any, int]]
# The same in steps, for what has arrays that may be long.
_ReadSteps = Callable[[_Body, int], Generator[None, None, tuple[Any, int]]]


def read_request(header: RequestHeader, data: Buffer, end: int) -> Any:
    """The kio entity of a request."""
    with _refusing(header):
        entity, _ = _entity(request_schema(header.api.key, header.version))(_body(header, data, end), 0)
    return entity


def read_request_in_steps(header: RequestHeader, data: Buffer, end: int) -> Generator[None, None, Any]:
    """The same for a long request. The data is copied at once; the first step is to ask for the next."""
    body = _body(header, data, end)
    return _read_in_steps(header, body)


def _read_in_steps(header: RequestHeader, body: _Body) -> Generator[None, None, Any]:
    yield
    schema = request_schema(header.api.key, header.version)
    steps = _entity_steps(schema)
    with _refusing(header):
        entity, _ = _entity(schema)(body, 0) if steps is None else (yield from steps(body, 0))
    return entity


def _body(header: RequestHeader, data: Buffer, end: int) -> _Body:
    return _Body(bytes(data[header.body_at : end]))


@contextmanager
def _refusing(header: RequestHeader) -> Iterator[None]:
    try:
        yield
    except (struct.error, IndexError):
        raise MalformedRequest(f"{header.api.name} version {header.version} is cut off") from None
    except (ValueError, OverflowError) as error:  # no text, or a time that is none
        raise MalformedRequest(f"{header.api.name} version {header.version}: {error}") from None


def to_ms(duration: timedelta) -> int:
    """Milliseconds of what is read from a field of milliseconds."""
    return duration // _MILLISECOND


@cache
def _entity(entity: Any) -> _Read:
    plain: list[tuple[str, _Read]] = []
    tagged: dict[int, tuple[str, _Read]] = {}
    for field in fields(entity):
        read = _field(field, is_flexible=entity.__flexible__)
        tag = field.metadata.get("tag")
        if tag is None:
            plain.append((field.name, read))
        else:
            assert field.default is not MISSING, field
            tagged[tag] = (field.name, read)

    def read_entity(body: _Body, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for name, read_value in plain:
            values[name], position = read_value(body, position)
        if entity.__flexible__:
            position = _read_tagged(body, position, tagged, values)
        return entity(**values), position

    return read_entity


@cache
def _entity_steps(entity: Any) -> _ReadSteps | None:
    """None: it has no arrays that may be long."""
    plain = [field for field in fields(entity) if field.metadata.get("tag") is None]
    parts = [
        (
            field.name,
            _field(field, is_flexible=entity.__flexible__),
            _field_steps(field, is_flexible=entity.__flexible__),
        )
        for field in plain
    ]
    if all(steps is None for _, _, steps in parts):
        return None
    tagged = {
        field.metadata["tag"]: (field.name, _field(field, is_flexible=entity.__flexible__))
        for field in fields(entity)
        if field.metadata.get("tag") is not None
    }

    def read_entity(body: _Body, position: int) -> Generator[None, None, tuple[Any, int]]:
        values: dict[str, Any] = {}
        for name, read_value, steps in parts:
            if steps is None:
                values[name], position = read_value(body, position)
            else:
                values[name], position = yield from steps(body, position)
        if entity.__flexible__:
            position = _read_tagged(body, position, tagged, values)
        return entity(**values), position

    return read_entity


def _field_steps(field: "Field[Any]", *, is_flexible: bool) -> _ReadSteps | None:
    inner, is_nullable, is_array = take_apart(field.type)
    row = _row_of(inner) if is_array else None
    if row is not None:
        in_steps = _rows_in_steps(row)
        return in_steps if is_nullable else _not_null_steps(in_steps, field.name)
    if is_dataclass(inner):
        read, steps = _entity(inner), _entity_steps(inner)  # type: ignore[arg-type]
        if not is_array:
            return None if is_nullable else steps
    elif is_array and field.metadata["kafka_type"] not in FORMATS:
        read = _not_null(_value(field.metadata["kafka_type"], is_flexible=is_flexible), field.name)
        steps = None
    else:
        return None
    in_steps = _array_steps(read, steps, is_flexible=is_flexible)
    return in_steps if is_nullable else _not_null_steps(in_steps, field.name)


def _read_tagged(body: _Body, position: int, known: dict[int, tuple[str, _Read]], values: dict[str, Any]) -> int:
    """Put the tagged fields that the schema knows into `values`; the others are for somebody else."""
    data, end = body.data, body.end
    count, position = read_uvarint(data, position, end)
    if count > MAX_TAGGED_FIELDS:
        raise MalformedRequest(f"{count} tagged fields are more than the {MAX_TAGGED_FIELDS} that are taken")
    for _ in range(count):
        tag, position = read_uvarint(data, position, end)
        size, position = read_uvarint(data, position, end)
        stop = _within(body, position, size)
        if tag in known:
            name, read = known[tag]
            values[name], read_to = read(body, position)
            if read_to != stop:
                raise MalformedRequest(f"tagged field {tag} is not as long as it says")
        position = stop
    return position


def _field(field: "Field[Any]", *, is_flexible: bool) -> _Read:
    inner, is_nullable, is_array = take_apart(field.type)
    is_tagged = "tag" in field.metadata
    row = _row_of(inner) if is_array else None
    if row is not None:
        return _rows(row) if is_nullable else _not_null(_rows(row), field.name)
    if is_dataclass(inner):
        read = _entity(inner)  # type: ignore[arg-type]
        if not is_array:
            return _nullable_entity(read) if is_nullable and not is_tagged else read
    else:
        kind = field.metadata["kafka_type"]
        read = _value(kind, is_flexible=is_flexible)
        if is_array and kind in _PLAIN_NUMBERS:
            read = _number_array(FORMATS[kind], is_flexible=is_flexible)
            return read if is_nullable else _not_null(read, field.name)
        if is_array:
            read = _not_null(read, field.name)  # an array may be null, what is in it may not
    if is_array:
        read = _array(read, is_flexible=is_flexible)
    return read if is_nullable else _not_null(read, field.name)


def _value(kind: str, *, is_flexible: bool) -> _Read:
    if kind == "uuid":
        return _read_uuid
    if kind == "string":
        return _text(_read_compact_bytes if is_flexible else _read_string)
    if kind in ("bytes", "records"):
        return _read_compact_bytes if is_flexible else _read_bytes
    layout = struct.Struct(">" + FORMATS[kind])
    if kind.startswith("timedelta"):
        return _converted(layout, lambda ms: timedelta(milliseconds=ms))
    if kind == "datetime_i64":
        return _converted(layout, lambda ms: None if ms == -1 else _EPOCH + timedelta(milliseconds=ms))

    def read_number(body: _Body, position: int) -> tuple[Any, int]:
        return layout.unpack_from(body.data, position)[0], position + layout.size

    return read_number


def _converted(layout: struct.Struct, convert: Callable[[int], Any]) -> _Read:
    return lambda body, position: (convert(layout.unpack_from(body.data, position)[0]), position + layout.size)


def _within(body: _Body, position: int, size: int) -> int:
    """Where `size` bytes from `position` on end."""
    if position + size > body.end:
        raise MalformedRequest(f"{size} bytes are claimed, {body.end - position} are there")
    return position + size


def _read_uuid(body: _Body, position: int) -> tuple[UUID | None, int]:
    stop = _within(body, position, 16)
    data = body.data[position:stop]
    return UUID(bytes=data) if any(data) else None, stop


def _read_sized(body: _Body, position: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, position
    stop = _within(body, position, size)
    return body.data[position:stop], stop


def _read_string(body: _Body, position: int) -> tuple[bytes | None, int]:
    return _read_sized(body, position + 2, _INT16.unpack_from(body.data, position)[0])


def _read_bytes(body: _Body, position: int) -> tuple[bytes | None, int]:
    return _read_sized(body, position + 4, _INT32.unpack_from(body.data, position)[0])


def _read_compact_bytes(body: _Body, position: int) -> tuple[bytes | None, int]:
    size, position = read_uvarint(body.data, position, body.end)
    return _read_sized(body, position, size - 1)


def _text(read: _Read) -> _Read:
    def read_text(body: _Body, position: int) -> tuple[str | None, int]:
        data, position = read(body, position)
        if data is None:
            return None, position
        if len(data) > MAX_STRING_BYTES:  # a flexible version could say so; Kafka takes no longer one either
            raise MalformedRequest(f"a string of {len(data)} bytes; at most {MAX_STRING_BYTES} are taken")
        return data.decode(), position

    return read_text


def _array(read: _Read, *, is_flexible: bool) -> _Read:
    def read_array(body: _Body, position: int) -> tuple[Any, int]:
        count, position = _read_count(body, position, is_flexible=is_flexible)
        if count < 0:
            return None, position
        elements = []
        for _ in range(count):
            element, position = read(body, position)
            elements.append(element)
        return tuple(elements), position

    return read_array


def _array_steps(read: _Read, steps: _ReadSteps | None, *, is_flexible: bool) -> _ReadSteps:
    """An array of elements that are read by `read`, or, if they have long arrays themselves, by `steps`."""

    def read_array(body: _Body, position: int) -> Generator[None, None, tuple[Any, int]]:
        count, position = _read_count(body, position, is_flexible=is_flexible)
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


def _row_of(inner: Any) -> NumberRow | None:
    return number_row(inner) if is_dataclass(inner) else None  # type: ignore[arg-type]


def _rows(row: NumberRow) -> _Read:
    """An array of entities that are nothing but numbers."""

    def read_array(body: _Body, position: int) -> tuple[Any, int]:
        count, position = _read_count(body, position, is_flexible=row.is_flexible)
        if count < 0:
            return None, position
        found, position = _read_rows(body, position, row, count)
        return tuple(found), position

    return read_array


def _rows_in_steps(row: NumberRow) -> _ReadSteps:
    def read_array(body: _Body, position: int) -> Generator[None, None, tuple[Any, int]]:
        count, position = _read_count(body, position, is_flexible=row.is_flexible)
        if count < 0:
            return None, position
        rows: list[Any] = []
        while len(rows) < count:
            if body.left_in_step <= 0:
                yield
                body.left_in_step = ELEMENTS_PER_STEP
            found, position = _read_rows(body, position, row, min(count - len(rows), _ROWS_PER_STEP))
            body.left_in_step -= 1 + len(found) * ELEMENTS_PER_STEP // _ROWS_PER_STEP
            rows += found
        return tuple(rows), position

    return read_array


def _read_rows(body: _Body, position: int, row: NumberRow, count: int) -> tuple[list[Any], int]:
    stop = position + count * row.row.size
    found = row.unpack(body.data[position:stop]) if stop <= body.end else None
    if found is not None:
        return found, stop
    found = []
    for _ in range(count):
        found.append(row.kind._make(row.numbers.unpack_from(body.data, position)))
        position += row.numbers.size
        if row.is_flexible:
            position = _read_tagged(body, position, {}, {})
    return found, position


def _number_array(layout: str, *, is_flexible: bool) -> _Read:
    size = struct.calcsize(">" + layout)

    def read_array(body: _Body, position: int) -> tuple[Any, int]:
        count, position = _read_count(body, position, is_flexible=is_flexible)
        if count < 0:
            return None, position
        return struct.unpack_from(f">{count}{layout}", body.data, position), position + size * count

    return read_array


def _read_count(body: _Body, position: int, *, is_flexible: bool) -> tuple[int, int]:
    """How many elements an array has, -1 when it is null, and where the first begins."""
    if is_flexible:
        size, position = read_uvarint(body.data, position, body.end)
        count = size - 1
    else:
        (count,) = _INT32.unpack_from(body.data, position)
        position += 4
    if count > body.end - position:
        raise MalformedRequest(f"an array of {count} does not fit in {body.end - position} bytes")
    body.elements_left -= max(count, 0)
    if body.elements_left < 0:
        raise MalformedRequest(f"a request has more than {MAX_ELEMENTS} elements")
    return count, position


def _nullable_entity(read: _Read) -> _Read:
    def read_or_null(body: _Body, position: int) -> tuple[Any, int]:
        if body.data[position] >= 0x80:  # a negative number
            return None, position + 1
        return read(body, position + 1)

    return read_or_null


def _not_null(read: _Read, name: str) -> _Read:
    def read_value(body: _Body, position: int) -> tuple[Any, int]:
        value, position = read(body, position)
        if value is None:
            raise MalformedRequest(f"{name} is null")
        return value, position

    return read_value


def _not_null_steps(steps: _ReadSteps, name: str) -> _ReadSteps:
    def read_value(body: _Body, position: int) -> Generator[None, None, tuple[Any, int]]:
        value, position = yield from steps(body, position)
        if value is None:
            raise MalformedRequest(f"{name} is null")
        return value, position

    return read_value
