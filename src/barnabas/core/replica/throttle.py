"""How fast replicas that are not in sync are copied: a rate of the node, for the replicas that a topic names.

A reassignment copies whole partitions, and would take all of a disk and a network from clients. Kafka's settings limit
that: `leader.replication.throttled.rate` and `follower.replication.throttled.rate` of a broker, for the replicas in
`leader.replication.throttled.replicas` and `follower.replication.throttled.replicas` of a topic. Replicas in sync are
never throttled: acknowledgements wait for them.

What was sent or fetched is paid off at the rate. While more than the rate of one second is unpaid, throttled partitions
are left out; so a single answer may be more than the rate, and the time after it makes up for that.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from barnabas.core.model import NO_NODE

UNLIMITED_RATE: Final = 2**63 - 1
ALL: Final = "*"
_MAX_DIGITS: Final = 10
"""Of the number of a partition or a broker; a longer one is nobody's."""
_WINDOW_MS: Final = 1000


class ReplicationQuota:
    """Bytes a second, for all throttled replicas of a node together."""

    __slots__ = ("_at_ms", "_unpaid", "rate")

    def __init__(self, rate: int = UNLIMITED_RATE) -> None:
        self.rate = rate
        self._unpaid = 0.0
        self._at_ms = 0

    def change(self, rate: int) -> None:
        """Another rate from now on. What is unpaid is forgiven: at a much lower rate it could take hours."""
        if rate != self.rate:
            self.rate, self._unpaid = rate, 0.0

    def note(self, size: int, *, now_ms: int) -> None:
        """So many bytes of throttled replicas were sent, or fetched."""
        if self.rate != UNLIMITED_RATE:
            self._pay(now_ms)
            self._unpaid += size

    def is_exceeded(self, *, now_ms: int) -> bool:
        """Whether throttled replicas have to wait."""
        if self.rate == UNLIMITED_RATE:
            return False
        self._pay(now_ms)
        return self._unpaid >= self.rate * _WINDOW_MS / 1000

    def _pay(self, now_ms: int) -> None:
        self._unpaid = max(self._unpaid - self.rate * (now_ms - self._at_ms) / 1000, 0.0)
        self._at_ms = now_ms


class Throttle(NamedTuple):
    """The quotas that apply to a partition of this node: as its leader, and as a follower."""

    sending: ReplicationQuota | None = None
    fetching: ReplicationQuota | None = None

    def holds_back(self, replica_id: int, in_sync: Collection[int], *, now_ms: int) -> bool:
        """Whether a leader has nothing for a follower for now."""
        return self.sending is not None and replica_id not in in_sync and self.sending.is_exceeded(now_ms=now_ms)

    def note_sent(self, replica_id: int, in_sync: Collection[int], size: int, *, now_ms: int) -> None:
        """A leader sends records to a follower."""
        if self.sending is not None and replica_id not in in_sync:
            self.sending.note(size, now_ms=now_ms)


NOT_THROTTLED: Final = Throttle()


class ThrottledReplicas:
    """The partitions of a topic whose replicas on a node a setting names: a list like `0:1,2:1` (partition:broker), or
    `*` for all. A list may be as long as the topic has replicas, so it is read once.
    """

    __slots__ = ("_are_all", "_partitions")

    def __init__(self, listed: Sequence[str] = (), *, node_id: int = NO_NODE) -> None:
        self._are_all = ALL in listed
        self._partitions = frozenset(
            int(partition)
            for partition, _, node in (each.partition(":") for each in listed if each != ALL)
            if len(partition) <= _MAX_DIGITS and len(node) <= _MAX_DIGITS and int(node) == node_id
        )

    def __contains__(self, partition: int) -> bool:
        return self._are_all or partition in self._partitions


NOT_LISTED: Final = ThrottledReplicas()
