"""How far a partition may be read, and who waits for that to change: acknowledgements, readers, replicas.

The high watermark is the end of what no crash can take back: of what is on disk, or, where the topic leaves flushing to
the operating system, of what is written, on every replica that is in sync. It goes back only at a follower that has to
remove what was committed, as its leader lacks it.

Invariants: a waiter is called once.
"""

from typing import Any, Final, Protocol

from barnabas.core.errors import BarnabasError
from barnabas.runtime.acks import AckCallback, Acks


class GrowthWaiter(Protocol):
    """Somebody who waits for more to read."""

    def note_growth(self, partition: Any) -> None:
        """This partition has more, or is gone."""
        ...


_NO_WAITERS: Final[dict[GrowthWaiter, None]] = {}


class Watermark:
    """The high watermark of a partition, and its waiters."""

    __slots__ = ("_acks", "_append_waiters", "_growth_waiters", "high_watermark")

    def __init__(self) -> None:
        self.high_watermark = 0
        self._acks: Acks | None = None
        self._growth_waiters = self._append_waiters = _NO_WAITERS

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

    def _advance(self, high_watermark: int) -> None:
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        if self._acks is not None:
            self._acks.acknowledge(high_watermark)
        if self._growth_waiters:
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
