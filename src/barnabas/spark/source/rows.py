"""The columns of a row, Spark's names and types for them, and record batches put into them.

The row is that of Spark's own Kafka source: `key`, `value`, `topic`, `partition`, `offset`, `timestamp`,
`timestampType` and, when asked for, `headers`, which is null for a record that has none. A schema given by the user
picks and orders columns; it does not convert them.

Spark takes a batch only in exactly the Arrow schema it would make of its own, so that is what batches are put into.
"""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.core.model import TopicPartition
from barnabas.spark.source.refusals import InvalidOption

HEADERS: Final = "headers"
_HEADERS_TYPE: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: _HEADERS_TYPE,
}
# Spark's name of a column: that of `core.records.columnar`. The others are the same for all rows of a partition.
_OF_RECORDS: Final = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    HEADERS: "headers",
}


def row_schema(*, include_headers: bool) -> StructType:
    """All columns, or all but the headers."""
    names = [name for name in _TYPES if include_headers or name != HEADERS]
    return StructType([StructField(name, _TYPES[name]) for name in names])


def check_schema(schema: StructType) -> None:
    """Refuse a user's schema with an unknown column, or with another type for a known one."""
    for field in schema.fields:
        known = _TYPES.get(field.name)
        if known is None:
            raise InvalidOption(f"the schema has a column {field.name!r}; there are {', '.join(_TYPES)}")
        if _without_nullability(field.dataType) != _without_nullability(known):
            raise InvalidOption(
                f"column {field.name!r} is {known.simpleString()}, not {field.dataType.simpleString()}: "
                "read it as it is and cast it"
            )
    if not schema.fields:
        raise InvalidOption(f"the schema has no columns; there are {', '.join(_TYPES)}")


class RowLayout:
    """Puts decoded records into the Arrow schema that Spark expects of a schema."""

    def __init__(self, schema: StructType) -> None:
        self.arrow_schema = to_arrow_schema(schema, timezone="UTC")
        picked = [_OF_RECORDS[name] for name in schema.names if name in _OF_RECORDS]
        self.record_columns: list[str] = picked or ["offset"]  # something must say how many rows there are

    def rows(self, records: Any, key: TopicPartition) -> Any:
        """The rows of one partition, from a batch with at least `record_columns`."""
        arrays = [self._column(field, records, key) for field in self.arrow_schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _column(self, field: Any, records: Any, key: TopicPartition) -> Any:
        if field.name == "topic":
            return pa.repeat(pa.scalar(key.topic, field.type), len(records))
        if field.name == "partition":
            return pa.repeat(pa.scalar(key.partition, field.type), len(records))
        column = records.column(_OF_RECORDS[field.name])
        return _CONVERSIONS.get(field.name, _as_it_is)(column, field.type)


def _as_it_is(column: Any, wanted: Any) -> Any:  # noqa: ARG001 - one signature for all conversions
    return column


def _cast(column: Any, wanted: Any) -> Any:
    return column.cast(wanted)


def _headers(column: Any, wanted: Any) -> Any:
    """Null where there are none, as in Spark's own source; the values are not copied."""
    import pyarrow.compute as pc  # not for the planner of every query, which has no rows: it takes a while to load

    lengths = column.value_lengths()
    has_any = pc.greater(lengths, 0)
    pairs = column.values
    parts = [pairs.field(0), pairs.field(1)]
    children = pa.StructArray.from_arrays(parts, fields=list(wanted.value_type))
    validity, offsets = has_any.buffers()[1], column.buffers()[1]
    return pa.Array.from_buffers(wanted, len(column), [validity, offsets], -1, children=[children])


_CONVERSIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "timestamp": _cast,
    "timestampType": _cast,
    HEADERS: _headers,
}


def _without_nullability(kind: DataType) -> Any:
    """A type to compare: whether something may be null is for the user to say."""
    if isinstance(kind, ArrayType):
        return ("array", _without_nullability(kind.elementType))
    if isinstance(kind, StructType):
        return ("struct", tuple((field.name, _without_nullability(field.dataType)) for field in kind.fields))
    return kind
