"""The coordinators of groups or transactional ids: the loaded partitions of an internal topic that this node leads.

Groups are spread over the partitions of `__consumer_offsets` by Kafka's hash of their names, and transactional ids over
those of `__transaction_state`. The topic is created when it is first needed. A partition is loaded when this node
begins to lead it, and dropped when it leads it no more, or under another leader epoch. A request waits a little for the
loading; one that comes too early gets a retriable error, one for a partition that is led elsewhere NOT_COORDINATOR. If
a partition cannot be read, all requests that need it are refused; lists are refused rather than incomplete.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import mul
from typing import Any, Final, Generic, TypeVar

from barnabas.core.errors import BarnabasError, CoordinatorNotAvailable, NotCoordinator
from barnabas.core.metadata.topics import NewTopic
from barnabas.runtime.coordinator import Coordinator
from barnabas.runtime.partition import Partition
from barnabas.services.served import ServedTopics
from barnabas.services.topics import Topics

C = TypeVar("C", bound=Coordinator[Any])

LOAD_WAIT_S: Final = 5.0  # less than any client waits for an answer

_LOWEST: Final = -(2**31)
_UTF16: Final = f"utf-16-{sys.byteorder[0]}e"  # as this machine has numbers
_HASHED_AT_ONCE: Final = 64
_HASHES_KEPT: Final = 4096  # of names that are asked about again and again; a name has at most 32 kB
_POWERS: Final = [pow(31, _HASHED_AT_ONCE - 1 - place, 2**32) for place in range(_HASHED_AT_ONCE)]


@lru_cache(maxsize=_HASHES_KEPT)
def java_hash(text: str) -> int:
    """Java's hash of a string, which decides on the partition of a name."""
    units = memoryview(text.encode(_UTF16, "surrogatepass")).cast("H")
    value = 0
    if len(units) <= _HASHED_AT_ONCE:
        value = int(sum(map(mul, units, _POWERS[-len(units) :]))) % 2**32
        return value - 2**32 if value >= 2**31 else value
    for at in range(0, len(units), _HASHED_AT_ONCE):  # names may be long: no loop over their letters here
        some = units[at : at + _HASHED_AT_ONCE]
        hashed = sum(map(mul, some, _POWERS[-len(some) :]))
        value = (value * pow(31, len(some), 2**32) + hashed) % 2**32
    return value - 2**32 if value >= 2**31 else value


def partition_of(name: str, count: int) -> int:
    """Which of the topic's partitions a group or a transactional id belongs to."""
    value = java_hash(name)
    return 0 if value == _LOWEST else abs(value) % count  # in Java the lowest has no absolute value


