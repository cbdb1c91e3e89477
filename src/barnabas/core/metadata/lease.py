"""How long a broker may answer as the one that leads, without asking anybody: the lease that its heartbeats give it.

The controller fences a broker no earlier than a session after it got the last heartbeat, so not before a session after
that was sent; and a broker that lives loses its leaderships only by records, of which it has all that were decided when
the heartbeat was answered. See decision 23 for the whole argument, and for what it does not cover.

Times are those of a clock that goes on while the process stands still. Must not know: who asks, and what for.
"""

from collections import deque
from typing import Final, NamedTuple

DRIFT_PERCENT: Final = 2
"""How much slower this node's clock may run than the controller's."""
MAX_WAITING: Final = 8
"""Answers that wait to be counted; of more the newest, which last longest."""


class _Answered(NamedTuple):
    ends_ms: int
    decided_offset: int


class Lease:
    """The lease of one broker."""

    def __init__(self) -> None:
        self._ends_ms: int | None = None
        self._answered: deque[_Answered] = deque(maxlen=MAX_WAITING)

    def note_answer(self, *, sent_ms: int, lease_ms: int, decided_offset: int) -> None:
        """The controller has answered a heartbeat that was sent then: it is good for so long after that.

        `decided_offset`: where its log ended, with all that it had decided. The answer counts once the metadata are
        applied up to there.
        """
        ends_ms = sent_ms + lease_ms - lease_ms * DRIFT_PERCENT // 100
        self._answered.append(_Answered(ends_ms, decided_offset))

    def end(self) -> None:
        """The broker gives it up: it is about to ask the controller to have others lead."""
        self._ends_ms = None
        self._answered.clear()

    def holds(self, *, now_ms: int, applied_offset: int) -> bool:
        """Whether nobody else leads what the metadata up to `applied_offset` say that this broker leads."""
        if self._answered:
            self._count(applied_offset)
        return self._ends_ms is not None and now_ms < self._ends_ms

    def _count(self, applied_offset: int) -> None:
        counted = [each for each in self._answered if each.decided_offset <= applied_offset]
        for each in counted:
            self._answered.remove(each)
            self._ends_ms = each.ends_ms if self._ends_ms is None else max(self._ends_ms, each.ends_ms)
