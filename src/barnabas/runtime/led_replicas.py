"""The partitions led here that have other replicas: who of those nodes is active, and whose ISR may have to change; and
how fast replicas that are not in sync are copied from here and to here.

Shared by all partitions of a node. Whoever leads has its followers judged by the same clock and the same registrations.
"""

import asyncio
from typing import TYPE_CHECKING

from barnabas.core.model import TopicPartition
from barnabas.core.replica.leader import DEFAULT_MAX_LAG_MS
from barnabas.core.replica.throttle import ReplicationQuota
from barnabas.runtime.broker_lease import BrokerLease

if TYPE_CHECKING:
    from barnabas.runtime.replica import Replica


class LedReplicas:
    """What the leaders of a node have in common."""

    __slots__ = ("active", "cut_off", "doubted", "fetching", "is_doubted", "lease", "led", "max_lag_ms", "sending")

    def __init__(self) -> None:
        self.max_lag_ms = DEFAULT_MAX_LAG_MS
        self.sending = ReplicationQuota()
        """Of what is led here, to throttled replicas that are not in sync."""
        self.fetching = ReplicationQuota()
        """The same for what is followed here."""
        self.lease: BrokerLease | None = None
        """Without which nobody answers for what is led here; None on a node that has no neighbours."""
        self.active: dict[int, int] = {}
        """The broker epochs of all nodes that are active, by their ids. Leaders read it as it is at any time."""
        self.led: dict[Replica, None] = {}
        self.cut_off: dict[TopicPartition, None] = {}
        """Those of them that take no records, since another node may lead them: see `runtime.cut_off`."""
        self.doubted: dict[Replica, None] = {}
        """Those in which a follower may have caught up, or that have just begun to be led."""
        self.is_doubted = asyncio.Event()

    def add(self, partition: "Replica") -> None:
        """A partition with other replicas is led here."""
        self.led[partition] = None
        self.doubt(partition)

    def discard(self, partition: "Replica") -> None:
        """A partition is no longer led here, or has no other replica any more."""
        self.led.pop(partition, None)
        self.cut_off.pop(partition.name, None)
        self.doubted.pop(partition, None)

    def doubt(self, partition: "Replica") -> None:
        """Somebody should look whether the ISR of a partition is right."""
        self.doubted[partition] = None
        self.is_doubted.set()

    @staticmethod
    def now_ms() -> int:
        """The time by which followers lag."""
        return int(asyncio.get_running_loop().time() * 1000)
