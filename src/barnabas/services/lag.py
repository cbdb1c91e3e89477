"""The lag of groups: how many records they have yet to read, and how long the first of them has been waiting.

Counted by the node that coordinates a group, which knows its offsets; where the log ends is asked of each leader. What
lies between is records and the markers of transactions, which no consumer ever sees and which are no lag: the batches
after the committed offset are looked at, a few kilobytes of them. A group that has read everything but a marker has no
lag. The age is that of the first record that was not read, by its own timestamp, and never negative.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import BatchHeader, iter_whole_batches
from barnabas.core.records.record import iter_records
from barnabas.runtime.clock import Clock
from barnabas.runtime.later import Later
from barnabas.runtime.metrics import Labels, Metrics, Number
from barnabas.runtime.offload import Offload
from barnabas.runtime.turns import in_turns
from barnabas.services.reading import ClusterReader, Ends

if TYPE_CHECKING:
    from barnabas.core.groups import groups as all_groups
    from barnabas.core.groups import listing
    from barnabas.core.groups.classic import decisions
    from barnabas.runtime.group_coordinator import GroupCoordinator
else:  # loaded with the first group
    all_groups, listing, decisions = (
        Later(f"barnabas.core.groups.{name}") for name in ("groups", "listing", "classic.decisions")
    )

INTERVAL_S: Final = 15.0
LOOK_BYTES: Final = 16 * 1024
"""How much after a committed offset is looked at: markers beyond it count as lag until the group has come closer."""
MAX_READS: Final = 2000
"""The most partitions of all groups that are looked into in one round; of the others only the offsets are compared."""


class PartitionLag(NamedTuple):
    """How far a group is in one partition. `age_ms` is -1 where it is not known."""

    committed: int
    end_offset: int
    lag: int
    age_ms: int


class GroupLag(NamedTuple):
    """How far a group is."""

    state: str
    members: int
    partitions: Mapping[TopicPartition, PartitionLag]

    @property
    def lag(self) -> int:
        """In records, of all partitions."""
        return sum(each.lag for each in self.partitions.values())

    @property
    def max_age_ms(self) -> int:
        """How long the record has waited that has waited longest; 0 if none waits."""
        return max((each.age_ms for each in self.partitions.values()), default=0)


class Seen(NamedTuple):
    """What lies after a committed offset, as far as it was looked at."""

    markers: int
    first_timestamp: int | None


class GroupLags:
    """Measures the lag of the groups that this node coordinates; `run` is a task of the node."""

    def __init__(
        self,
        coordinators: Callable[[], Iterator[GroupCoordinator]],
        reader: ClusterReader,
        offload: Offload,
        clock: Clock,
    ) -> None:
        self._coordinators = coordinators
        self._reader = reader
        self._offload = offload
        self._clock = clock
        self.by_group: Mapping[str, GroupLag] = {}
        self.listeners: list[Callable[[Mapping[str, GroupLag]], None]] = []
        """Called after each round."""
        self.unmeasured = 0
        """Partitions of the last round that were not looked into: `MAX_READS`."""

    def report(self, metrics: Metrics) -> None:
        """Name what is measured here."""
        metrics.family(
            "kafka_consumergroup_lag",
            "Records that a group has yet to read, by partition.",
            ("consumergroup", "topic", "partition"),
            lambda: self._by_partition(lambda each: each.lag),
            is_detail=True,
        )
        metrics.family(
            "kafka_consumergroup_current_offset",
            "The offset that a group has committed, by partition.",
            ("consumergroup", "topic", "partition"),
            lambda: self._by_partition(lambda each: each.committed),
            is_detail=True,
        )
        metrics.family(
            "kafka_consumergroup_lag_sum",
            "Records that a group has yet to read, by topic.",
            ("consumergroup", "topic"),
            self._by_topic,
        )
        metrics.gauges(
            "kafka_consumergroup_members",
            "Members of a group.",
            "consumergroup",
            lambda: {name: each.members for name, each in self.by_group.items()},
        )
        metrics.gauges(
            "kafka_consumergroup_group_max_lag",
            "Records that a group has yet to read in the partition where it is furthest behind.",
            "group",
            lambda: {
                name: max((part.lag for part in each.partitions.values()), default=0)
                for name, each in self.by_group.items()
            },
        )
        metrics.gauges(
            "kafka_consumergroup_group_max_lag_seconds",
            "How long the oldest record that a group has not read has been in the log.",
            "group",
            lambda: {name: max(each.max_age_ms, 0) / 1000 for name, each in self.by_group.items()},
        )
        metrics.family(
            "kafka_consumergroup_group_lag_seconds",
            "How long the first record that a group has not read has been in the log, by partition.",
            ("group", "topic", "partition"),
            lambda: self._by_partition(lambda each: max(each.age_ms, 0) / 1000),
            is_detail=True,
        )
        metrics.gauge(
            "group_lag_unmeasured_partitions",
            "Partitions with lag whose age was not measured, because there are too many.",
            lambda: self.unmeasured,
        )

    def _by_partition(self, of: Callable[[PartitionLag], Number]) -> Iterator[tuple[Labels, Number]]:
        for group, lag in self.by_group.items():
            for (topic, partition), each in lag.partitions.items():
                yield (group, topic, str(partition)), of(each)

    def _by_topic(self) -> Iterator[tuple[Labels, Number]]:
        for group, lag in self.by_group.items():
            sums: dict[str, int] = {}
            for (topic, _), each in lag.partitions.items():
                sums[topic] = sums.get(topic, 0) + each.lag
            for topic, total in sums.items():
                yield (group, topic), total

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await self.measure()
            await asyncio.sleep(INTERVAL_S)

    async def measure(self) -> None:
        """Measure once."""
        groups: dict[str, tuple[str, int, dict[TopicPartition, int]]] = {}
        for coordinator in self._coordinators():
            async for listed in in_turns(listing.list_groups(coordinator.groups, coordinator.soft)):
                if listed.type is all_groups.GroupType.SHARE:
                    continue  # it commits no offsets: a lag of 0 would be wrong
                offsets = coordinator.groups.offsets_of(listed.group)
                committed = {
                    TopicPartition(topic, number): record.offset
                    for topic, numbers in offsets.items()
                    for number, record in numbers.items()
                }
                groups[listed.group] = (listed.state, _count_members(coordinator, listed.group), committed)
        names = {name: None for _, _, committed in groups.values() for name in committed}
        ends = await self._reader.ends(names)
        left, measured = MAX_READS, dict[str, GroupLag]()
        skipped = 0
        async for group, (state, members, committed) in in_turns(list(groups.items())):
            partitions: dict[TopicPartition, PartitionLag] = {}
            for name, offset in committed.items():
                end = ends[name]
                if isinstance(end, BarnabasError):
                    continue  # deleted meanwhile, or without a leader: nobody knows
                if end.end_offset > offset:
                    left -= 1
                    skipped += left < 0
                partitions[name] = await self._measure(name, offset, end, is_looked_into=left >= 0)
            measured[group] = GroupLag(state, members, partitions)
        self.by_group, self.unmeasured = measured, skipped
        for listener in self.listeners:
            listener(measured)

    async def measure_offsets(self, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, PartitionLag]:
        """The lag of these committed offsets now, for whoever asks for one group."""
        ends = await self._reader.ends(committed)
        found: dict[TopicPartition, PartitionLag] = {}
        for at, (name, offset) in enumerate(committed.items()):
            end = ends[name]
            if not isinstance(end, BarnabasError):
                found[name] = await self._measure(name, offset, end, is_looked_into=at < MAX_READS)
        return found

    async def _measure(self, name: TopicPartition, offset: int, end: Ends, *, is_looked_into: bool) -> PartitionLag:
        first = max(offset, end.start_offset)  # what was deleted meanwhile nobody can read any more
        if first >= end.end_offset:
            return PartitionLag(offset, end.end_offset, 0, 0)
        lag = end.end_offset - first
        if not is_looked_into:
            return PartitionLag(offset, end.end_offset, lag, -1)
        try:
            batches = await self._reader.read(name, first, max_bytes=LOOK_BYTES)
            seen = await self._offload.run(lambda: look_after(batches.records, first, end.end_offset))
        except BarnabasError:
            return PartitionLag(offset, end.end_offset, lag, -1)
        lag -= seen.markers
        if not lag:
            return PartitionLag(offset, end.end_offset, 0, 0)
        if seen.first_timestamp is None:
            return PartitionLag(offset, end.end_offset, lag, -1)
        return PartitionLag(offset, end.end_offset, lag, max(self._clock.now_ms() - seen.first_timestamp, 0))


def look_after(records: bytes, offset: int, end_offset: int) -> Seen:
    """What these batches have from an offset on: how many markers, and the time of the first record."""
    markers, timestamp = 0, None
    for position, header in iter_whole_batches(records):
        if header.last_offset < offset:
            continue
        if header.base_offset >= end_offset:
            break
        if header.is_control:
            markers += min(header.next_offset, end_offset) - max(header.base_offset, offset)
        elif timestamp is None:
            timestamp = _timestamp_at(records, position, header, offset)
    return Seen(markers, timestamp)


def _timestamp_at(records: bytes, position: int, header: BatchHeader, offset: int) -> int:
    if header.base_offset >= offset:
        return header.base_timestamp
    later: Iterable[int] = (
        record.timestamp for record in iter_records(records, position, header) if record.offset >= offset
    )
    return next(iter(later), header.max_timestamp)


def _count_members(coordinator: GroupCoordinator, group: str) -> int:
    consumer = coordinator.groups.consumer.get(group)
    if consumer is not None:
        return len(consumer.members)
    live = decisions.find(coordinator.groups, coordinator.soft, group)
    return 0 if live is None else len(live.members)
