"""Writing the fields of a struct in any version from plain values, by its kio schema: a request or a response.

The values are a mapping of the newest field names to values: numbers, strings, bytes, UUIDs, None, sequences, and
mappings for nested entities. Only what the asked-for version has is written; what is left out gets the default of the
protocol. An error code is its number, a duration its milliseconds. That makes a handler one function for all versions,
and writes several times faster than building kio's entities first. A long message is written in steps, so that others
get their turn in between.

A response is written in any case: a text that is longer than its format holds is cut, null where there is none is
empty. A request with either is refused, for it would ask for something else.
"""

import struct
from collections.abc import Callable, Generator, Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from barnabas.core.errors import InvalidRequest
from barnabas.wire.frame import MAX_STRING_BYTES, cut_string, write_uvarint
from barnabas.wire.number_rows import NumberRow, number_row
from barnabas.wire.own_fields import with_own_fields
from barnabas.wire.schema import FORMATS, implicit_default, is_struct, take_apart

Values = Mapping[str, Any]
Write = Callable[[bytearray, Any], None]

ELEMENTS_PER_STEP: Final = 40  # of arrays, of which each takes some microseconds
BYTES_PER_ELEMENT: Final = 4096  # which take as long again
_PLAIN_NUMBERS: Final = ("int8", "int16", "int32", "int64")
_NO_UUID: Final = bytes(16)


class Manner(Enum):
    """How values that do not fit are written; see above."""

    REQUEST = "request"
    RESPONSE = "response"


@cache
def struct_writer(schema: Any, manner: Manner) -> Write:
    """A function that writes the fields of a kio class."""
    return _entity_writer(schema, manner)


@cache
def struct_steps_writer(schema: Any, manner: Manner) -> Callable[[Values], Generator[None, None, bytearray]]:
    """A function that writes what that of `struct_writer` writes, in steps."""
    steps, write = _entity_steps(schema, manner), _entity_writer(schema, manner)

    def write_in_steps(values: Values) -> Generator[None, None, bytearray]:
        out = _Out()
        if steps is None:
            write(out, values)
        else:
            yield from steps(out, values)
        return out

    return write_in_steps


class _Out(bytearray):
    """A body being written."""

    left_in_step = ELEMENTS_PER_STEP


# Writes in steps what has arrays that may be long.
_WriteSteps = Callable[[_Out, Any], Generator[None, None, None]]


class _FieldWriter(NamedTuple):
    name: str
    write: Write
    default: Any
    tag: int


@cache
def _entity_writer(entity: Any, manner: Manner) -> Write:
    entity = with_own_fields(entity)
    writers = [_field_writer(field, manner, is_flexible=entity.__flexible__) for field in fields(entity)]
    plain = [each for each in writers if each.tag < 0]
    tagged = sorted((each for each in writers if each.tag >= 0), key=lambda each: each.tag)

    def write(out: bytearray, values: Values) -> None:
        for name, write_field, default, _ in plain:
            write_field(out, values.get(name, default))

    def write_flexible(out: bytearray, values: Values) -> None:
        write(out, values)
        _write_tagged(out, values, tagged)

    row = number_row(entity)
    if row is not None:
        return _row(row, write_flexible if row.is_flexible else write)
    return write_flexible if entity.__flexible__ else write


def _row(row: NumberRow, write: Write) -> Write:
    """Of nothing but numbers: all in one go; by `write` where a handler has left some out."""

    def write_row(out: bytearray, values: Values) -> None:
        try:
            out += row.pack(values)
        except KeyError:
            write(out, values)

    return write_row


@cache
def _entity_steps(entity: Any, manner: Manner) -> _WriteSteps | None:
    """None: it has no arrays that may be long."""
    entity = with_own_fields(entity)
    is_flexible = entity.__flexible__
    all_fields = [(_field_writer(each, manner, is_flexible=is_flexible), each) for each in fields(entity)]
    plain = [
        (writer, _field_steps(each, manner, is_flexible=is_flexible)) for writer, each in all_fields if writer.tag < 0
    ]
    if all(steps is None for _, steps in plain):
        return None
    tagged = sorted((writer for writer, _ in all_fields if writer.tag >= 0), key=lambda each: each.tag)

    def write(out: _Out, values: Values) -> Generator[None, None, None]:
        for (name, write_field, default, _), steps in plain:
            value = values.get(name, default)
            if steps is None or value is None:
                write_field(out, value)
            else:
                yield from steps(out, value)
        if is_flexible:
            _write_tagged(out, values, tagged)

    return write


