"""One partition as its node serves it: the log, how far it may be read, and who waits for it to grow.

The high watermark is the end of what no crash can take back: of what is on disk, or, where the topic leaves flushing to
the operating system, of what is written. Consumers read below it only, so an offset never changes its meaning.

A transactional batch of a client is taken only into a transaction that is open here or that the coordinator was asked
about. It may be ended while that is asked, so a `Guard` is taken before, and markers end it (KIP-890).

A partition has no files until something is appended to it. Reading makes none: `find_log` says that there is no log,
and the partition is empty from 0 to 0.

Of acknowledgements that are due at once, as those of a client that pipelines are, a part is given in each turn of the
loop.

Invariants: log_start_offset <= high_watermark <= end_offset; the watermark never goes back; a waiter is called once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.core.errors import (
    BarnabasError,
    InvalidTxnState,
    NotLeaderOrFollower,
    StorageError,
    UnknownTopicOrPartition,
)
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import BatchHeader, read_header
from barnabas.core.records.control import Marker, MarkerType, encode_marker
from barnabas.core.replica.leader_epochs import EpochEnd, EpochStart, LeaderEpochs
from barnabas.core.replica.producers import ProducerStates, marker_ends
from barnabas.runtime.flusher import Flusher
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Appended, Log

ACKS_PER_TURN: Final = 32  # of some ten microseconds each

AckCallback = Callable[[BarnabasError | None], None]


class GrowthWaiter(Protocol):
    """Somebody who waits for more to read."""

    def note_growth(self, partition: "Partition") -> None:
        """This one has more, or is gone."""
        ...


class Logs:
    """The logs of a node's data directory, made when a partition is first used, and their flusher."""

    def __init__(self, data_dir: DataDir) -> None:
        self.data_dir = data_dir
        self.partitions: dict[Log, Partition] = {}
        self.flusher: Flusher

    def note_flushed(self, log: Log) -> None:
        partition = self.partitions.get(log)
        if partition is not None:
            partition.note_flushed()

    def note_failed(self, log: Log, error: BarnabasError) -> None:
        partition = self.partitions.get(log)
        if partition is not None:
            partition.fail_waiters(error)


_NO_WAITERS: Final[dict[GrowthWaiter, None]] = {}


class Guard:
    """A transaction that the coordinator is being asked about: what it says holds until a marker ends it here."""

    __slots__ = ("begins_anew", "epoch", "is_ended", "leader_epoch", "producer_id")

    def __init__(self, producer_id: int, epoch: int, *, leader_epoch: int, begins_anew: bool) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.leader_epoch = leader_epoch
        self.begins_anew = begins_anew  # each transaction of the producer has an epoch of its own
        self.is_ended = False


