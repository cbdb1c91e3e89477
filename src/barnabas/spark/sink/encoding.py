"""Assigns rows to partitions and encodes them: record batches of Arrow in, batches of records out.

Owns which partition a row goes to (the one it asks for, else by its key as every other client, else one for all rows
without a key of an Arrow batch, another for the next) and how much is held back until a batch is full.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records import encode_kernels
from barnabas.core.records.arrow_encoding import BatchBuilder, BytesColumn, EncodedBatch, RowColumns
from barnabas.core.records.batch import Codec
from barnabas.spark.sink.arrow_rows import ArrowRows
from barnabas.spark.sink.columns import Layout

CountPartitions: TypeAlias = Callable[[str, int], int]
Encoded: TypeAlias = tuple[TopicPartition, EncodedBatch]

_HELD_BYTES: Final = 64 * 1024 * 1024


class RowEncoder:
    """Encodes the rows of one share, in their order within a partition."""

    def __init__(
        self,
        layout: Layout,
        count_partitions: CountPartitions,
        *,
        batch_bytes: int,
        codec: Codec,
        level: int | None,
    ) -> None:
        self._layout = layout
        self._count_partitions = count_partitions
        self._batch_bytes = batch_bytes
        self._codec = codec
        self._level = level
        self._builders: dict[TopicPartition, BatchBuilder] = {}
        self._turn = random.randrange(1 << 16)

    def encode(self, batch: Any) -> Iterator[Encoded]:
        """Encode the rows of an Arrow batch; returns the batches that are full."""
        self._turn += 1
        given = ArrowRows(batch, self._layout)
        columns, wanted = given.columns(), given.partitions()
        for topic, rows in given.by_topic():
            yield from self._encode_topic(topic, rows, columns, wanted[rows])
        if sum(builder.size for builder in self._builders.values()) > _HELD_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[Encoded]:
        """The batches that are not full."""
        for key, builder in self._builders.items():
            if builder.record_count:
                yield key, builder.take(self._codec, self._level)

    def _encode_topic(
        self, topic: str, rows: NDArray[np.int64], columns: RowColumns, wanted: NDArray[np.int32]
    ) -> Iterator[Encoded]:
        largest = int(wanted.max(initial=0))
        count = self._count_partitions(topic, largest)
        if largest >= count:
            raise UnknownTopicOrPartition(
                f"cannot send a row to topic {topic!r}, partition {largest}: Unknown partition, it has {count}"
            )
        keys = columns.keys
        of_topic = BytesColumn(keys.data, keys.starts[rows], keys.lengths[rows])
        encode_kernels.assign_partitions(*of_topic, self._turn % count, count, wanted)
        ends, order = np.empty(count, np.int64), np.empty(len(rows), np.int64)
        encode_kernels.group_rows(wanted, ends, order)
        order = rows[order]
        starts = np.concatenate(([0], ends[:-1]))
        for partition in np.flatnonzero(ends > starts).tolist():
            yield from self._append(
                TopicPartition(topic, partition), columns, order[starts[partition] : ends[partition]]
            )

    def _append(self, key: TopicPartition, columns: RowColumns, rows: NDArray[np.int64]) -> Iterator[Encoded]:
        builder = self._builders.get(key)
        if builder is None:
            builder = self._builders[key] = BatchBuilder(self._batch_bytes)
        first = builder.add(columns, rows, 0)
        while first < len(rows):
            yield key, builder.take(self._codec, self._level)
            first += builder.add(columns, rows, first)
