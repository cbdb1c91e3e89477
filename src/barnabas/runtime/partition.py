"""One partition as its node serves it: the log, how far it may be read, and who waits for it to grow.

The high watermark is the end of what no crash can take back: of what is on disk, or, where the topic leaves flushing to
the operating system, of what is written. Consumers read below it only, so an offset never changes its meaning.

Invariants: log_start_offset <= high_watermark <= end_offset; the watermark never goes back; a waiter is called once.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.core.errors import BarnabasError, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.runtime.flusher import Flusher
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Appended, Log

AckCallback = Callable[[BarnabasError | None], None]


class GrowthWaiter(Protocol):
    """Somebody who waits for more to read."""

    def note_growth(self) -> None: ...


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


class Partition:
    """One partition, led here."""

    __slots__ = (
        "_acks",
        "_growth_waiters",
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
        self._growth_waiters = _NO_WAITERS
        self._log_config = log_config
        self._is_synced = log_config.flush_policy is FlushPolicy.FSYNC

    def __repr__(self) -> str:
        return f"Partition({self.name})"

    @property
    def log(self) -> Log:
        """The log, opened or made on first use: an empty partition has no files."""
        return self._log if self._log is not None else self._open()

    @property
    def has_log(self) -> bool:
        return self._log is not None

    def _open(self) -> Log:
        if self.is_deleted:
            raise UnknownTopicOrPartition(f"{self.name} was deleted")
        log = self._logs.data_dir.create_log(self.name, self._log_config)
        self._log = log
        self._logs.partitions[log] = self
        self.high_watermark = log.flushed_offset
        log.note_leader_epoch(self.leader_epoch)
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

    def call_when_acked(self, end_offset: int, callback: AckCallback) -> None:
        """Call back when everything below `end_offset` is acknowledged, or cannot be."""
        assert self.high_watermark < end_offset
        if self._acks is None:
            self._acks = deque()
        if self._acks and self._acks[-1][0] > end_offset:  # a retry of something older than what others wait for
            self._acks = deque(sorted([*self._acks, (end_offset, callback)], key=lambda each: each[0]))
        else:
            self._acks.append((end_offset, callback))

    def note_flushed(self) -> None:
        if self._is_synced and self._log is not None:
            self._advance(self._log.flushed_offset)

    def _advance(self, high_watermark: int) -> None:
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        # Looked up each time: a callback may lead to another wait, and so to another queue.
        while self._acks and self._acks[0][0] <= high_watermark:
            self._acks.popleft()[1](None)
        self._wake()

    def _wake(self) -> None:
        if self._growth_waiters:
            waiters, self._growth_waiters = self._growth_waiters, _NO_WAITERS
            for waiter in waiters:
                waiter.note_growth()

    def fail_waiters(self, error: BarnabasError) -> None:
        """The log cannot be served any more: whoever waits hears why."""
        acks, self._acks = self._acks, None
        for _, callback in acks or ():
            callback(error)
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
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Up to where `read_committed` may read."""
        return self.log.last_stable_offset(self.high_watermark)

    def delete(self) -> None:
        """The topic was deleted: waiters hear it; the files are removed by whoever deletes the topic."""
        self.is_deleted = True
        error = UnknownTopicOrPartition(f"{self.name} was deleted")
        if self._log is not None:
            self._logs.partitions.pop(self._log, None)
            self._logs.flusher.forget(self._log, error)
            self._log = None
        self.fail_waiters(error)
