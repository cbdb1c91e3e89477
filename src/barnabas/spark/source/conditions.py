"""Conditions of a query on partition, offset and timestamp, and what they leave to be read.

They come from Spark's optimizer (`spark.pushdown`) as lines such as `offset >= 5`, all of which must hold. What they
leave may be more than what fulfils them, never less: Spark's own filter is still applied to the rows.

Of times only the lower bound is of use: everything before the first record that is as new as that is older. The records
behind the first that is newer than an upper bound may well be older again, as clients set the times.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from barnabas.spark.source.planning import OffsetRange
from barnabas.spark.source.refusals import InvalidOption

OPTION: Final = "barnabas.conditions"
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Interval:
    """The whole numbers from `lowest` up to `highest`, both included."""

    lowest: int = -_LARGEST
    highest: int = _LARGEST

    def __contains__(self, number: int) -> bool:
        return self.lowest <= number <= self.highest

    def within(self, comparison: str, values: list[int]) -> "Interval":
        """What a comparison leaves of it."""
        match comparison:
            case "=" | "in":
                lowest, highest = min(values, default=_LARGEST), max(values, default=-_LARGEST)
            case ">" | ">=":
                lowest, highest = values[0] + (comparison == ">"), _LARGEST
            case "<" | "<=":
                lowest, highest = -_LARGEST, values[0] - (comparison == "<")
            case _:
                raise InvalidOption(f"option {OPTION!r} cannot be set: it is set by Spark's optimizer")
        return Interval(max(self.lowest, lowest), min(self.highest, highest))


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is asked for of partitions and offsets, and of times in microseconds."""

    partition: Interval = Interval()
    partitions: frozenset[int] | None = None
    offset: Interval = Interval()
    timestamp_us: Interval = Interval()

    def wants(self, partition: int) -> bool:
        return partition in self.partition and (self.partitions is None or partition in self.partitions)

    def clip(self, range_: OffsetRange) -> OffsetRange:
        """What the conditions on offsets leave of a range."""
        start = max(range_.start_offset, self.offset.lowest)
        return OffsetRange(range_.key, start, max(min(range_.end_offset, self.offset.highest + 1), start))

    @property
    def not_before_ms(self) -> int | None:
        """The earliest time, of those that records have, that fulfils the conditions; None if any does."""
        lowest = self.timestamp_us.lowest
        return None if lowest <= 0 else -(-lowest // 1000)


def parse_conditions(lines: Iterable[str]) -> Conditions:
    found = Conditions()
    for line in lines:
        column, comparison, *texts = line.split(" ")
        try:
            values = [int(text) for text in texts]
        except ValueError:
            values = []
        if not values and comparison != "in":
            raise InvalidOption(f"option {OPTION!r} cannot be set: it is set by Spark's optimizer")
        found = _with(found, column, comparison, values)
    return found


def _with(found: Conditions, column: str, comparison: str, values: list[int]) -> Conditions:
    partition, partitions = found.partition, found.partitions
    offset, timestamp_us = found.offset, found.timestamp_us
    if column == "partition":
        partition = partition.within(comparison, values)
        if comparison in ("=", "in"):
            partitions = frozenset(values) & (partitions if partitions is not None else frozenset(values))
    elif column == "offset":
        offset = offset.within(comparison, values)
    elif column == "timestamp":
        timestamp_us = timestamp_us.within(comparison, values)
    return Conditions(partition, partitions, offset, timestamp_us)
