"""The lag of groups: how many records they have yet to read, and how long the first of them has been waiting.

Counted by the node that coordinates a group, which knows its offsets; where the log ends is asked of each leader. What
counts as lag is decided in `core.records.unread`, for this and for everyone else who tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.unread import LOOK_BYTES, first_unread, look_after, unread
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
MAX_READS: Final = 2000
"""The most partitions of all groups that are looked into in one round; of the others only the offsets are compared."""


UNKNOWN_AGE: Final = -1


class PartitionLag(NamedTuple):
    """How far a group is in one partition. `age_ms` is `UNKNOWN_AGE` where it is not known."""

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
        first = first_unread(offset, end.start_offset)
        seen = None
        if is_looked_into and first < end.end_offset:
            try:
                batches = await self._reader.read(name, first, max_bytes=LOOK_BYTES)
                seen = await self._offload.run(
                    lambda: look_after(batches.records, first, end.end_offset, batches.aborted)
                )
            except BarnabasError:
                seen = None  # the leader moves, or the batch is damaged: the offsets are known all the same
        left = unread(first, end.end_offset, seen, now_ms=self._clock.now_ms())
        return PartitionLag(offset, end.end_offset, left.lag, UNKNOWN_AGE if left.age_ms is None else left.age_ms)


def _count_members(coordinator: GroupCoordinator, group: str) -> int:
    consumer = coordinator.groups.consumer.get(group)
    if consumer is not None:
        return len(consumer.members)
    live = decisions.find(coordinator.groups, coordinator.soft, group)
    return 0 if live is None else len(live.members)
