"""The columns of rows that are sent, as Spark's Kafka sink has them, and `timestamp`: what they must be.

Other columns are left alone, so that rows of the source can be written as they are.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from barnabas.spark.source.refusals import InvalidOption

_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final = {
    "value": "string or binary",
    "key": "string or binary",
    "topic": "string",
    "partition": "int",
    "headers": _HEADERS_TYPE,
    "timestamp": "timestamp",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in a row its parts are; those that it does not have are missing."""

    topic: str | None
    positions: dict[str, int]


def check_columns(schema: StructType, topic: str | None) -> Layout:
    """Where the parts of a row are in a schema; a refusal names the column that is missing or of another type."""
    positions: dict[str, int] = {}
    for position, field in enumerate(schema.fields):
        name = field.name.lower()  # as Spark compares them
        if name not in _TYPES:
            continue
        if name in positions:
            raise InvalidOption(f"there are two columns {name!r}")
        if not _fits(name, field.dataType):
            raise InvalidOption(f"column {name!r} is {field.dataType.simpleString()}; it must be {_TYPES[name]}")
        positions[name] = position
    if "value" not in positions:
        raise InvalidOption(f"column 'value' is missing: it is what is sent, {_TYPES['value']}")
    if topic is None and "topic" not in positions:
        raise InvalidOption("say where rows go: option 'topic', or a column 'topic' of type string")
    return Layout(topic, positions)


def _fits(name: str, kind: DataType) -> bool:
    if name == "headers":
        return _are_headers(kind)
    if name == "partition":
        return isinstance(kind, IntegerType)
    if name == "timestamp":
        return isinstance(kind, TimestampType)
    if name == "topic":
        return isinstance(kind, StringType)
    return isinstance(kind, (StringType, BinaryType))


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )
