"""An Arrow batch of rows as the encoder gets it. This is the hot path: columns stay columns, no row is looked at."""

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from barnabas.core.errors import InvalidRecord
from barnabas.core.records.arrow_encoding import (
    NO_HEADERS,
    BytesColumn,
    HeadersColumn,
    RowColumns,
    bytes_column,
    headers_column,
    null_column,
)
from barnabas.spark.sink.columns import Layout

ANY_PARTITION: Final = -1


class TopicRows(NamedTuple):
    """The numbers of the rows that go to one topic."""

    topic: str
    rows: NDArray[np.int64]


class ArrowRows:
    """The rows of one Arrow batch. What records cannot be made of is `InvalidRecord`."""

    def __init__(self, batch: Any, layout: Layout) -> None:
        self._batch = batch
        self._layout = layout

    def by_topic(self) -> Iterator[TopicRows]:
        """The rows of a batch by the topics they go to."""
        if self._layout.topic is not None:
            yield TopicRows(self._layout.topic, np.arange(self._batch.num_rows))
            return
        column = self._column("topic")
        if column.null_count:
            raise InvalidRecord("column 'topic' is null in a row, and there is no option 'topic'")
        encoded = column.dictionary_encode()
        places = encoded.indices.to_numpy()
        for place, topic in enumerate(encoded.dictionary.to_pylist()):
            yield TopicRows(topic, np.flatnonzero(places == place))

    def columns(self) -> RowColumns:
        """What the records of a batch are made of."""
        return RowColumns(self._bytes("key"), self._bytes("value"), self._timestamps_ms(), self._headers())

    def partitions(self) -> NDArray[np.int32]:
        """The partition that each row asks for, or `ANY_PARTITION`."""
        if "partition" not in self._layout.positions:
            return np.full(self._batch.num_rows, ANY_PARTITION, np.int32)
        column = self._column("partition")
        if len(column) - column.null_count and pc.min(column).as_py() < 0:
            raise InvalidRecord(f"column 'partition' is {pc.min(column).as_py()} in a row; it is 0 or more, or null")
        return np.array(column.fill_null(ANY_PARTITION).to_numpy(), np.int32)

    def _column(self, name: str) -> Any:
        return self._batch.column(self._layout.positions[name])

    def _bytes(self, name: str) -> BytesColumn:
        if name not in self._layout.positions:
            return null_column(self._batch.num_rows)
        return bytes_column(self._column(name))

    def _timestamps_ms(self) -> NDArray[np.int64]:
        now_ms = int(time.time() * 1000)
        if "timestamp" not in self._layout.positions:
            return np.full(self._batch.num_rows, now_ms, np.int64)
        millis = self._column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        if len(millis) - millis.null_count and pc.min(millis).as_py() < 0:
            raise InvalidRecord("column 'timestamp' is before 1970 in a row, which records cannot say")
        return np.array(millis.fill_null(now_ms).to_numpy(), np.int64)

    def _headers(self) -> HeadersColumn:
        if "headers" not in self._layout.positions:
            return NO_HEADERS
        column = self._column("headers")
        pairs = column.flatten()  # of this batch, without what null lists may hide
        if pairs.null_count:
            raise InvalidRecord("column 'headers' has a header that is null")
        if pairs.field(0).null_count:
            raise InvalidRecord("column 'headers' has a header whose key is null")
        return headers_column(column)
