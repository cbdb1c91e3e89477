"""Filters for browsing records: a field, an operator, a literal. No code, and no expression that could run long.

A field is `key`, `value`, `offset`, `partition`, `timestamp`, `header.NAME`, or a path into JSON: `value.order.id`. All
filters must hold. `matches` is RE2, whose time is linear in the text, on at most the first 64 KB of it. What a record
does not have (a key, a header, a field of JSON) matches only `ne` and `missing`.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Final, NamedTuple

import msgspec

from barnabas.core.errors import InvalidRequest
from barnabas.core.records.record import Record
from barnabas.core.regexes import matcher_of

MAX_FILTERS: Final = 10
MAX_CHARS: Final = 4096
MAX_MATCHED: Final = 64 * 1024
OPERATORS: Final = ("eq", "ne", "lt", "le", "gt", "ge", "contains", "starts", "matches", "exists", "missing")
_COMPARED: Final = {"lt", "le", "gt", "ge"}
_NUMBERS: Final = ("offset", "partition", "timestamp")
_ABSENT: Final = object()


class Filter(NamedTuple):
    """One condition."""

    field: str
    operator: str
    literal: str


def parse_filters(texts: Sequence[str]) -> list[Filter]:
    """Filters from `field:operator:literal`; a bad one is refused with what is allowed."""
    if len(texts) > MAX_FILTERS:
        raise InvalidRequest(f"{len(texts)} filters are more than {MAX_FILTERS}")
    return [_parse(text) for text in texts]


def _parse(text: str) -> Filter:
    if len(text) > MAX_CHARS:
        raise InvalidRequest(f"a filter of {len(text)} characters is over the limit of {MAX_CHARS}")
    field, _, rest = text.partition(":")
    operator, _, literal = rest.partition(":")
    head = field.partition(".")[0]
    if operator not in OPERATORS:
        raise InvalidRequest(
            f"a filter is field:operator:literal, as in value.status:eq:paid; operators are {', '.join(OPERATORS)}"
        )
    if head not in ("key", "value", "header", *_NUMBERS) or (head in _NUMBERS and field != head) or field == "header":
        raise InvalidRequest(
            "the field of a filter is key, value, header.NAME, offset, partition, timestamp, or a path"
        )
    if operator in _COMPARED and _number(literal) is None:
        raise InvalidRequest(f"{operator} compares with a number, and the literal is none")
    if operator == "matches":
        matcher_of(_anywhere(literal), what="the filter's expression")
    return Filter(field, operator, literal)


def _anywhere(regex: str) -> str:
    return f"(?s:.*)(?:{regex})(?s:.*)"


Test = Callable[[Record, int], bool]


def passing(filters: Sequence[Filter]) -> Test:
    """A function that tells whether a record of a partition passes all filters."""
    tests = [_test_of(each) for each in filters]
    return lambda record, partition: all(test(record, partition) for test in tests)


def _test_of(each: Filter) -> Test:
    holds = _operator_of(each)
    return lambda record, partition: holds(_value_of(each.field, record, partition))


def _operator_of(each: Filter) -> Callable[[object], bool]:
    operator, literal, number = each.operator, each.literal, _number(each.literal)
    if operator in ("exists", "missing"):
        return lambda found: (found is _ABSENT) == (operator == "missing")
    if operator in _COMPARED:
        assert number is not None
        return lambda found: _compare(operator, found, number)
    if operator in ("eq", "ne"):
        return lambda found: (found is not _ABSENT and _equals(found, literal, number)) == (operator == "eq")
    holds = _on_text(operator, literal)
    return lambda found: found is not _ABSENT and holds(_text(found))


def _on_text(operator: str, literal: str) -> Callable[[str], bool]:
    if operator == "contains":
        return lambda text: literal in text
    if operator == "starts":
        return lambda text: text.startswith(literal)
    match = matcher_of(_anywhere(literal), what="the filter's expression")
    return lambda text: match(text[:MAX_MATCHED])


def _compare(operator: str, found: object, number: float) -> bool:
    own = _number(_text(found)) if found is not _ABSENT else None
    if own is None:
        return False
    if operator == "lt":
        return own < number
    if operator == "le":
        return own <= number
    return own > number if operator == "gt" else own >= number


def _equals(found: object, literal: str, number: float | None) -> bool:
    if isinstance(found, bool) or found is None:
        return literal == {True: "true", False: "false", None: "null"}[found]
    if isinstance(found, int | float) and number is not None:
        return found == number
    return _text(found) == literal


def _value_of(field: str, record: Record, partition: int) -> object:
    head, _, path = field.partition(".")
    if head in _NUMBERS:
        return {"offset": record.offset, "partition": partition, "timestamp": record.timestamp}[head]
    if head == "header":
        return next((_or_absent(value) for name, value in record.headers if name == path), _ABSENT)
    data = record.key if head == "key" else record.value
    return _or_absent(data) if data is None or not path else _in_json(data, path)


def _in_json(data: bytes, path: str) -> object:
    """What is at a path in JSON, as in `order.lines.0.price`."""
    try:
        found: object = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _ABSENT
    for part in path.split("."):
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdecimal() and len(part) < 10 and int(part) < len(found):
            found = found[int(part)]
        else:
            return _ABSENT
    return found


def _or_absent(value: bytes | None) -> object:
    return _ABSENT if value is None else value


def _text(found: object) -> str:
    if isinstance(found, bytes | bytearray | memoryview):
        return bytes(found).decode("utf-8", "replace")
    if isinstance(found, dict | list):
        return msgspec.json.encode(found).decode()
    return str(found)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if isfinite(found) else None
