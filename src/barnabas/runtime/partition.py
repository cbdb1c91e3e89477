"""One partition as its node serves it: what is appended to it and read from it, and by whom.

Consumers read below the high watermark only, so an offset never changes its meaning; replicas read up to the end of the
log. Who leads, and what that means, is in `replica`; who waits is in `watermark`.

A transactional batch of a client is taken only into a transaction that is open here or that the coordinator was asked
about, under a `Guard`. Who waits to be acknowledged is in `acks`, which log belongs to which partition in `logs`.

Invariants: log_start_offset <= high_watermark <= end_offset; while it is led the watermark never goes back.
"""

from uuid import UUID

from barnabas.core.errors import (
    BarnabasError,
    InvalidTxnState,
    NotLeaderOrFollower,
    StorageError,
    UnknownTopicOrPartition,
)
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import BatchHeader, PlainBatch, read_header
from barnabas.core.records.control import Marker, MarkerType, encode_marker
from barnabas.core.replica.leader_epochs import EpochEnd, EpochStart, LeaderEpochs
from barnabas.core.replica.producers import ProducerStates
from barnabas.runtime.guards import Guard, Guards
from barnabas.runtime.logs import Logs
from barnabas.runtime.replica import Replica, Replication
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.log import Appended


class Partition(Replica):
    """One partition, as clients use it."""

    __slots__ = ("_guards",)

    def __init__(
        self,
        name: TopicPartition,
        logs: Logs,
        log_config: LogConfig,
        *,
        leader_epoch: int,
        replication: Replication | None = None,
        topic_id: UUID | None = None,
    ) -> None:
        super().__init__(name, logs, log_config, leader_epoch=leader_epoch, replication=replication, topic_id=topic_id)
        self._guards: Guards | None = None

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

    def append_plain(self, data: bytearray | memoryview, plain: PlainBatch) -> int | None:
        """As `append`, for one plain batch and a partition without other replicas. Returns the offset of the first
        record; None, with nothing done, means that `append` must be used.
        """
        log = self._log
        if log is None or not self.is_alone:
            return None
        first_offset = log.append_plain(data, plain, self.leader_epoch)
        if first_offset is not None:
            self._logs.flusher.note_append(log)
            if not self._is_synced:
                self._advance(log.end_offset)
        return first_offset

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
        """Why what is not acknowledged here is not waited for: it never will be, or nobody here will hear of it."""
        offline_reason = self._logs.data_dir.health.offline_reason
        if self.is_deleted:
            return UnknownTopicOrPartition(f"{self.name} was deleted")
        if not self.is_led:
            return self._not_led()
        if self.is_cut_off:
            return self._cut_off()
        return None if offline_reason is None else StorageError(f"{self.name} is offline: {offline_reason}")

    # Reading

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
