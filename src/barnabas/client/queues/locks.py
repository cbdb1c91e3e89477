"""The records that a member has from one broker: until when, what is to be said of them, and when.

Pure: time arrives as an argument. Not for several threads at once. A lock begins when the fetch that brought its record
was sent, which is before the broker counts: it ends here no later than there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

MAX_ACKS: Final = 1000
"""In one request."""
_RENEW_AT: Final = 0.5  # of a lock's duration
_RETRY_S: Final = 0.05


class Ack(IntEnum):
    """What is said of a record; the numbers are the protocol's."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Place(NamedTuple):
    """A partition."""

    topic_id: UUID
    partition: int


@dataclass(slots=True, eq=False)
class Lock:
    """One record that a member has, or had."""

    place: Place
    offset: int
    expires_at: float
    renew_at: float
    give_up_at: float
    answer: Ack | None = None
    finished_at: float = 0.0
    is_urgent: bool = False
    is_sent: bool = False
    is_over: bool = False
    is_lost: bool = False
    is_in_doubt: bool = False  # what was said of it may have been written, without an answer that says so
    is_suspect: bool = False  # something was wrong with a request that named it: ask about it alone
    can_renew: bool = True


class Locks:
    """All locks that one session holds."""

    def __init__(self, *, linger_s: float, max_hold_s: float, can_renew: bool = True) -> None:
        self._linger_s = linger_s
        self._max_hold_s = max_hold_s
        self._can_renew = can_renew
        self._held: dict[tuple[Place, int], Lock] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def unfinished(self) -> list[Lock]:
        return [lock for lock in self._held.values() if lock.answer is None]

    @property
    def finished_count(self) -> int:
        """How many acknowledgements are not answered yet."""
        return sum(lock.answer is not None for lock in self._held.values())

    def add(self, place: Place, offset: int, *, since: float, lock_s: float) -> Lock:
        """Note an acquired record. If it was had before, that lock is lost: it must have run out."""
        before = self._held.get((place, offset))
        if before is not None:
            self._lose(before)
        lock = Lock(
            place,
            offset,
            expires_at=since + lock_s,
            renew_at=since + lock_s * _RENEW_AT,
            give_up_at=since + self._max_hold_s,
            can_renew=self._can_renew,
        )
        self._held[place, offset] = lock
        return lock

    def finish(self, lock: Lock, answer: Ack, *, now: float, is_urgent: bool = False) -> bool:
        """Say what became of a record; False if it was lost meanwhile, or this was said before."""
        if lock.is_over or lock.answer is not None:
            return False
        lock.answer, lock.finished_at, lock.is_urgent = answer, now, is_urgent
        return True

    def take_acks(self, now: float, *, flush: bool = False) -> list[Lock]:
        """The acknowledgements to send now, marked as sent; none before the oldest has waited, unless one is urgent."""
        waiting = [lock for lock in self._held.values() if lock.answer is not None and not lock.is_sent]
        if not flush and now < self._acks_due_at(waiting):
            return []
        return self._mark(waiting)

    def take_renewals(self, now: float) -> list[Lock]:
        """The locks to renew now, marked as sent."""
        return self._mark([lock for lock in self._held.values() if self._is_to_renew(lock) and lock.renew_at <= now])

    def settle_acks(
        self,
        locks: Iterable[Lock],
        *,
        now: float,
        refused: frozenset[Place],
        retried: frozenset[Place] = frozenset(),
        unknown: frozenset[Place] = frozenset(),
    ) -> None:
        """Apply the answer to acknowledgements: per partition all of them hold, or none does. Those of `unknown` may
        hold, too, if they are lost.
        """
        by_place = _by_place(locks)
        for place, group in by_place.items():
            for lock in group:
                lock.is_sent = False
                lock.is_in_doubt |= place in unknown
                if place in retried:
                    lock.finished_at, lock.is_urgent = now + _RETRY_S, False
                elif place not in refused:
                    self._end(lock)
                elif len(group) == 1:
                    self._lose(lock)
                else:
                    lock.is_suspect = True

    def settle_renewals(self, locks: Iterable[Lock], *, since: float, lock_s: float, refused: frozenset[Place]) -> None:
        """Apply the answer to renewals. A lock that cannot be renewed is good until it runs out."""
        for place, group in _by_place(locks).items():
            for lock in group:
                lock.is_sent = False
                if place not in refused:
                    lock.expires_at, lock.renew_at = since + lock_s, since + lock_s * _RENEW_AT
                elif len(group) == 1:
                    lock.can_renew = False
                else:
                    lock.is_suspect = True

    def expire(self, now: float) -> list[Lock]:
        """Drop what has run out, and is somebody else's by now; an acknowledgement on its way is waited for."""
        expired = [lock for lock in self._held.values() if lock.expires_at <= now and not lock.is_sent]
        for lock in expired:
            self._lose(lock)
        return expired

    def lose_all(self, places: Iterable[Place] | None = None) -> list[Lock]:
        """Drop all locks, or those of some partitions: the session ended, or another broker leads."""
        wanted = None if places is None else set(places)
        lost = [lock for lock in self._held.values() if wanted is None or lock.place in wanted]
        for lock in lost:
            self._lose(lock)
        return lost

    def next_due(self) -> float:
        """When there is something to send or to drop next; infinity if never."""
        waiting = [lock for lock in self._held.values() if lock.answer is not None and not lock.is_sent]
        times = [self._acks_due_at(waiting)]
        for lock in self._held.values():
            if not lock.is_sent:
                times.append(lock.expires_at)
            if self._is_to_renew(lock):
                times.append(lock.renew_at)
        return min(times)

    def _acks_due_at(self, waiting: list[Lock]) -> float:
        if any(lock.is_urgent for lock in waiting) or len(waiting) >= MAX_ACKS:
            return float("-inf")
        return min((lock.finished_at + self._linger_s for lock in waiting), default=float("inf"))

    def _is_to_renew(self, lock: Lock) -> bool:
        return lock.answer is None and not lock.is_sent and lock.can_renew and lock.renew_at < lock.give_up_at

    def _mark(self, locks: list[Lock]) -> list[Lock]:
        """At most one request's worth, and of a partition with a suspect no other than that one."""
        taken: list[Lock] = []
        suspects = {lock.place: lock for lock in reversed(locks) if lock.is_suspect}
        for lock in locks[:MAX_ACKS]:
            if suspects.get(lock.place, lock) is lock:
                lock.is_sent = True
                taken.append(lock)
        return taken

    def _end(self, lock: Lock) -> None:
        lock.is_over = True
        if self._held.get((lock.place, lock.offset)) is lock:
            del self._held[lock.place, lock.offset]

    def _lose(self, lock: Lock) -> None:
        lock.is_lost = True
        lock.is_in_doubt |= lock.is_sent and lock.answer is not None
        self._end(lock)


def ack_batches(locks: Iterable[Lock], kind: Ack | None = None) -> list[dict[str, Any]]:
    """Locks of one partition as the protocol has them: ascending ranges of offsets, with one type or one for each."""
    batches: list[dict[str, Any]] = []
    for lock in sorted(locks, key=lambda lock: lock.offset):
        answer = int(lock.answer or Ack.GAP) if kind is None else int(kind)
        if batches and batches[-1]["last_offset"] == lock.offset - 1:
            batches[-1]["last_offset"] = lock.offset
            batches[-1]["acknowledge_types"].append(answer)
        else:
            batches.append({"first_offset": lock.offset, "last_offset": lock.offset, "acknowledge_types": [answer]})
    for batch in batches:
        if len(set(batch["acknowledge_types"])) == 1:
            del batch["acknowledge_types"][1:]
    return batches


def _by_place(locks: Iterable[Lock]) -> dict[Place, list[Lock]]:
    grouped: dict[Place, list[Lock]] = {}
    for lock in locks:
        grouped.setdefault(lock.place, []).append(lock)
    return grouped