class PartitionCoordinators(Generic[C]):
    """The coordinators of one kind on a node, by their partition of the topic."""

    def __init__(
        self,
        topic: NewTopic,
        make: Callable[[Partition], C],
        *,
        on_loaded: Callable[[C], None],
        served: ServedTopics,
        topics: Topics,
    ) -> None:
        self._topic = topic
        self._make = make
        self._on_loaded = on_loaded
        self._served = served
        self._topics = topics
        self._by_partition: dict[int, C] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._creating = asyncio.Lock()
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def tasks(self) -> asyncio.TaskGroup:
        """The task group of its work, from `start` on."""
        assert self._tasks is not None
        return self._tasks

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Load the existing partitions, in tasks of this group."""
        self._tasks = tasks
        for index in self._led():
            self._get(index)

    def close(self) -> None:
        """Stop coordinating."""
        for coordinator in self._by_partition.values():
            coordinator.close()
        for loading in self._loading.values():
            loading.cancel()

    def follow(self) -> None:
        """The metadata has changed: drop what this node does not lead any more, and load what it leads now."""
        for index, coordinator in list(self._by_partition.items()):
            if not coordinator.is_current:
                self._drop(index)
        if self._tasks is not None:
            for index in self._led():
                if index not in self._by_partition and self._partition(index).has_log:
                    self._get(index)

    @property
    def is_unused(self) -> bool:
        """Whether there is no topic, and nothing of it is coordinated here."""
        return not self._by_partition and self._topic.name not in self._served.by_name

    def is_led(self, index: int) -> bool:
        """Whether this node leads a partition of the topic."""
        topic = self._served.by_name.get(self._topic.name)
        partition = None if topic is None else topic.partitions.get(index)
        return partition is not None and partition.is_led

    def _led(self) -> list[int]:
        topic = self._served.by_name.get(self._topic.name)
        return [] if topic is None else [index for index in sorted(topic.partitions) if topic.partitions[index].is_led]

    def _partition(self, index: int) -> Partition:
        return self._served.get_partition(self._topic.name, index)

    def _drop(self, index: int) -> None:
        self._by_partition.pop(index).close()
        loading = self._loading.pop(index, None)
        if loading is not None:
            loading.cancel()

    async def partition_of(self, name: str) -> int:
        """The partition of the topic that a name belongs to; creates the topic if it does not exist. Refused if the
        partition cannot be read or written: it has no coordinator.
        """
        index = partition_of(name, await self._ensure_topic())
        coordinator = self._by_partition.get(index)
        if coordinator is not None and coordinator.is_current:
            coordinator.check_not_ended()
        return index

    async def _ensure_topic(self) -> int:
        topic = self._served.by_name.get(self._topic.name)
        if topic is None:
            await self.create_topic()
            topic = self._served.by_name.get(self._topic.name)
        if topic is None:
            raise CoordinatorNotAvailable(f"topic '{self._topic.name}' was just deleted; try again")
        return len(topic.partitions)

    async def create_topic(self) -> None:
        """Create the topic, unless it exists."""
        async with self._creating:
            if self._topic.name in self._served.by_name:
                return
            try:
                await self._topics.ensure(self._topic)
            except BarnabasError as refusal:
                raise CoordinatorNotAvailable(f"topic '{self._topic.name}' cannot be created: {refusal}") from refusal

    async def of(self, name: str) -> C:
        """The loaded coordinator of a group or a transactional id; refused if loading takes long."""
        return await self._wait_loaded(partition_of(name, await self._ensure_topic()))

    def following(self, index: int) -> C | None:
        """The coordinator of a partition if it has read its log to the end, and must be told of further appends."""
        coordinator = self._by_partition.get(index)
        return coordinator if coordinator is not None and coordinator.is_following else None

    async def all_loaded(self) -> list[C]:
        """Every coordinator of this node; none if there is no topic. Refused while another node may lead one of them:
        those who ask for lists take COORDINATOR_NOT_AVAILABLE for a reason to ask again, and NOT_COORDINATOR not.
        """
        found = [await self._wait_loaded(index) for index in self._led()]
        for each in found:
            if not each.partition.may_answer:
                raise CoordinatorNotAvailable(f"another node may lead {each.partition.name}; try again")
        return found

    def available(self) -> Iterator[C]:
        """The coordinators that are loaded now."""
        for coordinator in list(self._by_partition.values()):
            if coordinator.is_available:
                yield coordinator

    async def _wait_loaded(self, index: int) -> C:
        coordinator = self._get(index)
        loading = self._loading.get(index)
        if loading is not None:
            await asyncio.wait([loading], timeout=LOAD_WAIT_S)
        return coordinator

    def _get(self, index: int) -> C:
        partition = self._partition(index)
        coordinator = self._by_partition.get(index)
        if coordinator is not None and not coordinator.is_current:
            self._drop(index)
            coordinator = None
        if coordinator is None:
            if not partition.is_led:
                raise NotCoordinator(f"{partition.name} is not led by this node")
            coordinator = self._by_partition[index] = self._make(partition)
            self._loading[index] = self.tasks.create_task(self._load(index, coordinator))
        return coordinator

    async def _load(self, index: int, coordinator: C) -> None:
        await coordinator.load()
        if self._by_partition.get(index) is not coordinator:
            return  # it was replaced meanwhile
        self._loading.pop(index, None)
        if coordinator.is_available:
            self._on_loaded(coordinator)
