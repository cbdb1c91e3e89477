"""Room for frames that are being received, over all connections.

A connection that needs more than is free waits its turn. A connection that holds room without progress makes way for
those that wait: if its frame arrives slower than `SLOWEST_BYTES_PER_S`, it is closed, after a second while others wait
for its room, and after the time limit for frames in any case. Connections of one address share at most half of the
room, so that one host cannot keep all others out. The last part of either is for frames of an ordinary size, and of
those that wait the one with the smallest frame is next: claiming a large frame is no advantage.

Invariant: if none of those that hold room receives, because they wait for more or for an answer, one goes on.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from barnabas.runtime.connection_limits import ConnectionLimits

ORDINARY_FRAME: Final = 2 * 1024 * 1024
KEPT_PART: Final = 8  # this part of the room is kept for ordinary frames
SLOWEST_BYTES_PER_S: Final = 16 * 1024
HURRY_S: Final = 1.0  # how long a slow frame is left alone while others wait for its room
LOOK_S: Final = 0.25  # how often those are looked for


class Receiver(Protocol):
    """A connection, as far as it holds room or waits for it."""

    ip: str
    frame_bytes: int  # of the frame that it wants room for
    reserved: int  # bytes of the room it has
    reserved_at: float  # since when

    @property
    def received(self) -> int:
        """Bytes received of what it holds room for."""
        ...

    @property
    def is_held_up(self) -> bool:
        """Whether reading is paused by us: then nothing is known of how fast its client sends."""
        ...

    def go_on(self) -> None: ...

    def refuse(self, reason: str, *, kind: str) -> None: ...


class ReceiveBudget:
    """The room, its holders, and those that wait for it."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._share = max(limits.max_queued_bytes // 2, limits.max_frame_bytes)
        self._by_ip: dict[str, int] = {}
        self.free = limits.max_queued_bytes
        self.holders: dict[Receiver, None] = {}
        self.waiting: dict[Receiver, None] = {}  # in the order in which they came
        self._is_giving = False
        self._looking: asyncio.TimerHandle | None = None
        self._looked_at = 0.0

    @property
    def is_scarce(self) -> bool:
        """Whether to give room only for bytes received, not for those announced."""
        return self.free < self._limits.max_queued_bytes // 2

    def take(self, receiver: Receiver, size: int, *, is_there: bool = False) -> bool:
        """Take room for `size` more bytes; False if the connection was queued for it.

        Bytes that were received already are counted in any case.
        """
        if not is_there and not self._may_take(receiver):
            self.waiting[receiver] = None
            self._look_soon()
            return False
        # May go below zero by one frame, so that a frame larger than what is left is not starved by small ones.
        self.free -= size
        self._by_ip[receiver.ip] = self._by_ip.get(receiver.ip, 0) + size
        if receiver not in self.holders:
            self.holders[receiver] = None
            receiver.reserved_at = self._loop.time()
        receiver.reserved += size
        return True

    def _may_take(self, receiver: Receiver) -> bool:
        kept = 0 if receiver.frame_bytes <= ORDINARY_FRAME else self._limits.max_queued_bytes // KEPT_PART
        if self.free <= kept:
            return not self._gets_on(self.holders, receiver)
        if self._by_ip.get(receiver.ip, 0) >= self._share - kept // 2:
            return not self._gets_on((each for each in self.holders if each.ip == receiver.ip), receiver)
        return True

    def _gets_on(self, holders: Iterable[Receiver], receiver: Receiver | None = None) -> bool:
        """Whether any other of these is receiving, and will give back its room.

        If none is, one must be allowed to go on.
        """
        return any(not each.is_held_up and each is not receiver and each not in self.waiting for each in holders)

    def give_back(self, receiver: Receiver) -> None:
        """Release the room of a connection; those that wait for it go on."""
        size, receiver.reserved = receiver.reserved, 0
        self.holders.pop(receiver, None)
        self.waiting.pop(receiver, None)
        if size:
            self.free += size
            left = self._by_ip[receiver.ip] - size
            if left:
                self._by_ip[receiver.ip] = left
            else:
                del self._by_ip[receiver.ip]
        if not self._is_giving:  # one of those below gives back at once: it need not go deeper
            self._give()

    def _give(self) -> None:
        self._is_giving = True
        while self.waiting:
            if self.free <= 0 and self._gets_on(self.holders):
                break
            allowed = self._find_allowed()
            if allowed is None:
                break
            del self.waiting[allowed]
            allowed.go_on()
        self._is_giving = False

    def _find_allowed(self) -> Receiver | None:
        """The one with the smallest frame, of those who wait, that may take room now.

        Of those with the same address, all with ordinary frames or all with large ones, none may if one may not: an
        attacker has a thousand of them waiting, and each request of somebody else gives room back.
        """
        refused: set[tuple[str, bool]] = set()
        for receiver in sorted(self.waiting, key=_frame_bytes):
            kind = (receiver.ip, receiver.frame_bytes <= ORDINARY_FRAME)
            if kind not in refused:
                if self._may_take(receiver):
                    return receiver
                refused.add(kind)
        return None

    # Those who do not get on

    def _look_soon(self) -> None:
        if self._looking is None:
            due = max(self._looked_at + LOOK_S, self._loop.time())
            self._looking = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._looking = None
        if self.waiting:
            self._make_way()
        if self.waiting:
            self._look_soon()

    def _make_way(self) -> None:
        """Close the slowest of those that hold room, until a good part of it is free."""
        now = self._looked_at = self._loop.time()
        slow = [each for each in self.holders if self._is_too_slow(each, now, HURRY_S)]
        slow.sort(key=lambda each: each.received / (now - each.reserved_at))
        for each in slow:
            if self.free >= self._limits.max_queued_bytes // 4 and self._by_ip.get(each.ip, 0) < self._share // 2:
                break
            each.refuse("its request arrives slowly, and others wait for the memory it holds", kind="slow request")

    def _is_too_slow(self, receiver: Receiver, now: float, limit_s: float) -> bool:
        taken_s = now - receiver.reserved_at
        if receiver in self.waiting:
            return False
        if receiver.is_held_up:
            return taken_s > self._limits.max_frame_s
        return taken_s > limit_s and receiver.received < SLOWEST_BYTES_PER_S * taken_s

    def sweep(self) -> None:
        """Close connections whose frames take too long, whether or not others wait for their room."""
        now, limit_s = self._loop.time(), self._limits.max_frame_s
        for each in list(self.holders):
            if not each.is_held_up and self._is_too_slow(each, now, limit_s):
                each.refuse(f"its request has not arrived completely after {limit_s:g} s", kind="slow request")

    def close(self) -> None:
        """Stop sweeping."""
        if self._looking is not None:
            self._looking.cancel()


def _frame_bytes(receiver: Receiver) -> int:
    return receiver.frame_bytes
