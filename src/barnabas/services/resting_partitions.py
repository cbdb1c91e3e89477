"""The partitions of a follower's fetch session that need not be looked at: what a fetch costs is by what has changed.

A follower names thousands of partitions once, and then fetches again and again while a few of them grow. A partition of
which it has everything, and was told everything, *rests*: the session waits at the partition, and its next fetches do
not look at it. It is *ready* again when something is appended, when its high watermark, its start or its replicas
change, or when it is led no longer. A fetch looks at what is ready, in the order in which it is served next.

Nothing is learned from a resting partition but when its follower fetched last, and that one number (`Visits`) all of
them share.

Invariants: a partition of the session is ready or rests; where one rests its session waits for both.
"""

from typing import Protocol

from barnabas.core.fetched import PartitionKey
from barnabas.core.replica.leader import Visits
from barnabas.runtime.partition import Partition
from barnabas.services.fetch import Found


class ReadyListener(Protocol):
    """A fetch of the session that waits."""

    def note_append(self, key: PartitionKey, partition: Partition) -> None:
        """A partition that rested may have records, or is not what it was."""
        ...

    def note_watermark(self, partition: Partition) -> None:
        """The high watermark of a partition that rested has moved: to be told with the next answer."""
        ...


class RestingPartitions:
    """Which partitions of one session are ready, and which rest."""

    __slots__ = ("_appends", "_growth", "_keys", "_partitions", "_visits", "_who", "listener", "ready")

    def __init__(self) -> None:
        self.ready: dict[PartitionKey, None] = {}
        self.listener: ReadyListener | None = None
        self._partitions: dict[PartitionKey, Partition] = {}  # where something appended is waited for
        self._keys: dict[Partition, PartitionKey] = {}  # the same the other way round
        self._visits = Visits()
        self._who = (-1, -1)  # the node that fetches, and its broker epoch
        self._appends = _Appends(self)
        self._growth = _Growth(self)

    def __len__(self) -> int:
        """At how many partitions the session waits."""
        return len(self._keys)

    def visit(self, replica_id: int, broker_epoch: int, *, now_ms: int) -> None:
        """A follower fetches in this session. For another one than before, or after a restart, nothing rests."""
        if (replica_id, broker_epoch) != self._who:
            self.wake_all()
            self._who, self._visits = (replica_id, broker_epoch), Visits()
        self._visits.last_ms = now_ms

    def forget(self, key: PartitionKey) -> None:
        """A partition leaves the session."""
        self.ready.pop(key, None)
        partition = self._leave(key)
        if partition is not None:
            partition.stop_waiting(self._growth)
            partition.end_rest(self._who[0])

    def find(self, key: PartitionKey) -> Partition | None:
        """A partition at which the session waits: its follower has been heard."""
        return self._partitions.get(key)

    def move_last(self, key: PartitionKey) -> None:
        """Serve a partition after all others."""
        self.ready.pop(key, None)
        self.ready[key] = None

    def rest(self, key: PartitionKey, found: Found) -> None:
        """A partition was told as it was found: it rests if nothing has changed since, and nothing is left to tell."""
        partition = found.partition
        if _is_settled(found) and partition.rest(*self._who, self._visits):
            self.ready.pop(key, None)
            self._keys[partition] = key
            self._partitions[key] = partition
            partition.wait_for_append(self._appends)
            partition.wait_for_growth(self._growth)

    def wake_all(self) -> None:
        """Nothing rests any more, and the session waits nowhere."""
        for key in list(self._partitions):
            partition = self._leave(key)
            if partition is not None:
                partition.stop_waiting(self._growth)
            self.ready[key] = None

    def _leave(self, key: PartitionKey) -> Partition | None:
        partition = self._partitions.pop(key, None)
        if partition is not None:
            del self._keys[partition]
            partition.stop_waiting(self._appends)
        return partition

    def note_append(self, partition: Partition) -> None:
        """Something was appended to a partition, or it has changed."""
        key = self._keys.get(partition)
        if key is not None:
            self._leave(key)
            self.ready[key] = None
            if self.listener is not None:
                self.listener.note_append(key, partition)

    def note_watermark(self, partition: Partition) -> None:
        """The high watermark of a partition has moved. What is appended to it is still waited for."""
        key = self._keys.get(partition)
        if key is not None:
            self.ready[key] = None
            if self.listener is not None:
                self.listener.note_watermark(partition)


def _is_settled(found: Found) -> bool:
    """Whether a follower that was told this knows everything of the partition, as it is now."""
    partition = found.partition
    log = partition.held_log
    return (
        not found.records
        and found.error is None
        and found.diverging is None
        and partition.is_led
        and not partition.is_deleted
        and partition.leader_epoch == found.leader_epoch
        and partition.high_watermark == found.high_watermark
        and found.log_start_offset == (0 if log is None else log.log_start_offset)
    )


class _Appends:
    """Waits for what a follower fetches."""

    __slots__ = ("_session",)

    def __init__(self, session: RestingPartitions) -> None:
        self._session = session

    def note_growth(self, partition: Partition) -> None:
        self._session.note_append(partition)


class _Growth:
    """Waits for high watermarks."""

    __slots__ = ("_session",)

    def __init__(self, session: RestingPartitions) -> None:
        self._session = session

    def note_growth(self, partition: Partition) -> None:
        self._session.note_watermark(partition)
