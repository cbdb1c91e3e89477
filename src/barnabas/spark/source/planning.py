"""Offset ranges, and how they become tasks.

One task reads one range of one partition. A large range is split: by `maxRecordsPerPartition`, and by `minPartitions`,
which gives each partition a share of the tasks by its share of the records. Small ranges of a stream are read by one
task together, unless one of these options says how tasks are to be: a task takes tens of milliseconds, whatever it
reads. The same ranges give the same tasks: a micro-batch that is run again after a crash is cut at the same offsets.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from barnabas.core.model import TopicPartition

_FEW_RECORDS: Final = 1000  # a task reads as many in a millisecond or two


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of a partition with `start_offset <= offset < end_offset`."""

    key: TopicPartition
    start_offset: int
    end_offset: int

    @property
    def count(self) -> int:
        return self.end_offset - self.start_offset


class RangesPartition(InputPartition):
    """What one task reads, one range after another."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(tuple((*each.key, each.start_offset, each.end_offset) for each in ranges))

    @property
    def ranges(self) -> list[OffsetRange]:
        return [
            OffsetRange(TopicPartition(topic, partition), start_offset, end_offset)
            for topic, partition, start_offset, end_offset in self.value
        ]


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


def together(ranges: Iterable[OffsetRange]) -> list[list[OffsetRange]]:
    """Neighbours with few records between them, to be read by one task."""
    groups: list[list[OffsetRange]] = []
    room = 0
    for each in ranges:
        if each.count > room:
            groups.append([])
            room = _FEW_RECORDS
        groups[-1].append(each)
        room -= each.count
    return groups


def _split(range_: OffsetRange, into: int) -> list[OffsetRange]:
    """Parts that differ by one offset at most."""
    into = min(into, range_.count)
    cuts = [range_.start_offset + range_.count * at // into for at in range(into + 1)]
    return [OffsetRange(range_.key, first, end) for first, end in pairwise(cuts)]
