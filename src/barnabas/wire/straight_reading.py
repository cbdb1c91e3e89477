"""Reading the fields of a struct in one function without loops, made once from its schema, as `dataclasses` makes them.

Numbers that follow each other are unpacked in one go, and a short text is read in place: that is most of a request, and
takes half the time of a call for each field. Whatever is not as short as usual, or is wrong, is read by the reader of
its field, which knows all cases and what to refuse.

Must not know: kio's schemas (`reading`).
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, cast

from barnabas.wire.reading_values import Body, Read

NUMBERS: Final = {"int8": "b", "int16": "h", "int32": "i", "int64": "q"}

_SHORT_COMPACT_TEXT: Final = """
    size = data[position]
    stop = position + size
    if 0 < size < 0x80 and stop <= end:
        v{at} = str(data[position + 1 : stop], "utf-8")
        position = stop
    else:
        v{at}, position = read{at}(body, position)
"""
_SHORT_TEXT: Final = """
    size = data[position] << 8 | data[position + 1]
    stop = position + 2 + size
    if size < 0x8000 and stop <= end:
        v{at} = str(data[position + 2 : stop], "utf-8")
        position = stop
    else:
        v{at}, position = read{at}(body, position)
"""
_ANY: Final = """
    v{at}, position = read{at}(body, position)
"""
_NUMBERS: Final = """
    {values}, = unpack{at}(data, position)
    position += {size}
"""
_NO_TAGS: Final = """
    if position < end and not data[position]:
        position += 1
    else:
        position = skip_tagged(body, position)
"""
_STRUCT: Final = """
def read_entity(body, position):
    data, end = body.data, body.end
    {fields}
    return kind({arguments}), position
"""


class StraightField(NamedTuple):
    """A field: its name, what it is if it is a single value, else None, and the reader that knows all cases."""

    name: str
    kind: str | None
    read: Read


def straight_reader(
    kind: Callable[..., Any],
    fields: Sequence[StraightField],
    *,
    is_flexible: bool,
    skip_tagged: Callable[[Body, int], int],
) -> Read:
    """A reader of a struct of `fields` and no known tagged ones."""
    names: dict[str, Any] = {"kind": kind, "skip_tagged": skip_tagged}
    names |= {f"read{at}": field.read for at, field in enumerate(fields)}
    parts = "".join(_parts(fields, names, is_flexible=is_flexible))
    arguments = ", ".join(f"{field.name}=v{at}" for at, field in enumerate(fields))
    source = _STRUCT.format(fields=parts + (_NO_TAGS if is_flexible else ""), arguments=arguments)
    exec(source, names)  # made of the names of a schema: nothing in it comes from outside
    return cast("Read", names["read_entity"])


def _parts(fields: Sequence[StraightField], names: dict[str, Any], *, is_flexible: bool) -> Iterator[str]:
    """The source for each field, or for some of them together; puts what it calls into `names`."""
    for is_number, group in groupby(enumerate(fields), lambda each: each[1].kind in NUMBERS):
        run = list(group)
        if is_number:
            first = run[0][0]
            layout = struct.Struct(">" + "".join(NUMBERS[field.kind or ""] for _, field in run))
            names[f"unpack{first}"] = layout.unpack_from
            yield _NUMBERS.format(values=", ".join(f"v{at}" for at, _ in run), at=first, size=layout.size)
            continue
        for at, field in run:
            if field.kind == "string":
                yield (_SHORT_COMPACT_TEXT if is_flexible else _SHORT_TEXT).format(at=at)
            else:
                yield _ANY.format(at=at)