def _field_steps(field: "Field[Any]", manner: Manner, *, is_flexible: bool) -> _WriteSteps | None:
    """For an array of entities or texts: numbers are written in one go."""
    inner, is_nullable, is_array = take_apart(field.type)
    if not is_array:
        return _entity_steps(inner, manner) if is_struct(inner) and not is_nullable else None
    if not is_struct(inner) and field.metadata["kafka_type"] in FORMATS:
        return None
    write = _value_writer(field, inner, manner, is_flexible=is_flexible, is_marked=False)
    steps = _entity_steps(inner, manner) if is_struct(inner) else None

    def write_array(out: _Out, values: Any) -> Generator[None, None, None]:
        out += write_uvarint(len(values) + 1) if is_flexible else len(values).to_bytes(4, "big")
        for value in values:
            if out.left_in_step <= 0:
                yield
                out.left_in_step = ELEMENTS_PER_STEP
            out.left_in_step -= 1
            if steps is None:
                size = len(out)
                write(out, value)
                out.left_in_step -= (len(out) - size) // BYTES_PER_ELEMENT
            else:
                yield from steps(out, value)

    return write_array


def _write_tagged(out: bytearray, values: Values, tagged: list[_FieldWriter]) -> None:
    if not tagged:
        out += b"\x00"
        return
    present = [each for each in tagged if not _is_default(values.get(each.name, each.default), each.default)]
    out += write_uvarint(len(present))
    for name, write_field, _, tag in present:
        body = bytearray()
        write_field(body, values[name])
        out += write_uvarint(tag) + write_uvarint(len(body)) + body


def _is_default(value: Any, default: Any) -> bool:
    """Whether a tagged field is left out; any empty sequence equals an empty array."""
    return value == default or (default == () and value is not None and not len(value))


def _field_writer(field: "Field[Any]", manner: Manner, *, is_flexible: bool) -> _FieldWriter:
    tag = field.metadata.get("tag", -1)
    inner, is_nullable, is_array = take_apart(field.type)
    # Nullable means the array, not its elements; and a tagged field that is null is not written at all.
    is_marked = is_nullable and not is_array and tag < 0
    write = _value_writer(field, inner, manner, is_flexible=is_flexible, is_marked=is_marked)
    if is_array and field.metadata.get("kafka_type") in _PLAIN_NUMBERS:
        write = _number_array(FORMATS[field.metadata["kafka_type"]], is_flexible=is_flexible)
    elif is_array:
        write = _compact_array(write) if is_flexible else _array(write)
    if not is_nullable and (is_array or field.metadata.get("kafka_type") in ("string", "bytes", "records")):
        if manner is Manner.REQUEST:
            write = _not_null(write, field.name)
        else:
            write = _never_null(write, () if is_array else _zero(field.metadata["kafka_type"]))
    return _FieldWriter(field.name, write, _default(field, is_nullable=is_nullable, is_array=is_array), tag)


def _default(field: "Field[Any]", *, is_nullable: bool, is_array: bool) -> Any:
    """The value of a field that a handler leaves out: kio's default, else the protocol's zero."""
    default: Any = None if field.default is MISSING else field.default
    if "tag" in field.metadata:
        default = implicit_default(field)
    if is_array:
        return () if default is None and not is_nullable else default
    if isinstance(default, timedelta):
        return default // timedelta(milliseconds=1)
    if isinstance(default, datetime):
        return round(default.timestamp() * 1000)
    if isinstance(default, Enum):
        return int(default.value)
    if is_dataclass(default) and not isinstance(default, type):
        return asdict(default)
    return default if default is not None or is_nullable else _zero(field.metadata.get("kafka_type"))