class Partition:
    """One partition, led here."""

    __slots__ = (
        "_acks",
        "_growth_waiters",
        "_guards",
        "_is_acking",
        "_is_synced",
        "_log",
        "_log_config",
        "_logs",
        "high_watermark",
        "is_deleted",
        "leader_epoch",
        "name",
    )

    def __init__(self, name: TopicPartition, logs: Logs, log_config: LogConfig, *, leader_epoch: int) -> None:
        self.name = name
        self.leader_epoch = leader_epoch
        self.high_watermark = 0
        self.is_deleted = False
        self._logs = logs
        self._log: Log | None = None
        self._acks: deque[tuple[int, AckCallback]] | None = None  # in order of their offsets
        self._is_acking = False  # more of them are called in the next turn
        self._growth_waiters = _NO_WAITERS
        self._guards: dict[int, list[Guard]] | None = None  # by producer id
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

    def _open(self) -> Log:
        self._check_present()
        log = self._logs.data_dir.create_log(self.name, self._log_config)
        self._log = log
        self._logs.partitions[log] = self
        self.high_watermark = log.flushed_offset
        log.note_leader_epoch(self.leader_epoch)
        if log.flushed_offset != log.end_offset:
            self._logs.flusher.flush_soon(log)  # it was recovered without room for all that belongs to it
        return log

    def lead(self, leader_epoch: int) -> None:
        """Lead on under another epoch."""
        self.leader_epoch = leader_epoch
        if self._log is not None:
            self._log.note_leader_epoch(leader_epoch)

    def configure(self, log_config: LogConfig) -> None:
        """Settings of the topic have changed."""
        self._log_config = log_config
        self._is_synced = log_config.flush_policy is FlushPolicy.FSYNC
        if self._log is not None:
            self._log.config = log_config
            self._logs.flusher.note_append(self._log)
            if not self._is_synced:
                self._advance(self._log.end_offset)

    # Appending

    def append(self, data: bytearray | memoryview, *, now_ms: int) -> Appended:
        """Append as the leader; durable, and visible to consumers, once the high watermark is past it."""
        log = self._log if self._log is not None else self._open()
        appended = log.append(data, leader_epoch=self.leader_epoch, now_ms=now_ms)
        self._logs.flusher.note_append(log)
        if not self._is_synced:
            self._advance(log.end_offset)
        return appended

    # Transactions

    def is_in_transaction(self, header: BatchHeader) -> bool:
        """Whether a transactional batch may be appended without asking its coordinator."""
        return self._log is not None and self._log.producers.is_in_transaction(header)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has a transaction open here."""
        producer = None if self._log is None else self._log.producers.get(producer_id)
        return producer is not None and producer.transaction_start is not None and producer.epoch == epoch

    def begin_verification(self, producer_id: int, epoch: int, *, begins_anew: bool = False) -> Guard:
        """Take a guard before the coordinator is asked; `end_verification` in any case afterwards.

        `begins_anew` says that the producer has a new epoch for each transaction (transaction version 2).
        """
        self._check_producer_epoch(producer_id, epoch)
        guard = Guard(producer_id, epoch, leader_epoch=self.leader_epoch, begins_anew=begins_anew)
        if self._guards is None:
            self._guards = {}
        self._guards.setdefault(producer_id, []).append(guard)
        return guard

    def _check_producer_epoch(self, producer_id: int, epoch: int) -> None:
        log = self.find_log()
        if log is not None:
            log.producers.check_epoch(producer_id, epoch)

    def check_verified(self, guard: Guard) -> None:
        """Refuse what the coordinator has admitted when it was ended here meanwhile."""
        self._check_producer_epoch(guard.producer_id, guard.epoch)
        if guard.leader_epoch != self.leader_epoch:
            raise NotLeaderOrFollower(f"{self.name} got another leader while its transaction was looked up")
        if guard.is_ended:
            raise InvalidTxnState(f"the transaction of producer {guard.producer_id} was ended in {self.name}")

    def end_verification(self, guard: Guard) -> None:
        """What the guard was taken for is appended, or is not to be."""
        if self._guards is not None:
            guards = self._guards[guard.producer_id]
            guards.remove(guard)
            if not guards:
                del self._guards[guard.producer_id]
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
            assert (guard.producer_id, guard.epoch) == (header.producer_id, header.producer_epoch)
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
        epoch: int,
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
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
        )
        log = self.open_log()
        if log.producers.check_marker(read_header(data), Marker(marker, coordinator_epoch), version=version):
            self.append(data, now_ms=now_ms)
            self._end_guards(producer_id, epoch, version=version)
        return log.end_offset

    def _end_guards(self, producer_id: int, epoch: int, *, version: int) -> None:
        for guard in (self._guards or {}).get(producer_id, ()):
            guard.is_ended |= marker_ends(guard.epoch, marker_epoch=epoch, version=version)

    # Acknowledging

    def call_when_acked(self, end_offset: int, callback: AckCallback) -> None:
        """Call back when everything below `end_offset` is acknowledged, or cannot be."""
        assert self.high_watermark < end_offset
        if self._acks is None:
            self._acks = deque()
        if self._acks and self._acks[-1][0] > end_offset:  # a retry of something older than what others wait for
            self._acks = deque(sorted([*self._acks, (end_offset, callback)], key=lambda each: each[0]))
        else:
            self._acks.append((end_offset, callback))

    @property
    def lost_because(self) -> BarnabasError | None:
        """Why what is not acknowledged here never will be: somebody who comes to wait too late is not called."""
        offline_reason = self._logs.data_dir.health.offline_reason
        if self.is_deleted:
            return UnknownTopicOrPartition(f"{self.name} was deleted")
        return None if offline_reason is None else StorageError(f"{self.name} is offline: {offline_reason}")

    def note_flushed(self) -> None:
        if self._is_synced and self._log is not None:
            self._advance(self._log.flushed_offset)

    def _advance(self, high_watermark: int) -> None:
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        if self._acks and not self._is_acking:
            self._acknowledge()
        self._wake()

    def _acknowledge(self) -> None:
        """Call those whose records are acknowledged, some of them in each turn."""
        acks = self._acks
        due: list[AckCallback] = []
        while acks and acks[0][0] <= self.high_watermark and len(due) < ACKS_PER_TURN:
            due.append(acks.popleft()[1])
        # The newest first: a connection sends its answers in order, so with the oldest all of them leave, in one write.
        for callback in reversed(due):
            callback(None)
        acks = self._acks  # looked up again: a callback may lead to another wait, and so to another queue
        self._is_acking = bool(acks and acks[0][0] <= self.high_watermark)
        if self._is_acking:
            asyncio.get_running_loop().call_soon(self._acknowledge)

    def _wake(self) -> None:
        if self._growth_waiters:
            waiters, self._growth_waiters = self._growth_waiters, _NO_WAITERS
            for waiter in waiters:
                waiter.note_growth(self)

    def fail_waiters(self, error: BarnabasError) -> None:
        """The log cannot be served any more: whoever waits hears why."""
        acks, self._acks = self._acks, None
        for end_offset, callback in acks or ():
            callback(None if end_offset <= self.high_watermark else error)
        self._wake()

    # Reading

    def wait_for_growth(self, waiter: GrowthWaiter) -> None:
        """Call `waiter` once when there is more to read, or the partition is gone."""
        if self._growth_waiters is _NO_WAITERS:
            self._growth_waiters = {}
        self._growth_waiters[waiter] = None

    def stop_waiting(self, waiter: GrowthWaiter) -> None:
        self._growth_waiters.pop(waiter, None)

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
        error = UnknownTopicOrPartition(f"{self.name} was deleted")
        if self._log is not None:
            self._logs.partitions.pop(self._log, None)
            self._logs.flusher.forget(self._log, error)
            self._log = None
        self.fail_waiters(error)
