"""A stream: which offsets the next micro-batch takes, and the tasks that read them.

What Spark relies on: `initialOffset` is asked once, for a query without a checkpoint; `latestOffset(start, limit)` says
up to where the next micro-batch reads, and is told where the last finished one ended; `partitions(start, end)` turns
two offsets into tasks, for a batch that is run again too, so it depends on nothing but them and what the log has.

What is decided is in `stream_planner`; here is what Spark calls.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from barnabas.spark.source.offsets import Json, from_json, to_json
from barnabas.spark.source.options import ReadOptions
from barnabas.spark.source.planning import RangesPartition
from barnabas.spark.source.refusals import plain_refusals
from barnabas.spark.source.rows import RowLayout, check_schema

if TYPE_CHECKING:
    from barnabas.spark.source.stream_planner import StreamPlanner


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One in the driver decides; copies of it in the workers read. All that is copied are options and schema."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema
        self._driver: StreamPlanner | None = None

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name, as those below
        with plain_refusals():
            return to_json(self._decider().initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark can be told of one limit only: it is the sign that ours are to be kept, all of them."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        with plain_refusals():
            end = self._decider().next_end(from_json(start), is_limited=not isinstance(limit, ReadAllAvailable))
            return to_json(end)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        with plain_refusals():
            return to_json(self._decider().newest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with plain_refusals():
            self._decider().stop_at_what_is_there()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        with plain_refusals():
            return [RangesPartition(each) for each in self._decider().tasks(from_json(start), from_json(end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, RangesPartition):
            return
        from barnabas.spark.source.fetching import read_ranges

        with plain_refusals():
            yield from read_ranges(self._options, partition.ranges, RowLayout(self._schema))

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def _decider(self) -> "StreamPlanner":
        if self._driver is None:
            # Only the driver's copy needs the client, which takes a while to load.
            from barnabas.spark.source.stream_planner import StreamPlanner

            self._driver = StreamPlanner(self._options)
        return self._driver
