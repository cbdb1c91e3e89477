"""What must hold of the records of a simulated cluster after everything that happens.

The *true log* of a partition is what any leader has ever called committed: it grows, and nothing in it changes.
Whenever a high watermark moves on any node, what is below it is compared with the true log. Whenever the true log
grows, it is on the disks of enough nodes, and of all that may be elected; whenever the metadata name others that may be
elected, those have all of it on their disks. On disk is what a power cut would leave at that moment, not what a node
says.

Of topics that leave flushing to the operating system a power cut may take what was committed: their true log begins
anew where another one is found.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

import pytest

from barnabas.core.fetched import FetchPartition
from barnabas.core.metadata.image import Image, PartitionState
from barnabas.core.metadata.records import NO_LEADER
from barnabas.core.model import TopicPartition
from barnabas.core.replica.follower import Reset, Truncate
from barnabas.core.replica.leader import IsrProposal
from barnabas.runtime.following import Following
from barnabas.runtime.partition import Partition
from barnabas.runtime.replica import Replica, Replication
from barnabas.storage.log import Appended
from tests.simulation.cluster_checks import Checks
from tests.simulation.replicas_logs import LogView, Written

Key = tuple[UUID, int]
NUMBERED: Final = (b"all", b"one")
"""Producers whose values are in their order: the idempotent ones."""


class Promise:
    """What a topic promises."""

    def __init__(
        self, replicas: int, min_insync_replicas: int, *, is_synced: bool = True, has_values: bool = True
    ) -> None:
        self.needed = min(replicas, min_insync_replicas)
        self.replicas = replicas
        self.min_insync_replicas = min_insync_replicas
        self.is_synced = is_synced
        self.has_values = has_values  # of the producers of `replicas_clients`: each comes once


class TrueLog:
    """What was committed of one partition."""

    def __init__(self, name: TopicPartition, promise: Promise) -> None:
        self.name = name
        self.promise = promise
        self.batches: list[Written] = []
        self.at: dict[int, Written] = {}  # by base offset
        self.values: dict[int, bytes] = {}
        self.offsets: dict[bytes, int] = {}
        self.newest: dict[bytes, int] = {}  # the number of the newest value, by its producer
        self.writers: dict[int, int] = {}  # the node that took records, by leader epoch
        self._checked: dict[int, tuple[int, Written]] = {}  # how many batches of a node are those here, and the last

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    def cut(self, offset: int) -> None:
        """Of a topic that is not synced: forget what is gone."""
        self._checked.clear()
        while self.batches and self.batches[-1].end_offset > offset:
            batch = self.batches.pop()
            del self.at[batch.base_offset]
            for each in range(batch.base_offset, batch.end_offset):
                self.offsets.pop(self.values.pop(each), None)

    def count_checked(self, node_id: int, batches: Sequence[Written]) -> int:
        """How many of a node's batches were compared with these before: a view gives the same objects again for what
        has only grown.
        """
        count, last = self._checked.get(node_id, (0, None))
        return count if 0 < count <= len(batches) and batches[count - 1] is last else 0

    def note_checked(self, node_id: int, batches: Sequence[Written]) -> None:
        """These of a node are those here."""
        if batches:
            self._checked[node_id] = (len(batches), batches[-1])


class Truth(Checks):
    """The true logs, and the newest metadata that any node has applied."""

    def __init__(self, counts: Counter[str], views: dict[int, LogView]) -> None:
        super().__init__(counts)
        self.promises: dict[str, Promise] = {}
        self.logs: dict[Key, TrueLog] = {}
        self.states: dict[Key, PartitionState] = {}
        self.names: dict[Key, TopicPartition] = {}
        self.fetched: set[tuple[Key, int, int, int]] = set()  # by replicas, in which leader and broker epoch
        self.on_proposal: Callable[[int, set[int]], None] = lambda _leader, _joining: None
        """Called when a leader is about to ask for an ISR that these join."""
        self._newest = -1
        self._views = views

    # The metadata

    def note_image(self, node_id: int, offset: int, image: Image, why: object) -> None:
        super().note_image(node_id, offset, image, why)
        if offset <= self._newest:
            return
        self._newest = offset
        before, self.states = self.states, {}
        for topic in image.topics.values():
            for state in topic.partitions.values():
                key = (topic.topic_id, state.partition)
                self.names[key] = TopicPartition(topic.name, state.partition)
                self.states[key] = state
                if before.get(key) != state:
                    self._note_state(key, before.get(key), state)
                    self._check_fetched(key, before.get(key), state, image)

    def _note_state(self, key: Key, before: PartitionState | None, state: PartitionState) -> None:
        what = f"{self.names[key]}: {state}"
        isr, elr = set(state.isr), set(state.elr)
        self.require(isr | elr <= set(state.replicas), f"{what} has others in ISR or ELR than its replicas")
        self.require(not isr & elr, f"{what} has a node in ISR and ELR")
        self.require(state.leader == NO_LEADER or state.leader in isr, f"{what} has a leader that is not in its ISR")
        self._check_eligible(key, state, "by the metadata")
        if before is None:
            return
        self.require(before.leader_epoch <= state.leader_epoch, f"{what}: its leader epoch goes back from {before}")
        self.require(before.partition_epoch < state.partition_epoch, f"{what}: its epoch goes back from {before}")
        self.require(
            before.leader == state.leader or before.leader_epoch < state.leader_epoch,
            f"{what}: another leader in the epoch of {before}",
        )
        self.counts["ISR shrinks"] += bool(set(before.isr) - isr)
        self.counts["ISR grows"] += bool(isr - set(before.isr))
        self.counts["leader elected"] += state.leader not in (before.leader, NO_LEADER)
        self.counts["leader lost"] += state.leader == NO_LEADER != before.leader
        self.counts["elected from ELR"] += state.leader != before.leader and state.leader in before.elr
        self.counts["reassigned"] += before.replicas != state.replicas

    def _check_fetched(self, key: Key, before: PartitionState | None, state: PartitionState, image: Image) -> None:
        """Whoever is in sync now has fetched from this leader since it was registered as it is."""
        if before is None or before.leader_epoch != state.leader_epoch or self.names[key].topic not in self.promises:
            return
        for node in set(state.isr) - set(before.isr):
            fetched = (key, state.leader_epoch, node, image.nodes[node].epoch)
            self.require(fetched in self.fetched, f"{self.names[key]}: node {node} is in sync unheard of: {state}")

    def note_fetch(self, partition: Partition, replica_id: int, broker_epoch: int) -> None:
        """A replica fetches from a leader."""
        assert partition.topic_id is not None
        key = (partition.topic_id, partition.name.partition)
        self.fetched.add((key, partition.leader_epoch, replica_id, broker_epoch))

    def _check_eligible(self, key: Key, state: PartitionState, when: str) -> None:
        """Whoever may be elected has everything that was committed, on its disk."""
        log = self.logs.get(key)
        if log is None or not log.promise.is_synced:
            return
        for node in (*state.isr, *state.elr):
            found = self._durable_end(node, log)
            self.require(
                found >= log.end_offset,
                f"{when} node {node} may lead {log.name} and has it to {found}, not {log.end_offset}: {state}",
            )

    def _durable_end(self, node_id: int, log: TrueLog) -> int:
        """Up to where a disk has the true log."""
        view, end_offset = self._views[node_id], 0
        for batch in view.batches(log.name, is_durable=True):
            if log.at.get(batch.base_offset) != batch:
                break
            end_offset = batch.end_offset
        return end_offset

    def find(self, name: TopicPartition) -> PartitionState | None:
        """The newest state of a partition by its name."""
        return next((state for key, state in self.states.items() if self.names[key] == name), None)

    # The data

    def log_of(self, partition: Replica) -> TrueLog | None:
        """The true log of a partition of a topic that this simulation made."""
        promise = self.promises.get(partition.name.topic)
        if promise is None or partition.topic_id is None:
            return None
        key = (partition.topic_id, partition.name.partition)
        return self.logs.setdefault(key, TrueLog(partition.name, promise))

    def note_watermark(self, partition: Partition) -> None:
        """A node calls everything below its high watermark committed."""
        log, node_id = self.log_of(partition), partition._replication.node_id
        if log is None or partition.is_deleted:
            return
        if not partition.is_led and (partition.is_alone or not log.promise.is_synced):
            return  # what a power cut has left there is not known to be committed
        held = partition.held_log
        end_offset = 0 if held is None else held.end_offset
        high_watermark = partition.high_watermark
        what = f"{partition.name} on node {node_id}, in leader epoch {partition.leader_epoch}"
        self.require(high_watermark <= end_offset, f"{what} ends at {end_offset}, before {high_watermark}")
        is_longer = False
        batches = self._views[node_id].batches(partition.name, is_durable=False)
        count = log.count_checked(node_id, batches)
        while count < len(batches) and batches[count].end_offset <= high_watermark:
            is_longer |= self._note_committed(partition, log, batches[count], what)
            count += 1
        log.note_checked(node_id, batches[:count])
        self.require(
            log.end_offset >= high_watermark, f"{what}: the true log ends at {log.end_offset}, below {high_watermark}"
        )
        if is_longer:
            self._check_spread(partition, log, what)

    def _note_committed(self, partition: Partition, log: TrueLog, batch: Written, what: str) -> bool:
        """Compare a batch with the true log, or add it to that; whether it was added."""
        known = log.at.get(batch.base_offset)
        if known == batch:
            return False
        if not log.promise.is_synced and batch.base_offset < log.end_offset:
            log.cut(batch.base_offset)
            known = None
            self.counts["rewritten without syncs"] += 1
        self.require(known is None, f"{what}: {batch} was committed as {known}")
        self.require(
            batch.base_offset == log.end_offset, f"{what}: offset {batch.base_offset} follows {log.end_offset}"
        )
        self.require(partition.is_led, f"{what}: a follower calls committed what no leader has: {batch}")
        log.batches.append(batch)
        log.at[batch.base_offset] = batch
        for offset, value in enumerate(batch.values if log.promise.has_values else (), start=batch.base_offset):
            self._note_value(log, offset, value, what)
        return True

    def _note_value(self, log: TrueLog, offset: int, value: bytes, what: str) -> None:
        log.values[offset] = value
        before = log.offsets.setdefault(value, offset)
        self.require(before == offset, f"{what}: {value[:30]!r} is at {before} and again at {offset}")
        producer, _, number = value.split(b" ")[0].partition(b"-")
        if producer.startswith(NUMBERED) and log.promise.is_synced:
            newest = log.newest.get(producer, -1)
            self.require(newest < int(number), f"{what}: {value[:30]!r} at {offset} comes after number {newest}")
            log.newest[producer] = int(number)

    def _check_spread(self, partition: Partition, log: TrueLog, what: str) -> None:
        """What is committed is on enough disks, and on all that may be elected."""
        if not log.promise.is_synced:
            return
        assert partition.topic_id is not None
        key = (partition.topic_id, partition.name.partition)
        state = self.states.get(key)
        if state is None:
            return  # deleted, and not known here yet
        ends = {node: self._durable_end(node, log) for node in partition._replication.replicas}
        count = sum(end >= log.end_offset for end in ends.values())
        self.require(count >= log.promise.needed, f"{what}: {log.end_offset} is committed, and on these disks: {ends}")
        self._check_eligible(key, state, f"{what}: {log.end_offset} is committed, and")

    def note_append(self, partition: Partition, appended: Appended) -> None:
        """A node has taken records as the leader."""
        log, node_id = self.log_of(partition), partition._replication.node_id
        if log is None or appended.is_duplicate:
            return
        before = log.writers.setdefault(partition.leader_epoch, node_id)
        what = f"{log.name}: nodes {before} and {node_id} take records in leader epoch {partition.leader_epoch}"
        self.require(before == node_id, what)

    def note_cut(self, partition: Replica, action: Truncate | Reset) -> None:
        """A follower is about to remove records at the end of its log."""
        log, node_id = self.log_of(partition), partition._replication.node_id
        if log is None:
            return
        end_offset = action.end_offset if isinstance(action, Truncate) else -1
        batches = self._views[node_id].batches(partition.name, is_durable=False)
        removed = [batch for batch in batches if batch.end_offset > end_offset]
        self.counts["truncations"] += bool(removed)
        self.counts["truncated what it had taken as the leader"] += any(
            log.writers.get(batch.leader_epoch) == node_id for batch in removed
        )
        self.require(
            not log.promise.is_synced or not action.loses_committed,
            f"{log.name}: node {node_id} removes what was committed: {action}, the true log ends at {log.end_offset}",
        )

    # What clients are told

    def note_acked(self, key: Key, base_offset: int, values: Sequence[bytes]) -> None:
        """A producer was told that all in sync have its records."""
        log = self.logs.get(key)
        found = [] if log is None else [log.values.get(base_offset + number) for number in range(len(values))]
        if log is None or log.promise.is_synced:
            self.require(found == values, f"{self.names[key]}: {values} are acknowledged at {base_offset}: {found}")

    def note_fetched(self, key: Key, batches: Iterable[Written]) -> None:
        """A consumer was given these."""
        log = self.logs.get(key)
        for batch in batches:
            known = None if log is None else log.at.get(batch.base_offset)
            if log is None or log.promise.is_synced:
                self.require(known == batch, f"{self.names[key]}: a consumer reads {batch}, committed is {known}")


@contextmanager
def watched(truth: Truth) -> Iterator[None]:
    """Have the truth told what happens to the partitions of all nodes, at the moment it happens."""
    with pytest.MonkeyPatch.context() as patch:
        _watch_watermarks(patch, truth)
        _watch_logs(patch, truth)
        yield


def _watch_watermarks(patch: pytest.MonkeyPatch, truth: Truth) -> None:
    advance, hold, lead, note_followed = Partition._advance, Partition._hold, Partition.lead, Partition.note_followed

    def note_advance(partition: Partition, high_watermark: int) -> None:
        before = partition.high_watermark
        if high_watermark > before:
            partition.high_watermark = high_watermark
            truth.note_watermark(partition)  # before anybody hears of it
            partition.high_watermark = before
        advance(partition, high_watermark)

    def note_hold(partition: Partition) -> Any:
        log = hold(partition)
        truth.note_watermark(partition)
        return log

    def note_lead(partition: Partition, leader_epoch: int, replication: Replication | None = None) -> None:
        lead(partition, leader_epoch, replication)
        truth.note_watermark(partition)

    def note_leader(partition: Partition, high_watermark: int) -> None:
        note_followed(partition, high_watermark)
        truth.note_watermark(partition)

    patch.setattr(Partition, "_advance", note_advance)
    patch.setattr(Partition, "_hold", note_hold)
    patch.setattr(Partition, "lead", note_lead)
    patch.setattr(Partition, "note_followed", note_leader)


def _watch_logs(patch: pytest.MonkeyPatch, truth: Truth) -> None:
    append, note_fetch, cut = Partition.append, Partition.note_fetch, Following._cut
    propose = Partition.propose

    def note_proposal(partition: Partition, *, now_ms: int) -> IsrProposal | None:
        proposal = propose(partition, now_ms=now_ms)
        if proposal is not None:
            joining = {node for node, _ in proposal.isr} - set(partition._replication.isr)
            truth.on_proposal(partition._replication.node_id, joining)
        return proposal

    def note_replica(partition: Partition, replica_id: int, wanted: FetchPartition, *, broker_epoch: int) -> None:
        truth.note_fetch(partition, replica_id, broker_epoch)
        note_fetch(partition, replica_id, wanted, broker_epoch=broker_epoch)

    def note_append(partition: Partition, data: bytearray | memoryview, *, now_ms: int) -> Appended:
        appended = append(partition, data, now_ms=now_ms)
        truth.note_append(partition, appended)
        return appended

    def note_cut(following: Following, action: Truncate | Reset) -> None:
        truth.note_cut(following.partition, action)
        cut(following, action)

    patch.setattr(Partition, "append", note_append)
    patch.setattr(Partition, "note_fetch", note_replica)
    patch.setattr(Partition, "propose", note_proposal)
    patch.setattr(Following, "_cut", note_cut)
