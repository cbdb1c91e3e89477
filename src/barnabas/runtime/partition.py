"""One partition as its node serves it: the log, how far it may be read, and who waits for it to grow.

The high watermark is the end of what no crash can take back: of what is on disk, or, where the topic leaves flushing to
the operating system, of what is written, on every replica that is in sync. Consumers read below it only, so an offset
never changes its meaning. Replicas read up to the end of the log.

A transactional batch of a client is taken only into a transaction that is open here or that the coordinator was asked
about, under a `Guard`. Who waits to be acknowledged is in `acks`, which log belongs to which partition in `logs`.

A partition is led here, or followed, or neither, as the metadata says. One that is not led takes nothing from clients
and tells them nothing; one that is followed takes what its leader has (`following`). What is asked of a leader
is of its leader epoch: when another begins, or somebody else leads, whoever waits hears so, for the same offset may
mean other records then. What the watermark is `core.replica.leader` decides.

A partition has no files until something is appended to it. Reading makes none: `find_log` says that there is no log,
and the partition is empty from 0 to 0.

Invariants: log_start_offset <= high_watermark <= end_offset; the watermark never goes back; a waiter is called once.
"""

from typing import Final, NamedTuple, Protocol
from uuid import UUID

from barnabas.core.errors import (
    BarnabasError,
    InvalidTxnState,
    NotLeaderOrFollower,
    StorageError,
    UnknownTopicOrPartition,
)
from barnabas.core.fetched import FetchPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import BatchHeader, read_header
from barnabas.core.records.control import Marker, MarkerType, encode_marker
from barnabas.core.replica.leader import IsrProposal, Leader, check_in_sync
from barnabas.core.replica.leader_epochs import EpochEnd, EpochStart, LeaderEpochs
from barnabas.core.replica.producers import ProducerStates
from barnabas.runtime.acks import AckCallback, Acks
from barnabas.runtime.following import Following
from barnabas.runtime.guards import Guard, Guards
from barnabas.runtime.logs import Logs
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.log import Appended, Log


class GrowthWaiter(Protocol):
    """Somebody who waits for more to read."""

    def note_growth(self, partition: "Partition") -> None:
        """This one has more, or is gone."""
        ...


class Replication(NamedTuple):
    """Where a partition is, as this node sees it: who it is itself, and what the metadata says."""

    node_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int
    min_insync_replicas: int


_ALONE: Final = Replication(0, (0,), (0,), 0, 1)
_NO_WAITERS: Final[dict[GrowthWaiter, None]] = {}


