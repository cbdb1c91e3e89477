"""The topics this node serves, as produce and fetch look them up: by name or by id, with their settings resolved.

Follows the metadata image: `apply` is called with every record once it is committed. A topic's name can be reused only
when its files are removed durably: a crash in between must not give old records to a new topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from barnabas.core.access.resources import Resource
from barnabas.core.access.resources import topic as topic_resource
from barnabas.core.errors import StorageError, StorageExhausted, UnknownTopicId, UnknownTopicOrPartition
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.names import is_internal
from barnabas.core.metadata.records import (
    BROKER_RESOURCE,
    NO_LEADER,
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.core.model import TopicPartition
from barnabas.core.replica.throttle import NOT_LISTED, NOT_THROTTLED, Throttle, ThrottledReplicas
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.logs import Logs
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition
from barnabas.runtime.replica import Replication
from barnabas.runtime.replicating.session import TopicIdPartition
from barnabas.runtime.traffic import Traffic
from barnabas.runtime.turns import pieces
from barnabas.services.settings import TopicConfig
from barnabas.services.settings.topic_config import opens_batches

if TYPE_CHECKING:
    from barnabas.runtime.replicating.fetchers import Fetchers

log = get_logger("barnabas.topics")

RETRY_S: Final = 1.0
FORGOTTEN_PER_TURN: Final = 50  # of the partitions of a deleted topic; each has files to close


@dataclass(slots=True, eq=False)
class ServedTopic:
    """A topic with its settings and its partitions, numbered from 0."""

    name: str
    topic_id: UUID
    config: TopicConfig
    must_open: bool = False  # whether batches are looked into before they are taken, or refused
    sends_throttled: ThrottledReplicas = NOT_LISTED
    fetches_throttled: ThrottledReplicas = NOT_LISTED
    partitions: dict[int, Partition] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    resource: Resource = field(init=False, repr=False)  # what is authorized, made once

    def __post_init__(self) -> None:
        self.resource = topic_resource(self.name)

    def get(self, partition: int) -> Partition:
        found = self.partitions.get(partition)
        if found is None:
            raise UnknownTopicOrPartition(f"topic '{self.name}' has no partition {partition}")
        return found


class ServedTopics:
    """Every topic of the image, ready to be used."""

    def __init__(
        self, image: Image, logs: Logs, offload: Offload, resolve: Callable[[str], TopicConfig], *, node_id: int
    ) -> None:
        """`image` is the current state; `apply` follows its changes. This node serves what `node_id` leads."""
        self._node_id = node_id
        self._alone = Replication(node_id, (node_id,), (node_id,), 0, 1)  # one for all that have no other replica
        self.by_name: dict[str, ServedTopic] = {}
        self.by_id: dict[UUID, ServedTopic] = {}
        self._logs = logs
        self._offload = offload
        self._resolve = resolve  # the settings of a topic, by its name
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._fetchers: Fetchers | None = None
        self._is_stopping = asyncio.Event()
        self.isr_shrinks = self.isr_expands = 0  # of what this node leads
        for topic in image.topics.values():
            self._add_topic(TopicRecord(topic.name, topic.topic_id))
            for state in topic.partitions.values():
                self._set_partition(state)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def follow_with(self, fetchers: Fetchers) -> None:
        """Have what other nodes lead fetched, from now on."""
        self._fetchers = fetchers
        for topic in self.by_id.values():
            for partition in topic.partitions.values():
                self._fetch(partition)

    def get(self, name: str) -> ServedTopic:
        topic = self.by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"topic '{name}' does not exist")
        return topic

    def get_by_id(self, topic_id: UUID) -> ServedTopic:
        topic = self.by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"topic id {topic_id} does not exist")
        return topic

    def get_partition(self, name: str, partition: int) -> Partition:
        return self.get(name).get(partition)

    async def wait_removed(self, name: str) -> None:
        """Return when the files of a deleted topic of this name are gone."""
        task = self._removals.get(name)
        if task is not None:
            await asyncio.shield(task)

    async def close(self) -> None:
        """Finish removing files; what has to wait for space is left to the next start."""
        self._is_stopping.set()
        await self.wait_all_removed()

    async def wait_all_removed(self) -> None:
        """Return when no files of deleted topics are left."""
        for task in list(self._removals.values()):
            await asyncio.shield(task)

    # Following the image

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Apply records that are already applied to the image."""
        changed: dict[str, None] = {}
        for record in records:
            if isinstance(record, TopicRecord):
                self._add_topic(record)
            elif isinstance(record, PartitionRecord):
                self._set_partition(record)
            elif isinstance(record, RemoveTopicRecord):
                self._remove_topic(record.topic_id)
            elif isinstance(record, ConfigRecord):
                if record.resource_type == TOPIC_RESOURCE:
                    changed[record.resource_name] = None
                elif record.resource_type == BROKER_RESOURCE:
                    changed.update(dict.fromkeys(self.by_name))
        for name in changed:
            self._configure(name)

    def _add_topic(self, record: TopicRecord) -> None:
        config = self._resolve(record.name)
        topic = ServedTopic(record.name, record.topic_id, config, _must_open(record.name, config))
        self._note_throttled(topic)
        self.by_name[topic.name] = self.by_id[topic.topic_id] = topic

    def _set_partition(self, record: PartitionRecord) -> None:
        topic, data_dir = self.by_id[record.topic_id], self._logs.data_dir
        partition = topic.partitions.get(record.partition)
        is_alone = record.replicas == self._alone.replicas
        replication = self._alone if is_alone else self._replication(topic, record)
        if partition is None:
            partition = topic.partitions[record.partition] = Partition(
                TopicPartition(topic.name, record.partition),
                self._logs,
                topic.config.log,
                leader_epoch=record.leader_epoch,
                replication=replication,
                topic_id=record.topic_id,
            )
            partition.traffic = topic.traffic
            if topic.sends_throttled is not NOT_LISTED or topic.fetches_throttled is not NOT_LISTED:
                partition.throttle = self._throttle(topic, record.partition)
            if record.leader != self._node_id or not is_alone:
                self._give_role(partition, record, replication)  # a new one is led here, alone
            if partition.name in data_dir.logs and data_dir.topic_ids.get(partition.name) == record.topic_id:
                partition.hold_log()  # on disk before the metadata here knew of it
        else:
            self._give_role(partition, record, replication)
        if self._fetchers is not None:
            self._fetch(partition)

    def _replication(self, topic: ServedTopic, record: PartitionRecord) -> Replication:
        return Replication(
            self._node_id, record.replicas, record.isr, record.partition_epoch, topic.config.min_insync_replicas
        )

    def _give_role(self, partition: Partition, record: PartitionRecord, replication: Replication) -> None:
        if record.leader == self._node_id:
            if partition.is_led and record.leader_epoch == partition.leader_epoch:
                self._note_isr(before=len(partition.in_sync), after=len(record.isr))
            partition.lead(record.leader_epoch, replication)
        elif self._node_id not in record.replicas:
            if partition.leave(record.leader_epoch, replication):
                self._remove_replica(partition)
        elif record.leader == NO_LEADER:
            partition.be_without_leader(record.leader_epoch, replication)
        else:
            partition.follow(record.leader_epoch, record.leader, replication)

    def _note_isr(self, *, before: int, after: int) -> None:
        """Count how the ISR of a partition has changed that this node led before, too."""
        self.isr_shrinks += after < before
        self.isr_expands += after > before

    def _fetch(self, partition: Partition) -> None:
        """Fetch a partition from its leader, if it has another one."""
        if self._fetchers is None or partition.topic_id is None:
            return
        place = TopicIdPartition(partition.topic_id, partition.name.partition)
        if partition.following is None:
            self._fetchers.leave(place)
        else:
            self._fetchers.follow(place, partition.following)

    def _remove_replica(self, partition: Partition) -> None:
        """Remove the files of a partition that is now on other nodes only."""
        assert self._tasks is not None
        what = f"the replica {partition.name}"
        log.info("%s is removed: the partition is on other nodes now", what)
        removal = self._remove_files(what, [partition.name], partition.topic_id)
        self._start_removal(what, removal)

    def _start_removal(self, key: str, removal: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None
        task = self._removals[key] = self._tasks.create_task(removal)
        task.add_done_callback(lambda done: self._end_removal(key, done))

    def _end_removal(self, key: str, done: asyncio.Task[None]) -> None:
        if self._removals.get(key) is done:
            del self._removals[key]

    def _configure(self, name: str) -> None:
        topic = self.by_name.get(name)
        if topic is not None:
            topic.config = self._resolve(name)
            topic.must_open = _must_open(name, topic.config)
            self._note_throttled(topic)
            for number, partition in topic.partitions.items():
                partition.configure(topic.config.log, min_insync_replicas=topic.config.min_insync_replicas)
                partition.throttle = self._throttle(topic, number)

    def _note_throttled(self, topic: ServedTopic) -> None:
        """Read which replicas of a topic the settings have throttled on this node."""
        sending, fetching = topic.config.leader_throttled_replicas, topic.config.follower_throttled_replicas
        topic.sends_throttled = ThrottledReplicas(sending, node_id=self._node_id) if sending else NOT_LISTED
        topic.fetches_throttled = ThrottledReplicas(fetching, node_id=self._node_id) if fetching else NOT_LISTED

    def _throttle(self, topic: ServedTopic, partition: int) -> Throttle:
        """What limits how fast a replica that is not in sync is copied, from here or to here."""
        if topic.sends_throttled is NOT_LISTED and topic.fetches_throttled is NOT_LISTED:
            return NOT_THROTTLED
        replicas = self._logs.replicas
        return Throttle(
            replicas.sending if partition in topic.sends_throttled else None,
            replicas.fetching if partition in topic.fetches_throttled else None,
        )

    def _remove_topic(self, topic_id: UUID) -> None:
        topic = self.by_id.pop(topic_id)
        if self.by_name.get(topic.name) is topic:
            del self.by_name[topic.name]
        names = [partition.name for partition in topic.partitions.values()]
        for partition in topic.partitions.values():
            partition.delete()
            self._fetch(partition)
        self._start_removal(topic.name, self._remove_files(f"the deleted topic {topic.name}", names, topic.topic_id))

    async def _remove_files(self, what: str, names: Sequence[TopicPartition], topic_id: UUID | None) -> None:
        data_dir = self._logs.data_dir
        own: list[TopicPartition] = []
        try:
            async for some in pieces(names, per_turn=FORGOTTEN_PER_TURN):
                # By id: the name may be that of a newer topic, whose files these are.
                found = [each for each in some if data_dir.topic_ids.get(each) in (None, topic_id)]
                data_dir.forget(found)
                own += found
            for failure in await self._run_until_done(data_dir.begin_removal(own)):
                log.warning("files of %s cannot be removed (%s); remove them by hand", what, failure)
        except StorageError as error:
            # The directory is offline, and whoever uses it hears so, or the node stops. The next start goes on.
            log.error("the files of %s are not removed: %s", what, error)

    async def _run_until_done(self, remove: Callable[[], list[str]]) -> list[str]:
        """Remove files, retrying while there is no space or no descriptor; until the node stops at most."""
        while True:
            try:
                return await self._offload.run(remove)
            except StorageExhausted:
                if self._is_stopping.is_set():
                    raise
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await self._is_stopping.wait()


def _must_open(name: str, config: TopicConfig) -> bool:
    """Whether a client's batches for a topic take the slow path. Those for internal topics do, to be refused."""
    return is_internal(name) or opens_batches(config)
