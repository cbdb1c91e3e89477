"""Which coordinator a group has: the partitions of `__consumer_offsets` that this node leads, and their groups, loaded.

The groups of a cluster are spread over the partitions of that topic by the hash of their names, the one that Kafka has.
The topic is made when it is first needed. What is in it is loaded when the node starts, and a request waits for that a
little; one that comes too early is told to try again.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from barnabas.core.errors import BarnabasError, CoordinatorNotAvailable, TopicExists
from barnabas.core.groups.classic_messages import ClassicConfig
from barnabas.core.groups.classic_state import ClassicSoft
from barnabas.core.metadata.names import OFFSETS_TOPIC
from barnabas.core.metadata.topics import NewTopic
from barnabas.runtime.clock import Clock
from barnabas.runtime.coordinator import AfterLoad, Coordinator, OnTimer
from barnabas.runtime.offload import Offload
from barnabas.services.served import ServedTopics
from barnabas.services.topics import Topics

LOAD_WAIT_S: Final = 5.0  # less than any client waits for an answer
# One decision is one batch: all of a group's members, or all offsets of one commit.
MAX_DECISION_BYTES: Final = 16 * 1024 * 1024

_LOWEST: Final = -(2**31)


def java_hash(text: str) -> int:
    """The hash of a string as Java computes it, which decides where a group lives."""
    value = 0
    for unit in _utf16_units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def _utf16_units(text: str) -> Sequence[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


def partition_of(group: str, count: int) -> int:
    """Which of the topic's partitions a group lives in."""
    value = java_hash(group)
    return 0 if value == _LOWEST else abs(value) % count  # in Java the lowest has no absolute value


class Coordinators:
    """The coordinators of a node, by the partition of the topic that they write to."""

    def __init__(
        self,
        topic: NewTopic,
        *,
        classic: ClassicConfig,
        served: ServedTopics,
        topics: Topics,
        offload: Offload,
        clock: Clock,
        on_timer: OnTimer,
        after_load: AfterLoad,
    ) -> None:
        self._topic = topic
        self._classic = classic
        self._served = served
        self._topics = topics
        self._offload = offload
        self._clock = clock
        self._on_timer = on_timer
        self._after_load = after_load
        self._by_partition: dict[int, Coordinator] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._creating = asyncio.Lock()
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Load what there is, in tasks of this group."""
        self._tasks = tasks
        topic = self._served.by_name.get(OFFSETS_TOPIC)
        for index in () if topic is None else sorted(topic.partitions):
            self._get(index)

    def close(self) -> None:
        """Coordinate no more."""
        for coordinator in self._by_partition.values():
            coordinator.close()
        for loading in self._loading.values():
            loading.cancel()

    def drop_deleted(self) -> None:
        """The topic may have been deleted: then so is all that was known."""
        for index, coordinator in list(self._by_partition.items()):
            if coordinator.partition.is_deleted:
                coordinator.close()
                del self._by_partition[index]

    async def partition_of(self, group: str) -> int:
        """Which partition of the topic a group lives in; makes the topic if it is not there."""
        return partition_of(group, await self._ensure_topic())

    async def _ensure_topic(self) -> int:
        topic = self._served.by_name.get(OFFSETS_TOPIC)
        if topic is None:
            await self.create_topic()
            topic = self._served.by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise CoordinatorNotAvailable(f"topic '{OFFSETS_TOPIC}' was just deleted; try again")
        return len(topic.partitions)

    async def create_topic(self) -> None:
        """Make the topic, unless it is there."""
        async with self._creating:
            if OFFSETS_TOPIC in self._served.by_name:
                return
            try:
                with suppress(TopicExists):
                    await self._topics.create(self._topic)
            except BarnabasError as refusal:
                raise CoordinatorNotAvailable(f"topic '{OFFSETS_TOPIC}' cannot be created: {refusal}") from refusal

    async def of_group(self, group: str) -> Coordinator:
        """The coordinator of a group, loaded, unless that takes long."""
        index = await self.partition_of(group)
        return await self._wait_loaded(index)

    async def all_loaded(self) -> list[Coordinator]:
        """Every coordinator of this node; none while there is no topic."""
        topic = self._served.by_name.get(OFFSETS_TOPIC)
        return [] if topic is None else [await self._wait_loaded(index) for index in sorted(topic.partitions)]

    def available(self) -> Iterator[Coordinator]:
        """Those that are loaded now."""
        for coordinator in list(self._by_partition.values()):
            if coordinator.is_available:
                yield coordinator

    async def _wait_loaded(self, index: int) -> Coordinator:
        coordinator = self._get(index)
        loading = self._loading.get(index)
        if loading is not None:
            await asyncio.wait([loading], timeout=LOAD_WAIT_S)
        return coordinator

    def _get(self, index: int) -> Coordinator:
        partition = self._served.get_partition(OFFSETS_TOPIC, index)
        coordinator = self._by_partition.get(index)
        if coordinator is None:
            coordinator = self._by_partition[index] = Coordinator(
                partition,
                soft=ClassicSoft(self._classic),
                offload=self._offload,
                clock=self._clock,
                on_timer=self._on_timer,
                after_load=self._after_load,
            )
            assert self._tasks is not None
            self._loading[index] = self._tasks.create_task(self._load(index, coordinator))
        return coordinator

    async def _load(self, index: int, coordinator: Coordinator) -> None:
        await coordinator.load()
        self._loading.pop(index, None)
