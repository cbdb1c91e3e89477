"""A batch read, as Spark calls it. `batch_planner` cuts it into tasks, `slices` says what a task reads."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from barnabas.spark.source.options import ReadOptions
from barnabas.spark.source.refusals import plain_refusals
from barnabas.spark.source.rows import RowLayout, check_schema
from barnabas.spark.source.slices import TaskPartition, bind


class BatchReader(DataSourceReader):
    """Plans in the driver, reads in the workers; all it carries between them are its options and its schema."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        from barnabas.spark.source.batch_planner import plan_batch

        with plain_refusals():
            return [TaskPartition(each) for each in plan_batch(self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, TaskPartition):  # Spark's stand-in where there is nothing to read
            return
        from barnabas.spark.source.fetching import read_ranges

        with plain_refusals():
            ranges = bind(self._options, partition.task)
            yield from read_ranges(self._options, ranges, RowLayout(self._schema))
