"""Reading the fields of a struct by its kio schema: a request or a response; the bytes are untrusted.

A struct becomes the kio entity of its version. In a request it has the fields of other versions too, with the defaults
that the protocol gives them (`absent_fields`); in an answer such a field is read by ``getattr``. Where an array is of
entities with nothing but numbers, those are named tuples with the same fields, which take a tenth of the time. An error
code is its number, records are a view of the bytes.

kio has its own reader, which is not safe for untrusted bytes (0.6.5): it reserves memory for as many
elements as an array claims to have, and a claim of four billion, which takes five bytes, ends the process; and it
refuses tagged fields it does not know, which are to be ignored. This one is plain Python. What a message may cost is
bounded by the number of its elements, and a long one is read in steps, so that others get their turn in between.

Must not know: which messages there are.
"""

import struct
from collections.abc import Generator
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, Final

from barnabas.wire.absent_fields import add_absent_fields
from barnabas.wire.errors import Malformed
from barnabas.wire.frame import MAX_TAGGED_FIELDS, read_uvarint
from barnabas.wire.number_rows import NumberRow, number_row
from barnabas.wire.own_fields import with_own_fields
from barnabas.wire.reading_values import (
    ELEMENTS_PER_STEP,
    Body,
    Read,
    ReadSteps,
    array_reader,
    array_steps,
    not_null,
    not_null_steps,
    number_array,
    read_count,
    value_reader,
    within,
)
from barnabas.wire.schema import FORMATS, implicit_default, is_struct, take_apart
from barnabas.wire.straight_reading import StraightField, straight_reader

_ROWS_PER_STEP: Final = 1000  # of numbers, of which one is read in a fraction of a microsecond
_PLAIN_NUMBERS: Final = ("int8", "int16", "int32", "int64")  # an array of which is read in one go
_NOT_READ: Final = (struct.error, IndexError, ValueError, OverflowError)  # cut off, no text, or a time that is none


def read_struct(schema: Any, body: Body) -> tuple[Any, int]:
    """The entity at the beginning of `body`, and where it ends. Raises `Malformed` alone."""
    try:
        return _entity(schema)(body, 0)
    except _NOT_READ as error:
        raise _malformed(error) from None


def read_struct_in_steps(schema: Any, body: Body) -> Generator[None, None, tuple[Any, int]]:
    """The same for a long message."""
    steps = _entity_steps(schema)
    try:
        return _entity(schema)(body, 0) if steps is None else (yield from steps(body, 0))
    except _NOT_READ as error:
        raise _malformed(error) from None


def _malformed(error: Exception) -> Malformed:
    return Malformed("it is truncated" if isinstance(error, (struct.error, IndexError)) else str(error))


class _Struct:
    """What is known of a kio class: its plain fields in order, its tagged ones, and those that have no default."""

    def __init__(self, entity: Any) -> None:
        self.kind = with_own_fields(entity)
        add_absent_fields(self.kind, entity)
        self.is_flexible: bool = self.kind.__flexible__
        all_fields = fields(self.kind)
        self.plain = [field for field in all_fields if "tag" not in field.metadata]
        tagged = [field for field in all_fields if "tag" in field.metadata]
        self.tagged: dict[int, tuple[str, Read]] = {
            field.metadata["tag"]: (field.name, _field(field, is_flexible=True)) for field in tagged
        }
        self.implied = {field.name: implicit_default(field) for field in tagged if field.default is MISSING}


