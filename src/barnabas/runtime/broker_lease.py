"""The lease of this broker: whether it may answer for what it leads, by the clock and the metadata of this moment."""

from barnabas.core.metadata.lease import Lease
from barnabas.runtime.clock import Clock
from barnabas.runtime.cluster_metadata import ClusterMetadata


class BrokerLease:
    """`core.metadata.lease` on a clock. Renewed by `services.membership`, asked for by the coordinators."""

    def __init__(self, metadata: ClusterMetadata, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock
        self._lease = Lease()

    def now_ms(self) -> int:
        """The time by which it ends."""
        return self._clock.elapsed_ms()

    def note_answer(self, *, sent_ms: int, lease_ms: int, decided_offset: int) -> None:
        """A controller has answered a heartbeat."""
        self._lease.note_answer(sent_ms=sent_ms, lease_ms=lease_ms, decided_offset=decided_offset)

    def end(self) -> None:
        """Give it up."""
        self._lease.end()

    def holds(self) -> bool:
        """Whether nobody else leads what this node leads. True of this moment: ask again after an await."""
        return self._lease.holds(now_ms=self._clock.elapsed_ms(), applied_offset=self._metadata.applied_offset)
