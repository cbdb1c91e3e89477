"""Reading a request by its kio schema, which is loaded when it is first asked for.

A handler is written once for all versions: it takes the request's kio entity, whatever its version, and reads a field
that not every version has by ``getattr`` with the default that the protocol gives it.

kio has a reader of its own, which cannot be let near a stranger's bytes (0.6.5): it reserves memory for as many
elements as an array claims to have, and a claim of four billion, which takes five bytes, ends the process; and it
refuses tagged fields it does not know, which are to be ignored. This one is plain Python. What a request may cost is
bounded by the number of its elements.
"""

import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from kio.index import load_request_schema

from barnabas.core.records.batch import Buffer
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.frame import MAX_TAGGED_FIELDS, RequestHeader, read_uvarint
from barnabas.wire.schema import FORMATS, take_apart

MAX_ELEMENTS: Final = 100_000  # of all arrays of a request together: far more than a client asks for at once
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class _Body:
    """The bytes of one request, and what may still come of them."""

    __slots__ = ("data", "elements_left", "end")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.end = len(data)
        self.elements_left = MAX_ELEMENTS


# Reads a value at a position: the value, and where it ends.
_Read = Callable[[_Body, int], tuple[Any, int]]


def read_request(header: RequestHeader, data: Buffer, end: int) -> Any:
    """The kio entity of a request."""
    read = _reader(header.api.key, header.version)
    try:
        entity, _ = read(_Body(bytes(data[header.body_at : end])), 0)
    except (struct.error, IndexError):
        raise MalformedRequest(f"{header.api.name} version {header.version} is cut off") from None
    except (ValueError, OverflowError) as error:  # no text, or a time that is none
        raise MalformedRequest(f"{header.api.name} version {header.version}: {error}") from None
    return entity


def to_ms(duration: timedelta) -> int:
    """Milliseconds of what is read from a field of milliseconds."""
    return duration // _MILLISECOND


@cache
def _reader(key: int, version: int) -> _Read:
    return _entity(load_request_schema(key, version))


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
    if is_dataclass(inner):
        read = _entity(inner)  # type: ignore[arg-type]
        if not is_array:
            return _nullable_entity(read) if is_nullable and not is_tagged else read
    else:
        read = _value(field.metadata["kafka_type"], is_flexible=is_flexible)
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
        return None if data is None else data.decode(), position

    return read_text


def _array(read: _Read, *, is_flexible: bool) -> _Read:
    def read_array(body: _Body, position: int) -> tuple[Any, int]:
        if is_flexible:
            size, position = read_uvarint(body.data, position, body.end)
            count = size - 1
        else:
            (count,) = _INT32.unpack_from(body.data, position)
            position += 4
        if count < 0:
            return None, position
        if count > body.end - position:
            raise MalformedRequest(f"an array of {count} does not fit in {body.end - position} bytes")
        body.elements_left -= count
        if body.elements_left < 0:
            raise MalformedRequest(f"a request has more than {MAX_ELEMENTS} elements")
        elements = []
        for _ in range(count):
            element, position = read(body, position)
            elements.append(element)
        return tuple(elements), position

    return read_array


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