@cache
def _entity(entity: Any) -> Read:
    known = _Struct(entity)
    kind, is_flexible, tagged, implied = known.kind, known.is_flexible, known.tagged, known.implied
    plain = [(field.name, _field(field, is_flexible=is_flexible)) for field in known.plain]
    if not tagged:
        kinds = [_single_kind(field) for field in known.plain]
        straight = [StraightField(name, of, read) for (name, read), of in zip(plain, kinds, strict=True)]
        return straight_reader(kind, straight, is_flexible=is_flexible, skip_tagged=_skip_tagged)

    def read_entity(body: Body, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = {}
        for name, read_value in plain:
            values[name], position = read_value(body, position)
        if implied:
            values |= implied
        if is_flexible:
            position = _read_tagged(body, position, tagged, values)
        return kind(**values), position

    return read_entity


@cache
def _entity_steps(entity: Any) -> ReadSteps | None:
    """None: it has no arrays that may be long."""
    known = _Struct(entity)
    kind, is_flexible, tagged, implied = known.kind, known.is_flexible, known.tagged, known.implied
    parts = [
        (field.name, _field(field, is_flexible=is_flexible), _field_steps(field, is_flexible=is_flexible))
        for field in known.plain
    ]
    if all(steps is None for _, _, steps in parts):
        return None

    def read_entity(body: Body, position: int) -> Generator[None, None, tuple[Any, int]]:
        values: dict[str, Any] = {}
        for name, read_value, steps in parts:
            if steps is None:
                values[name], position = read_value(body, position)
            else:
                values[name], position = yield from steps(body, position)
        if implied:
            values |= implied
        if is_flexible:
            position = _read_tagged(body, position, tagged, values)
        return kind(**values), position

    return read_entity


def _field_steps(field: "Field[Any]", *, is_flexible: bool) -> ReadSteps | None:
    inner, is_nullable, is_array = take_apart(field.type)
    row = _row_of(inner) if is_array else None
    if row is not None:
        in_steps = _rows_in_steps(row)
        return in_steps if is_nullable else not_null_steps(in_steps, field.name)
    if is_struct(inner):
        read, steps = _entity(inner), _entity_steps(inner)
        if not is_array:
            return None if is_nullable else steps
    elif is_array and field.metadata["kafka_type"] not in FORMATS:
        read = _element(field, is_flexible=is_flexible)
        steps = None
    else:
        return None
    in_steps = array_steps(read, steps, is_flexible=is_flexible)
    return in_steps if is_nullable else not_null_steps(in_steps, field.name)


def _read_tagged(body: Body, position: int, known: dict[int, tuple[str, Read]], values: dict[str, Any]) -> int:
    """Put the tagged fields that the schema knows into `values`; skip the others."""
    data, end = body.data, body.end
    if position < end and not data[position]:  # there are none, as in most
        return position + 1
    count, position = read_uvarint(data, position, end)
    if count > MAX_TAGGED_FIELDS:
        raise Malformed(f"{count} tagged fields; the maximum is {MAX_TAGGED_FIELDS}")
    for _ in range(count):
        tag, position = read_uvarint(data, position, end)
        size, position = read_uvarint(data, position, end)
        stop = within(body, position, size)
        if tag in known:
            name, read = known[tag]
            values[name], read_to = read(body, position)
            if read_to != stop:
                raise Malformed(f"tagged field {tag} does not have the length it claims")
        position = stop
    return position


def _skip_tagged(body: Body, position: int) -> int:
    return _read_tagged(body, position, {}, {})


def _single_kind(field: "Field[Any]") -> str | None:
    """What a field is, if it is a single value and not an array or a struct."""
    inner, _, is_array = take_apart(field.type)
    return None if is_array or is_struct(inner) else field.metadata["kafka_type"]


def _field(field: "Field[Any]", *, is_flexible: bool) -> Read:
    inner, is_nullable, is_array = take_apart(field.type)
    is_tagged = "tag" in field.metadata
    row = _row_of(inner) if is_array else None
    if row is not None:
        return _rows(row) if is_nullable else not_null(_rows(row), field.name)
    if is_struct(inner):
        read = _entity(inner)
        if not is_array:
            return _nullable_entity(read) if is_nullable and not is_tagged else read
    else:
        kind = field.metadata["kafka_type"]
        read = value_reader(kind, is_flexible=is_flexible)
        if is_array and kind in _PLAIN_NUMBERS:
            read = number_array(FORMATS[kind], is_flexible=is_flexible)
            return read if is_nullable else not_null(read, field.name)
        if is_array:
            read = _element(field, is_flexible=is_flexible)
        if not is_array and kind == "datetime_i64":
            return read  # -1 where the protocol has no other word for none, as of a transaction that is not open
    if is_array:
        read = array_reader(read, is_flexible=is_flexible)
    elif field.metadata.get("kafka_type") in _PLAIN_NUMBERS:
        return read  # never null
    return read if is_nullable else not_null(read, field.name)


def _element(field: "Field[Any]", *, is_flexible: bool) -> Read:
    """Of an array, which may be null; what is in it may not, but for the id that is all zeros."""
    kind = field.metadata["kafka_type"]
    read = value_reader(kind, is_flexible=is_flexible)
    return read if kind == "uuid" else not_null(read, field.name)


def _row_of(inner: Any) -> NumberRow | None:
    row = number_row(with_own_fields(inner)) if is_struct(inner) else None
    if row is not None:
        add_absent_fields(row.kind, inner)
    return row


def _rows(row: NumberRow) -> Read:
    """An array of entities of numbers only."""

    def read_array(body: Body, position: int) -> tuple[Any, int]:
        count, position = read_count(body, position, is_flexible=row.is_flexible)
        if count < 0:
            return None, position
        found, position = _read_rows(body, position, row, count)
        return tuple(found), position

    return read_array


def _rows_in_steps(row: NumberRow) -> ReadSteps:
    def read_array(body: Body, position: int) -> Generator[None, None, tuple[Any, int]]:
        count, position = read_count(body, position, is_flexible=row.is_flexible)
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


def _read_rows(body: Body, position: int, row: NumberRow, count: int) -> tuple[list[Any], int]:
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


def _nullable_entity(read: Read) -> Read:
    def read_or_null(body: Body, position: int) -> tuple[Any, int]:
        if body.data[position] >= 0x80:  # a negative number
            return None, position + 1
        return read(body, position + 1)

    return read_or_null