def _zero(kind: str | None) -> Any:
    if kind == "string":
        return ""
    if kind in ("bytes", "records"):
        return b""
    return {} if kind is None else 0


def _value_writer(field: "Field[Any]", inner: Any, manner: Manner, *, is_flexible: bool, is_marked: bool) -> Write:
    if is_struct(inner):
        write: Write = _entity_writer(inner, manner)
        return _nullable_entity(write) if is_marked else write
    kind = field.metadata["kafka_type"]
    if kind == "uuid":
        return _write_uuid
    if kind == "string":
        return _string_writer(field.name, manner, is_flexible=is_flexible)
    if kind in ("bytes", "records"):
        return _write_compact_bytes if is_flexible else _write_bytes
    if kind == "datetime_i64":
        return _write_time
    pack = struct.Struct(">" + FORMATS[kind]).pack

    def write_number(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write_number


def _never_null(write: Write, empty: Any) -> Write:
    """For a field that cannot be null: what was left out of a request, and is said back, is empty, as in Kafka."""

    def write_value(out: bytearray, value: Any) -> None:
        write(out, empty if value is None else value)

    return write_value


def _not_null(write: Write, name: str) -> Write:
    def write_value(out: bytearray, value: Any) -> None:
        if value is None:
            raise InvalidRequest(f"{name} cannot be null")
        write(out, value)

    return write_value


def _string_writer(name: str, manner: Manner, *, is_flexible: bool) -> Write:
    if manner is Manner.RESPONSE:
        return _write_compact_string if is_flexible else _write_string
    write = _write_compact_bytes if is_flexible else _write_short_bytes

    def write_text(out: bytearray, value: str | None) -> None:
        data = None if value is None else value.encode()
        if data is not None and len(data) > MAX_STRING_BYTES:
            raise InvalidRequest(f"{name} has {len(data)} bytes; the maximum is {MAX_STRING_BYTES}")
        write(out, data)

    return write_text


def _nullable_entity(write: Write) -> Write:
    def write_or_null(out: bytearray, value: Any) -> None:
        if value is None:
            out += b"\xff"
        else:
            out += b"\x01"
            write(out, value)

    return write_or_null


def _compact_array(write: Write) -> Write:
    def write_array(out: bytearray, values: Any) -> None:
        if values is None:
            out += b"\x00"
            return
        out += write_uvarint(len(values) + 1)
        for value in values:
            write(out, value)

    return write_array


def _array(write: Write) -> Write:
    def write_array(out: bytearray, values: Any) -> None:
        if values is None:
            out += b"\xff\xff\xff\xff"
            return
        out += len(values).to_bytes(4, "big")
        for value in values:
            write(out, value)

    return write_array


def _number_array(layout: str, *, is_flexible: bool) -> Write:
    """Of numbers that have nothing about them: all in one go."""

    def write_array(out: bytearray, values: Any) -> None:
        if values is None:
            out += b"\x00" if is_flexible else b"\xff\xff\xff\xff"
            return
        count = len(values)
        out += write_uvarint(count + 1) if is_flexible else count.to_bytes(4, "big")
        out += struct.pack(f">{count}{layout}", *values)

    return write_array


def _write_uuid(out: bytearray, value: UUID | None) -> None:
    out += _NO_UUID if value is None else value.bytes


def _write_time(out: bytearray, value: int | None) -> None:
    out += struct.pack(">q", -1 if value is None else value)


def _write_compact_string(out: bytearray, value: str | None) -> None:
    _write_compact_bytes(out, None if value is None else cut_string(value))


def _write_string(out: bytearray, value: str | None) -> None:
    _write_short_bytes(out, None if value is None else cut_string(value))


def _write_short_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\xff\xff"
        return
    out += len(value).to_bytes(2, "big", signed=True)
    out += value


def _write_compact_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\x00"
        return
    out += write_uvarint(len(value) + 1)
    out += value


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    out += len(value).to_bytes(4, "big", signed=True)
    out += value
