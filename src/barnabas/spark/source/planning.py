"""Offset ranges, and how they become tasks.

One task reads one range of one partition. A large range is split: by `maxRecordsPerPartition`, and by `minPartitions`,
which gives each partition a share of the tasks by its share of the records. The same ranges give the same tasks:
a micro-batch that is run again after a crash is cut at the same offsets.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from barnabas.core.model import TopicPartition


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of a partition with `start_offset <= offset < end_offset`."""

    key: TopicPartition
    start_offset: int
    end_offset: int

    @property
    def count(self) -> int:
        return self.end_offset - self.start_offset


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, range_: OffsetRange) -> None:
        super().__init__((*range_.key, range_.start_offset, range_.end_offset))

    @property
    def range_(self) -> OffsetRange:
        topic, partition, start_offset, end_offset = self.value
        return OffsetRange(TopicPartition(topic, partition), start_offset, end_offset)


def plan(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """The ranges that tasks are to read, in order; empty ones are left out."""
    whole = sorted((each for each in ranges if each.count > 0), key=lambda each: each.key)
    if max_records is not None:
        whole = [part for each in whole for part in _split(each, -(-each.count // max_records))]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(each.count for each in whole)
    parts = [max(round(min_partitions * each.count / total), 1) for each in whole]
    return [part for each, into in zip(whole, parts, strict=True) for part in _split(each, into)]


def _split(range_: OffsetRange, into: int) -> list[OffsetRange]:
    """Parts that differ by one offset at most."""
    into = min(into, range_.count)
    cuts = [range_.start_offset + range_.count * at // into for at in range(into + 1)]
    return [OffsetRange(range_.key, first, end) for first, end in pairwise(cuts)]