class Partition:
    """One partition. It is led here, alone, until the metadata says something else."""

    __slots__ = (
        "_acks",
        "_append_waiters",
        "_growth_waiters",
        "_guards",
        "_held",
        "_is_synced",
        "_leader",
        "_log",
        "_log_config",
        "_logs",
        "_replication",
        "_topic_id",
        "following",
        "high_watermark",
        "is_alone",
        "is_deleted",
        "is_led",
        "leader_epoch",
        "name",
    )

    def __init__(
        self,
        name: TopicPartition,
        logs: Logs,
        log_config: LogConfig,
        *,
        leader_epoch: int,
        replication: "Replication | None" = None,
        topic_id: UUID | None = None,
    ) -> None:
        self.name = name
        self._topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.high_watermark = 0
        self.is_deleted = False
        self.is_led = True
        self._logs = logs
        self._held: Log | None = None  # whoever leads
        self._log: Log | None = None  # the same while it is led here: so nobody else needs to look
        self._leader: Leader | None = None  # once there is a log, or another replica
        self.following: Following | None = None
        self._replication = replication or _ALONE
        self.is_alone = len(self._replication.replicas) == 1
        self._acks: Acks | None = None
        self._growth_waiters = self._append_waiters = _NO_WAITERS
        self._guards: Guards | None = None
        self._log_config = log_config
        self._is_synced = log_config.flush_policy is FlushPolicy.FSYNC

    def __repr__(self) -> str:
        return f"Partition({self.name})"

    @property
    def log(self) -> Log:
        """The log of a partition that has one; refused once it is deleted."""
        if self._log is not None:
            return self._log
        self._check_present()
        raise AssertionError(f"{self.name} has no log; ask for it with find_log")

    @property
    def has_log(self) -> bool:
        return self._log is not None

    @property
    def data_dir_path(self) -> str:
        """The data directory that its files are in."""
        return self._logs.data_dir.path

    def find_log(self) -> Log | None:
        """The log to read from; None while nothing was ever written. Refused where there is one that cannot be read."""
        if self._log is not None:
            return self._log
        self._check_present()
        unreadable = self._logs.data_dir.unreadable.get(self.name)
        if unreadable is not None:
            raise unreadable
        return None

    def open_log(self) -> Log:
        """The log, made if there is none: for whoever is about to append, and for the start of a node."""
        return self._log if self._log is not None else self._open()

    def _check_present(self) -> None:
        if self.is_deleted:
            raise UnknownTopicOrPartition(f"{self.name} was deleted")
        if not self.is_led:
            raise self._not_led()

    def _not_led(self) -> NotLeaderOrFollower:
        return NotLeaderOrFollower(f"{self.name} is not led here in leader epoch {self.leader_epoch}")

    def _open(self) -> Log:
        self._check_present()
        return self._hold()

    def hold_log(self) -> None:
        """Take the log that is on disk, whoever leads: for the start of a node."""
        if self._held is None:
            self._hold()
            if self.following is not None:
                self.following = Following(self, self._logs, leader_id=self.following.leader_id)

    def _hold(self) -> Log:
        log = self._logs.data_dir.create_log(self.name, self._log_config, topic_id=self._topic_id)
        self._held = log
        self._logs.partitions[log] = self
        self.high_watermark = log.flushed_offset if self.is_alone else self._known_watermark(log)
        if self.is_led and self._leader is None:
            self._begin_to_lead()
        elif self.is_led:
            self._log = log
            log.note_leader_epoch(self.leader_epoch)
        if log.flushed_offset != log.end_offset:
            self._logs.flusher.flush_soon(log)  # it was recovered without room for all that belongs to it
        return log

    def _known_watermark(self, log: Log) -> int:
        """The high watermark as it was known last; the replicas raise it again."""
        noted = max(self.high_watermark, log.context.checkpoints.high_watermark(self.name), log.log_start_offset)
        return min(noted, log.end_offset)

    def note_watermark(self) -> None:
        """Note the high watermark, to be checkpointed. That of a partition with one replica follows from its log."""
        if self._held is not None and not self.is_alone:
            self._held.context.checkpoints.set_high_watermark(self.name, self.high_watermark)

    # Leading

    def lead(self, leader_epoch: int, replication: "Replication | None" = None) -> None:
        """Lead under this epoch, with these replicas. What was asked in another epoch is over."""
        self._set_replication(replication)
        if self.is_led and leader_epoch == self.leader_epoch:
            self._note_replication()
            return
        self.is_led, self.leader_epoch = True, leader_epoch
        self._leader = self.following = None
        self._begin_to_lead()
        self.fail_waiters(NotLeaderOrFollower(f"{self.name} is led in leader epoch {leader_epoch} now; try again"))

    def resign(self, leader_epoch: int) -> None:
        """Somebody else leads, or nobody: nothing is taken and nothing told here until `lead`."""
        was_led, self.is_led, self.leader_epoch = self.is_led, False, leader_epoch
        self._log = self._leader = self.following = None
        self._logs.replicas.discard(self)
        if was_led:
            self.fail_waiters(self._not_led())

    def follow(self, leader_epoch: int, leader_id: int, replication: Replication) -> None:
        """Follow another node, which leads under this epoch."""
        self._set_replication(replication)
        following = self.following
        if following is None or (leader_epoch, leader_id) != (self.leader_epoch, following.leader_id):
            self.resign(leader_epoch)
            self.following = Following(self, self._logs, leader_id=leader_id)

    def _set_replication(self, replication: "Replication | None") -> None:
        self._replication = replication or _ALONE
        self.is_alone = len(self._replication.replicas) == 1

    def _begin_to_lead(self) -> None:
        log = self._log = self._held
        if log is not None:
            log.note_leader_epoch(self.leader_epoch)
        elif self.is_alone:
            return  # there is nobody to lead, and nothing
        replicas = self._logs.replicas
        self._leader = self._new_leader(0 if log is None else log.end_offset)
        if not self.is_alone:
            self._leader.note_active(replicas.active)
            replicas.add(self)
        if log is not None:
            self._note_own(log)

    def _new_leader(self, start_offset: int) -> Leader:
        node_id, replicas, isr, partition_epoch, min_insync_replicas = self._replication
        return Leader(
            node_id,
            epoch=self.leader_epoch,
            start_offset=start_offset,
            high_watermark=self.high_watermark,
            replicas=replicas,
            isr=isr,
            partition_epoch=partition_epoch,
            min_insync_replicas=min_insync_replicas,
            counts_durable=self._is_synced,
            max_lag_ms=self._logs.replicas.max_lag_ms,
            now_ms=0 if self.is_alone else self._logs.replicas.now_ms(),
        )

    def _note_replication(self) -> None:
        """The same leadership, with other replicas or others in sync."""
        leader = self._leader
        if leader is None:
            self._begin_to_lead()
            return
        was_alone = leader.is_alone
        _, replicas, isr, partition_epoch, leader.min_insync_replicas = self._replication
        if self._log is not None:
            self._note_own(self._log)  # while it was alone it was not told
        now_ms = 0 if was_alone and self.is_alone else self._logs.replicas.now_ms()
        self._advance(leader.note_isr(isr=isr, replicas=replicas, partition_epoch=partition_epoch, now_ms=now_ms))
        if self.is_alone:
            self._logs.replicas.discard(self)
        else:
            leader.note_active(self._logs.replicas.active)
            self._logs.replicas.add(self)

    def _note_own(self, log: Log) -> None:
        """This node's own log has grown, or more of it is durable."""
        leader = self._leader
        if leader is not None:
            self._advance(leader.note_own(end_offset=log.end_offset, durable_end_offset=log.flushed_offset))

    def note_fetch(self, replica_id: int, wanted: FetchPartition, *, broker_epoch: int) -> None:
        """A follower fetches: it has everything before that offset, and says how much of it is on disk."""
        leader = self._leader
        if leader is None or replica_id not in self._replication.replicas:
            raise NotLeaderOrFollower(f"node {replica_id} is not a replica of {self.name}")
        end_offset, flushed_offset = wanted.fetch_offset, wanted.flushed_offset
        high_watermark = leader.note_fetch(
            replica_id,
            leader_epoch=wanted.current_leader_epoch,
            log_end_offset=end_offset,
            # Another implementation does not tell: what it has fetched is on disk, as far as anybody knows.
            durable_end_offset=end_offset if flushed_offset < 0 else min(flushed_offset, end_offset),
            broker_epoch=broker_epoch,
            now_ms=self._logs.replicas.now_ms(),
        )
        self._advance(high_watermark)
        if len(leader.isr) < len(self._replication.replicas):
            self._logs.replicas.doubt(self)

    def propose(self, *, now_ms: int) -> IsrProposal | None:
        """The ISR to ask the controller for, if it should change or its answer is not known; time counts, too."""
        leader = self._leader
        if leader is None:
            return None
        proposal = leader.propose(now_ms=now_ms) or leader.proposal
        self._advance(leader.high_watermark)
        return proposal

    def refuse(self, proposal: IsrProposal) -> None:
        """The controller has certainly refused to change the ISR."""
        if self._leader is not None:
            self._advance(self._leader.refuse(proposal))

    @property
    def knows_its_watermark(self) -> bool:
        """Whether everything that was acknowledged by an earlier leader is below the high watermark."""
        return self._leader is None or self._leader.is_alone or self._leader.knows_its_watermark

    # Following

    @property
    def held_log(self) -> Log | None:
        """The log that is here, whoever leads."""
        return self._held

    def make_log(self) -> Log:
        """The log that is here, made if there is none: for what a leader sends."""
        return self._held if self._held is not None else self._hold()

    @property
    def is_synced(self) -> bool:
        """Whether records count once they are on disk, not before."""
        return self._is_synced

    @property
    def topic_id(self) -> UUID | None:
        return self._topic_id

    def note_followed(self, high_watermark: int) -> None:
        """What the leader says of the high watermark, as far as this log goes; lower only after a truncation."""
        if high_watermark < self.high_watermark:
            self.high_watermark = high_watermark
        else:
            self._advance(high_watermark)

    def configure(self, log_config: LogConfig, *, min_insync_replicas: int = 1) -> None:
        """Settings of the topic have changed."""
        if not self.is_alone and min_insync_replicas != self._replication.min_insync_replicas:
            self._replication = self._replication._replace(min_insync_replicas=min_insync_replicas)
            self._note_replication()
        self._log_config = log_config
        self._is_synced = log_config.flush_policy is FlushPolicy.FSYNC
        if self._leader is not None:
            self._leader.counts_durable = self._is_synced
        if self._held is not None:
            self._held.config = log_config
            self._logs.flusher.note_append(self._held)
            if not self._is_synced:
                self._note_own(self._held)

    # Appending

    def check_in_sync(self) -> None:
        """Refuse records that all in sync are to have while those are fewer than `min.insync.replicas`. With one
        replica there is nothing to refuse: `is_alone` says so without a call.
        """
        if self._leader is not None:
            self._leader.check_in_sync()
        else:  # of a partition without a log, which nothing makes that is refused
            _, replicas, isr, _, min_insync_replicas = self._replication
            check_in_sync(len(isr), of=len(replicas), min_insync_replicas=min_insync_replicas)

    def append(self, data: bytearray | memoryview, *, now_ms: int) -> Appended:
        """Append as the leader; durable, and visible to consumers, once the high watermark is past it."""
        log = self._log if self._log is not None else self._open()
        appended = log.append(data, leader_epoch=self.leader_epoch, now_ms=now_ms)
        self._logs.flusher.note_append(log)
        if not self.is_alone:
            self._note_own(log)
            if self._append_waiters:
                self._wake_replicas()
        elif not self._is_synced:
            self._advance(log.end_offset)  # what the leader would say, without the way there
        return appended

    # Transactions

    def is_in_transaction(self, header: BatchHeader) -> bool:
        """Whether a transactional batch may be appended without asking its coordinator."""
        return self._log is not None and self._log.producers.is_in_transaction(header)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer has a transaction open here."""
        producer = None if self._log is None else self._log.producers.get(producer_id)
        return producer is not None and producer.transaction_start is not None and producer.epoch == producer_epoch

    def begin_verification(self, producer_id: int, producer_epoch: int, *, begins_anew: bool = False) -> Guard:
        """Take a guard before the coordinator is asked; `end_verification` in any case afterwards.

        `begins_anew` says that the producer has a new epoch for each transaction (transaction version 2).
        """
        self._check_producer_epoch(producer_id, producer_epoch)
        guard = Guard(producer_id, producer_epoch, leader_epoch=self.leader_epoch, begins_anew=begins_anew)
        if self._guards is None:
            self._guards = Guards()
        self._guards.take(guard)
        return guard

    def _check_producer_epoch(self, producer_id: int, producer_epoch: int) -> None:
        log = self.find_log()
        if log is not None:
            log.producers.check_epoch(producer_id, producer_epoch)

    def check_verified(self, guard: Guard) -> None:
        """Refuse what the coordinator has admitted when it was ended here meanwhile."""
        self._check_producer_epoch(guard.producer_id, guard.producer_epoch)
        if guard.leader_epoch != self.leader_epoch:
            raise NotLeaderOrFollower(f"{self.name} got another leader while its transaction was looked up")
        if guard.is_ended:
            raise InvalidTxnState(f"the transaction of producer {guard.producer_id} was ended in {self.name}")

    def end_verification(self, guard: Guard) -> None:
        """What the guard was taken for is appended, or is not to be."""
        if self._guards is not None:
            self._guards.release(guard)
            self._guards = self._guards or None

    def append_in_transaction(self, data: bytearray | memoryview, *, guard: Guard | None, now_ms: int) -> Appended:
        """As `append`, for a transactional batch of a client: refused unless its transaction is open, or the guard
        says that the coordinator knows of it.
        """
        header = read_header(data)
        if not self.is_in_transaction(header):
            if guard is None:
                self._check_producer_epoch(header.producer_id, header.producer_epoch)
                raise InvalidTxnState(f"producer {header.producer_id} has no transaction open in {self.name}")
            assert (guard.producer_id, guard.producer_epoch) == (header.producer_id, header.producer_epoch)
            self.check_verified(guard)
            if guard.begins_anew:
                log = self.find_log()
                (ProducerStates() if log is None else log.producers).check_begins_anew(header)
        return self.append(data, now_ms=now_ms)

    def append_marker(
        self,
        marker: MarkerType,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        version: int,
        now_ms: int,
    ) -> int:
        """End a producer's transaction here; returns where the high watermark must come for that to be durable.

        `version` is that of the transaction. A marker that is here already is not written again.
        """
        data = encode_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
        )
        log = self.open_log()
        if log.producers.check_marker(read_header(data), Marker(marker, coordinator_epoch), version=version):
            self.append(data, now_ms=now_ms)
            if self._guards is not None:
                self._guards.end(producer_id, marker_epoch=producer_epoch, version=version)
        return log.end_offset

    # Acknowledging

    def call_when_acked(self, end_offset: int, callback: AckCallback) -> None:
        """Call back when everything below `end_offset` is acknowledged, or cannot be.

        In the turn of the loop in which it was written: the offset is one of the leader epoch of now.
        """
        assert self.high_watermark < end_offset
        if self._acks is None:
            self._acks = Acks()
        self._acks.add(end_offset, callback)

    def forget_ack(self, end_offset: int, callback: AckCallback) -> None:
        """Do not call back any more: whoever waited has given up. Nothing when it was called already."""
        if self._acks is not None:
            self._acks.forget(end_offset, callback)

    def find_loss(self, leader_epoch: int) -> BarnabasError | None:
        """Why nothing more that was written in a leader epoch is acknowledged here: its leadership is over, or the
        partition is gone. Somebody who comes to wait too late is not called, and an offset alone says nothing.
        """
        if leader_epoch != self.leader_epoch:
            return NotLeaderOrFollower(
                f"written to {self.name} in leader epoch {leader_epoch}; it is {self.leader_epoch} now"
            )
        return self.lost_because

    @property
    def lost_because(self) -> BarnabasError | None:
        """Why what is not acknowledged here never will be."""
        offline_reason = self._logs.data_dir.health.offline_reason
        if self.is_deleted:
            return UnknownTopicOrPartition(f"{self.name} was deleted")
        if not self.is_led:
            return self._not_led()
        return None if offline_reason is None else StorageError(f"{self.name} is offline: {offline_reason}")

    def note_flushed(self) -> None:
        if self._log is None:
            if self.following is not None:
                self.following.note_flushed()
        elif self._is_synced:
            if self.is_alone:
                self._advance(self._log.flushed_offset)
            else:
                self._note_own(self._log)

    def _advance(self, high_watermark: int) -> None:
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        if self._acks is not None:
            self._acks.acknowledge(high_watermark)
        self._wake()

    def _wake(self) -> None:
        if self._growth_waiters:
            waiters, self._growth_waiters = self._growth_waiters, _NO_WAITERS
            for waiter in waiters:
                waiter.note_growth(self)

    def _wake_replicas(self) -> None:
        waiters, self._append_waiters = self._append_waiters, _NO_WAITERS
        for waiter in waiters:
            waiter.note_growth(self)

    def fail_waiters(self, error: BarnabasError) -> None:
        """The log cannot be served any more: whoever waits hears why."""
        if self._acks is not None:
            self._acks.fail(error)
        self._wake()
        self._wake_replicas()

    # Reading

    def wait_for_growth(self, waiter: GrowthWaiter) -> None:
        """Call `waiter` once when there is more to read, or the partition is gone."""
        if self._growth_waiters is _NO_WAITERS:
            self._growth_waiters = {}
        self._growth_waiters[waiter] = None

    def wait_for_append(self, waiter: GrowthWaiter) -> None:
        """The same for a replica: what is appended, whether it may be read by clients or not."""
        if self._append_waiters is _NO_WAITERS:
            self._append_waiters = {}
        self._append_waiters[waiter] = None

    def stop_waiting(self, waiter: GrowthWaiter) -> None:
        self._growth_waiters.pop(waiter, None)
        self._append_waiters.pop(waiter, None)

    @property
    def is_behind(self) -> bool:
        """Whether something was appended that may not be read yet, and will be."""
        return (
            self._log is not None
            and self.high_watermark < self._log.end_offset
            and self._logs.data_dir.health.offline_reason is None
        )

    @property
    def end_offset(self) -> int:
        log = self.find_log()
        return 0 if log is None else log.end_offset

    @property
    def log_start_offset(self) -> int:
        log = self.find_log()
        return 0 if log is None else log.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Up to where `read_committed` may read."""
        log = self.find_log()
        return 0 if log is None else log.last_stable_offset(self.high_watermark)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ended, or the largest one before it that is known here."""
        log = self.find_log()
        if log is not None:
            return log.epoch_end(epoch)
        # What a log would say that is made now: the leader's epoch begins at 0, and nothing came before it.
        return LeaderEpochs([EpochStart(self.leader_epoch, 0)]).end_offset_for(epoch, log_end_offset=0)

    def delete(self) -> None:
        """The topic was deleted: waiters hear it; the files are removed by whoever deletes the topic."""
        self.is_deleted = True
        self._let_go(UnknownTopicOrPartition(f"{self.name} was deleted"))

    @property
    def is_here(self) -> bool:
        """Whether this node has a replica."""
        return self._replication.node_id in self._replication.replicas

    def leave(self, leader_epoch: int, replication: Replication) -> bool:
        """This node is no replica any more: it lets go of the log, whose files are to be removed if there is one."""
        self._set_replication(replication)
        self.resign(leader_epoch)
        had_log = self._held is not None
        self._let_go(self._not_led())
        self.high_watermark = 0
        return had_log

    def _let_go(self, error: BarnabasError) -> None:
        self._leader = self.following = None
        self._logs.replicas.discard(self)
        if self._held is not None:
            self._logs.partitions.pop(self._held, None)
            self._logs.flusher.forget(self._held, error)
            self._held = self._log = None
        self.fail_waiters(error)
