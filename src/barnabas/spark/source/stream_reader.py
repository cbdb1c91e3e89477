"""A stream: which offsets the next micro-batch takes, and the tasks that read them.

What Spark relies on: `initialOffset` is asked once, for a query without a checkpoint; `latestOffset(start, limit)` says
up to where the next micro-batch reads, and is told where the last finished one ended; `partitions(start, end)` turns
two offsets into tasks, for a batch that is run again too, so it depends on nothing but them and what the log has.

What is decided is in `stream_planner`; here is what Spark calls.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

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

from barnabas.core.errors import BarnabasError
from barnabas.spark.source.offsets import Json, Position, to_json
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
            return self._decider().initial().to_json()

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
            reached = Position.from_json(start)
            end = self._decider().next_end(reached, is_limited=not isinstance(limit, ReadAllAvailable))
            # Spark compares offsets as text: where nothing is new, a checkpoint of Spark's own source stays as it is.
            return start if end == reached else end.to_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        with plain_refusals():
            return to_json(self._decider().newest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with plain_refusals():
            self._decider().stop_at_what_is_there()

    def commit(self, end: Json) -> None:  # noqa: ARG002
        """Spark says this of all sources of a query when it has found something new in one of them."""
        self._decider().note_batch()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        with plain_refusals():
            tasks = self._decider().tasks(Position.from_json(start), Position.from_json(end))
            return [RangesPartition(each) for each in tasks]

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


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """In the place of a reader that was refused: says why as soon as Spark asks it for something.

    What is raised while Spark makes a reader is lost: its user would be told of an `UnboundLocalError`.
    """

    def __init__(self, refusal: BarnabasError) -> None:
        self._refusal = refusal

    def initialOffset(self) -> Json:  # noqa: N802
        return self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._refuse()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802, ARG002
        return self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._refuse()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:  # noqa: ARG002
        return self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002
        return self._refuse()

    def _refuse(self) -> NoReturn:
        with plain_refusals():
            raise self._refusal
        raise AssertionError  # a refusal is never held back
