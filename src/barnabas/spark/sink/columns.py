"""The columns of rows that are sent, as Spark's Kafka sink has them, and `timestamp`: what they must be, and how record
batches are handed to librdkafka.

Other columns are left alone, so that rows of the source can be written as they are. This is the hot path: a column is
turned into Python objects at once, and rows without headers, partition and time take a loop of their own.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from barnabas.core.errors import InvalidRecord
from barnabas.spark.source.refusals import InvalidOption

ANY_PARTITION: Final = -1
_NOW: Final = 0  # librdkafka's word for it, and so what the time of a record in 1970 becomes
_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final = {
    "value": "string or binary",
    "key": "string or binary",
    "topic": "string",
    "partition": "int",
    "headers": _HEADERS_TYPE,
    "timestamp": "timestamp",
}

# topic, value, key, partition, milliseconds, headers
Row = tuple[str, bytes | None, bytes | None, int, int, list[tuple[str, bytes | None]] | None]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where in a row its parts are; None for those it does not have."""

    topic: str | None
    positions: dict[str, int]

    @property
    def is_plain(self) -> bool:
        """Whether rows have no more than a value and perhaps a key, for one topic."""
        return self.topic is not None and not self.positions.keys() & {"partition", "headers", "timestamp"}

    def topics_of(self, batch: Any) -> Iterable[str]:
        """The topics that the rows of a batch go to."""
        if self.topic is not None:
            return (self.topic,)
        column = batch.column(self.positions["topic"])
        if column.null_count:
            raise InvalidRecord("column 'topic' is null in a row, and there is no option 'topic'")
        names: list[str] = pc.unique(column).to_pylist()
        return sorted(names)

    def pairs(self, batch: Any) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Value and key of each row."""
        return zip(self._bytes(batch, "value"), self._bytes(batch, "key"), strict=True)

    def rows(self, batch: Any) -> Iterator[Row]:
        """All of each row."""
        count = batch.num_rows
        topics = [self.topic] * count if self.topic is not None else self._column(batch, "topic").to_pylist()
        partitions = self._filled(batch, "partition", ANY_PARTITION)
        return zip(
            topics,
            self._bytes(batch, "value"),
            self._bytes(batch, "key"),
            partitions,
            self._timestamps_ms(batch),
            self._headers(batch),
            strict=True,
        )

    def _column(self, batch: Any, name: str) -> Any:
        return batch.column(self.positions[name])

    def _bytes(self, batch: Any, name: str) -> list[bytes | None]:
        if name not in self.positions:
            return [None] * batch.num_rows
        column = self._column(batch, name)
        if pa.types.is_string(column.type):
            column = column.cast(pa.binary())  # the same memory
        elif pa.types.is_large_string(column.type):
            column = column.cast(pa.large_binary())
        found: list[bytes | None] = column.to_pylist()
        return found

    def _filled(self, batch: Any, name: str, default: int) -> list[int]:
        if name not in self.positions:
            return [default] * batch.num_rows
        column = self._column(batch, name)
        if name == "partition" and len(column) - column.null_count and pc.min(column).as_py() < 0:
            raise InvalidRecord(f"column 'partition' is {pc.min(column).as_py()} in a row; it is 0 or more, or null")
        found: list[int] = column.fill_null(default).to_pylist()
        return found

    def _timestamps_ms(self, batch: Any) -> list[int]:
        if "timestamp" not in self.positions:
            return [_NOW] * batch.num_rows
        millis = self._column(batch, "timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        if len(millis) - millis.null_count and pc.min(millis).as_py() < 0:
            raise InvalidRecord("column 'timestamp' is before 1970 in a row, which records cannot say")
        found: list[int] = millis.fill_null(_NOW).to_pylist()
        return found

    def _headers(self, batch: Any) -> list[list[tuple[str, bytes | None]] | None]:
        if "headers" not in self.positions:
            return [None] * batch.num_rows
        column = self._column(batch, "headers")
        pairs = column.values
        if pairs.null_count:
            raise InvalidRecord("column 'headers' has a header that is null")
        names = pairs.field(0).to_pylist()
        offsets = column.offsets.to_pylist()
        if None in names[offsets[0] : offsets[-1]]:
            raise InvalidRecord("column 'headers' has a header whose key is null")
        every = list(zip(names, pairs.field(1).to_pylist(), strict=True))
        found = [every[start:end] or None for start, end in itertools.pairwise(offsets)]
        if column.null_count:
            found = [
                each if is_there else None for each, is_there in zip(found, column.is_valid().to_pylist(), strict=True)
            ]
        return found


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
