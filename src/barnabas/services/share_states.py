"""The states of share partitions: the verbs of share coordinators, and the way to the one that has a state.

A state belongs to a partition of `__share_group_state` by the hash of its key; the leader of that coordinates it. What
is coordinated here is decided here, the rest asked of its node. The log is cut from time to time, once there are
snapshots of all states in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from barnabas.core.errors import BarnabasError, CoordinatorNotAvailable, LeaderNotAvailable
from barnabas.core.metadata.names import SHARE_STATE_TOPIC
from barnabas.core.metadata.records import NO_LEADER, MetadataRecord, PartitionRecord, RemoveTopicRecord
from barnabas.core.metadata.topics import NOT_GIVEN, NewTopic
from barnabas.core.model import TopicPartition
from barnabas.runtime.clock import Clock
from barnabas.runtime.later import Later
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.logs import Logs
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Offload
from barnabas.runtime.other_brokers import OtherBrokers
from barnabas.runtime.other_shares import OtherShares
from barnabas.runtime.turns import in_turns, pieces
from barnabas.services.coordinators import PartitionCoordinators
from barnabas.services.served import ServedTopics
from barnabas.services.settings.catalogue.share_settings import ShareSettings
from barnabas.services.settings.internal_topics import CLEANUP_POLICY, DELETE, MAX_DECISION_BYTES, RETENTION
from barnabas.services.topics import Topics
from barnabas.storage.truncate import delete_before

if TYPE_CHECKING:
    from barnabas.core.groups.share import persisted
    from barnabas.core.groups.share.partition import StateWrite
    from barnabas.core.groups.share.persisted import ShareKey, SnapshotRecord, StateDecision
    from barnabas.runtime import share_coordinator
    from barnabas.runtime.share_coordinator import ShareCoordinator
else:  # loaded with the first share group
    persisted = Later("barnabas.core.groups.share.persisted")
    share_coordinator = Later("barnabas.runtime.share_coordinator")


log = get_logger("barnabas.shares")

PRUNE_INTERVAL_S: Final = 60.0
PRUNE_FROM: Final = 10_000  # records beyond those that the states take
SNAPSHOTS_PER_TURN: Final = 50


def new_topic(settings: ShareSettings) -> NewTopic:
    """The topic that stores the states."""
    configs = {
        CLEANUP_POLICY: DELETE,
        **dict.fromkeys(RETENTION, "-1"),
        "compression.type": "producer",
        "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
        "max.message.bytes": str(MAX_DECISION_BYTES),
        "min.insync.replicas": str(settings.share_coordinator_state_topic_min_isr),
    }
    factor = settings.share_coordinator_state_topic_replication_factor
    return NewTopic(
        SHARE_STATE_TOPIC,
        settings.share_coordinator_state_topic_num_partitions,
        NOT_GIVEN if factor is None else factor,
        None,
        configs,
    )


class LocalShareStates:
    """The verbs, for the states that this node coordinates."""

    def __init__(
        self,
        settings: ShareSettings,
        *,
        served: ServedTopics,
        topics: Topics,
        logs: Logs,
        offload: Offload,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._logs = logs
        self._coordinators = PartitionCoordinators(
            new_topic(settings),
            lambda partition: share_coordinator.ShareCoordinator(partition, offload=offload, clock=clock),
            on_loaded=self._forget_deleted,
            served=served,
            topics=topics,
        )
        self._served = served

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Load the existing states, in tasks of this task group."""
        self._coordinators.start(tasks)

    def close(self) -> None:
        """Stop coordinating."""
        self._coordinators.close()

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Leaders may have changed, and topics may have been deleted: their states go with them."""
        if self._coordinators.is_unused:
            return
        removed = [record.topic_id for record in records if isinstance(record, RemoveTopicRecord)]
        if removed or any(isinstance(record, PartitionRecord) for record in records):
            self._coordinators.follow()
        for topic_id in removed:
            for coordinator in self._coordinators.available():
                self._forget(coordinator, topic_id)

    def _forget_deleted(self, loaded: ShareCoordinator) -> None:
        """Topics may have been deleted since the log was written."""
        for topic_id in sorted({key.topic_id for key in loaded.states.by_key}):
            if topic_id not in self._served.by_id:
                self._forget(loaded, topic_id)

    def _forget(self, coordinator: ShareCoordinator, topic_id: UUID) -> None:
        keys = coordinator.keys_of_topic(topic_id)
        if keys:
            self._coordinators.tasks.create_task(self._delete_all(coordinator, keys))

    async def _delete_all(self, coordinator: ShareCoordinator, keys: Sequence[ShareKey]) -> None:
        async for key in in_turns(keys, per_turn=SNAPSHOTS_PER_TURN):
            try:
                await coordinator.commit(partial(persisted.decide_delete, coordinator.states, key), is_own=True)
            except BarnabasError:
                return  # it coordinates no more: whoever does next sees to it

    async def find_partition(self, key: str) -> int:
        """The partition of `__share_group_state` that a key belongs to."""
        return await self._coordinators.partition_of(key)

    async def create_topic(self) -> None:
        """Create `__share_group_state`, unless it exists."""
        await self._coordinators.create_topic()

    # Verbs

    async def initialize(self, key: ShareKey, *, state_epoch: int, start_offset: int) -> None:
        """Make a state, or make it anew."""
        await self._decide(
            key,
            lambda coordinator: persisted.decide_initialize(
                coordinator.states, key, state_epoch=state_epoch, start_offset=start_offset, now_ms=self._clock.now_ms()
            ),
        )

    async def read(self, key: ShareKey, *, leader_epoch: int) -> SnapshotRecord:
        """A state, for a leader in this epoch."""
        return await self._decide(
            key,
            lambda coordinator: persisted.decide_read(
                coordinator.states, key, leader_epoch=leader_epoch, now_ms=self._clock.now_ms()
            ),
        )

    async def write(self, key: ShareKey, write: StateWrite, *, state_epoch: int, leader_epoch: int) -> None:
        """Write what has changed of a state."""
        await self._decide(
            key,
            lambda coordinator: persisted.decide_write(
                coordinator.states,
                key,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=write.start_offset,
                complete_count=write.complete_count,
                batches=write.batches,
                now_ms=self._clock.now_ms(),
            ),
        )

    async def delete(self, key: ShareKey) -> None:
        """Delete a state."""
        coordinator = await self._coordinators.of(key.coordinator_key)
        await coordinator.commit(lambda: persisted.decide_delete(coordinator.states, key))

    async def summarize(self, key: ShareKey) -> SnapshotRecord | None:
        """A state, if there is one, for whoever tells of it."""
        coordinator = await self._coordinators.of(key.coordinator_key)
        return await coordinator.read(lambda: persisted.summarize(coordinator.states, key))

    async def _decide(self, key: ShareKey, decide: Callable[[ShareCoordinator], StateDecision]) -> SnapshotRecord:
        coordinator = await self._coordinators.of(key.coordinator_key)
        return await coordinator.commit(lambda: decide(coordinator))

    # Time

    async def run_pruning(self) -> None:
        """Cut logs that have much that is needed no more, regularly, forever."""
        while True:
            await asyncio.sleep(PRUNE_INTERVAL_S)
            await self.prune()

    async def prune(self, *, from_records: int = PRUNE_FROM) -> int:
        """Cut logs that have so many records more than states; returns how many were cut."""
        count = 0
        for coordinator in self._coordinators.available():
            partition = coordinator.partition
            size = partition.end_offset - partition.log_start_offset
            if size - 2 * len(coordinator.states.by_key) < from_records:
                continue
            try:
                count += await self._prune(coordinator)
            except BarnabasError as refusal:
                log.warning("%s cannot be cut for now: %s", partition.name, refusal)
        return count

    async def _prune(self, coordinator: ShareCoordinator) -> int:
        partition = coordinator.partition
        begun_at = partition.end_offset
        async for some in pieces(sorted(coordinator.states.by_key), per_turn=SNAPSHOTS_PER_TURN):
            await coordinator.write_snapshots(some)
        source = partition.find_log()
        if source is None or not coordinator.is_available or begun_at <= source.log_start_offset:
            return 0
        await self._logs.flusher.wait_flushed(source, begun_at)
        if not coordinator.is_available or partition.find_log() is not source:
            return 0
        delete_before(source, begun_at)
        partition.note_start()
        return 1

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.gauge("share_states", "States of share partitions that this node coordinates.", self._count)

    def _count(self) -> int:
        return sum(len(each.states.by_key) for each in self._coordinators.available())


class ShareStateRouter:
    """The same verbs, wherever the state is coordinated."""

    def __init__(self, local: LocalShareStates, others: OtherBrokers) -> None:
        self._local = local
        self._others = others
        self._remote = OtherShares(others)

    async def initialize(self, key: ShareKey, *, state_epoch: int, start_offset: int) -> None:
        """Make a state, or make it anew."""
        node = await self._find(key)
        if node is None:
            await self._local.initialize(key, state_epoch=state_epoch, start_offset=start_offset)
        else:
            await self._remote.initialize(node, key, state_epoch=state_epoch, start_offset=start_offset)

    async def read(self, key: ShareKey, *, leader_epoch: int) -> SnapshotRecord:
        """A state, for a leader in this epoch."""
        node = await self._find(key)
        if node is None:
            return await self._local.read(key, leader_epoch=leader_epoch)
        return await self._remote.read(node, key, leader_epoch=leader_epoch)

    async def write(self, key: ShareKey, write: StateWrite, *, state_epoch: int, leader_epoch: int) -> None:
        """Write what has changed of a state."""
        node = await self._find(key)
        if node is None:
            await self._local.write(key, write, state_epoch=state_epoch, leader_epoch=leader_epoch)
        else:
            await self._remote.write(node, key, write, state_epoch=state_epoch, leader_epoch=leader_epoch)

    async def delete(self, key: ShareKey) -> None:
        """Delete a state."""
        node = await self._find(key)
        if node is None:
            await self._local.delete(key)
        else:
            await self._remote.delete(node, key)

    async def summarize(self, key: ShareKey) -> SnapshotRecord | None:
        """A state, if there is one, for whoever tells of it."""
        node = await self._find(key)
        return await (self._local.summarize(key) if node is None else self._remote.summarize(node, key))

    async def find_end(self, name: TopicPartition) -> int:
        """The end of a partition that another node leads."""
        leader = self._others.leader_of(name)
        if leader is None or leader == NO_LEADER:
            raise LeaderNotAvailable(f"{name} has no leader")
        return await self._remote.find_end(leader, name)

    async def _find(self, key: ShareKey) -> int | None:
        """The node that coordinates a state; None: this one."""
        index = await self._local.find_partition(key.coordinator_key)
        leader = self._others.leader_of(TopicPartition(SHARE_STATE_TOPIC, index))
        if leader is None or leader == NO_LEADER:
            raise CoordinatorNotAvailable(f"partition {index} of '{SHARE_STATE_TOPIC}' has no leader")
        return None if self._others.is_here(leader) else leader
