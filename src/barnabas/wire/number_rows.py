"""Entities of numbers only, such as the partitions of ListOffsets: rows of fixed size, packed and unpacked together.

The longest arrays of requests and of responses are made of them. In a flexible version each ends with the count of its
tagged fields, for which a row has one byte: that of none.
"""

import struct
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple

from barnabas.wire.schema import FORMATS, take_apart

_NUMBERS: Final = ("int8", "int16", "int32", "int64", "error_code")


class NumberRow(NamedTuple):
    """One kio class as a row. `kind` has its fields by their names; `pack` takes the values in their order."""

    kind: Any
    numbers: struct.Struct
    row: struct.Struct
    is_flexible: bool
    values_of: Callable[[Mapping[str, Any]], Any]

    def unpack(self, data: bytes | memoryview) -> list[Any] | None:
        """The entities of so many rows; None if one has tagged fields, which make it longer than a row."""
        if self.is_flexible and any(data[self.row.size - 1 :: self.row.size]):
            return None
        return list(map(self.kind._make, self.row.iter_unpack(data)))

    def pack(self, values: Mapping[str, Any]) -> bytes:
        """The bytes of an entity; `KeyError` if it is not all there."""
        return self.row.pack(*self.values_of(values))


@cache
def number_row(entity: Any) -> NumberRow | None:
    """The row of a kio class; None if it has anything but numbers, or a number alone."""
    all_fields = fields(entity)
    layout = ">"
    for field in all_fields:
        _, is_nullable, is_array = take_apart(field.type)
        kind = field.metadata.get("kafka_type")
        if kind not in _NUMBERS or is_nullable or is_array or "tag" in field.metadata:
            return None
        layout += FORMATS[kind]
    if len(all_fields) < 2:
        return None
    names = [field.name for field in all_fields]
    numbers = struct.Struct(layout)
    row = struct.Struct(layout + "x") if entity.__flexible__ else numbers
    return NumberRow(namedtuple(entity.__name__, names), numbers, row, entity.__flexible__, itemgetter(*names))
