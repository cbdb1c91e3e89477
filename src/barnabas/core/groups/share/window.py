"""The window of a share partition: the state of every offset from its start offset to its end offset.

Owns the structure, not the rules (`partition`). Offsets in a row with the same state are one span, so the cost is that
of the changes of state, and not of the records. A span is split when a part of it changes, and merged with its
neighbours when they have become alike.

Invariants: spans are in order, without a gap or an overlap, from `start_offset` to `end_offset`; the first one is not
finished, since the start offset moves past it; `finished`, `acquired`, `waiting` and `archiving` count the offsets in
these states. Finished spans are one, however they were finished: what is between unfinished offsets costs nothing,
however much it is.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from barnabas.core.records.dead_letters import Cause


class State(IntEnum):
    """The state of an offset. The first ones have Kafka's numbers, which are those in the log."""

    AVAILABLE = 0
    ACQUIRED = 1
    FINISHED = 2  # acknowledged, rejected, or never to be delivered
    ARCHIVING = 3  # never delivered again, and its dead letter is yet to be written
    SETTLING = 5  # acknowledged, and that is being written
    WAITING = 6  # to be delivered again, when its time has come


class Persisted(IntEnum):
    """The state of an offset as it is written, with Kafka's numbers."""

    AVAILABLE = 0
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # from share.version 2 on
    ARCHIVED = 4

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to be done with it."""
        return self in (Persisted.ACKNOWLEDGED, Persisted.ARCHIVED)


@dataclass(slots=True)
class Span:
    """Offsets in a row with the same state."""

    first: int
    last: int
    state: State
    count: int = 0  # deliveries
    member: str = ""  # who has acquired it
    deadline_ms: int = 0  # until when; of one that waits, when its time has come
    target: Persisted = Persisted.AVAILABLE  # what it becomes once that is written
    write: int = 0  # the write that says so
    cause: Cause | None = None  # why it gets a dead letter; None where that is not known, as after a load

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def is_like(self, other: "Span") -> bool:
        """Whether two spans can be one."""
        if self.state is not other.state:
            return False
        if self.state is State.FINISHED:
            return True
        return self._rest == other._rest

    @property
    def _rest(self) -> tuple[object, ...]:
        return self.count, self.member, self.deadline_ms, self.target, self.write, self.cause


class Window:
    """Spans from the start offset to the end offset."""

    __slots__ = (
        "_available_from",
        "_firsts",
        "_spans",
        "acquired",
        "archiving",
        "end_offset",
        "finished",
        "start_offset",
        "waiting",
    )

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1  # the last offset in the window: Kafka's SPEO, which is inclusive
        self.finished = 0
        self.acquired = 0
        self.archiving = 0
        self.waiting = 0
        self._spans: list[Span] = []
        self._firsts: list[int] = []
        self._available_from = start_offset  # nothing before it is available

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset + 1

    @property
    def unfinished(self) -> int:
        return self.size - self.finished

    @property
    def held(self) -> int:
        """Offsets that count against the limit of locks: all that are not finished, and do not wait for their time."""
        return self.unfinished - self.waiting

    def __len__(self) -> int:
        """The number of spans."""
        return len(self._spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def find_available(self) -> int:
        """The first available offset; the one after the window if there is none."""
        at = self._index(max(self._available_from, self.start_offset))
        for span in self._spans[at:]:
            if span.state is State.AVAILABLE:
                self._available_from = max(span.first, self._available_from)
                return self._available_from
        self._available_from = self.end_offset + 1
        return self._available_from

    def look(self, first: int, last: int) -> list[Span]:
        """The spans that have offsets of this range, whole."""
        if last < first or not self._spans:
            return []
        return self._spans[self._index(first) : self._index(last) + 1]

    def carve(self, first: int, last: int) -> list[Span]:
        """The spans that make up this range exactly: those at its ends are split."""
        first, last = max(first, self.start_offset), min(last, self.end_offset)
        if last < first:
            return []
        self._split(first)
        self._split(last + 1)
        return self.look(first, last)

    def append(self, span: Span) -> None:
        """Add a span at the end."""
        assert span.first == self.end_offset + 1, f"{span} does not follow offset {self.end_offset}"
        self._spans.append(span)
        self._firsts.append(span.first)
        self.end_offset = span.last
        self._count(span, 1)
        self.tidy(span.first, span.last)

    def change(
        self,
        span: Span,
        state: State,
        *,
        count: int | None = None,
        member: str = "",
        deadline_ms: int = 0,
        target: Persisted = Persisted.AVAILABLE,
        write: int = 0,
        cause: Cause | None = None,
    ) -> None:
        """Give a span another state. The caller tidies up when it has changed all that it changes."""
        self._count(span, -1)
        span.state = state
        span.count = span.count if count is None else count
        span.member, span.deadline_ms, span.target, span.write = member, deadline_ms, target, write
        span.cause = cause
        self._count(span, 1)
        if state is State.AVAILABLE:
            self._available_from = min(self._available_from, span.first)

    def tidy(self, first: int, last: int) -> None:
        """Merge what has become alike in and around a range, and move the start offset past what is finished."""
        if not self._spans:
            return
        at, end = max(self._index(first) - 1, 0), min(self._index(last) + 1, len(self._spans) - 1)
        merged = [self._spans[at]]
        for span in self._spans[at + 1 : end + 1]:
            if merged[-1].is_like(span):
                merged[-1].last = span.last
            else:
                merged.append(span)
        if len(merged) != end + 1 - at:
            self._spans[at : end + 1] = merged
            self._firsts[at : end + 1] = [span.first for span in merged]
        if self._spans[0].state is State.FINISHED:
            self.drop_before(self._spans[0].last + 1)

    def drop_before(self, offset: int) -> None:
        """Move the start offset, whatever is before it."""
        if offset <= self.start_offset:
            return
        if offset <= self.end_offset:
            self._split(offset)
        gone = self._index(offset) if offset <= self.end_offset else len(self._spans)
        for span in self._spans[:gone]:
            self._count(span, -1)
        del self._spans[:gone], self._firsts[:gone]
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset - 1)
        self._available_from = max(self._available_from, offset)
        if self._spans and self._spans[0].state is State.FINISHED:
            self.drop_before(self._spans[0].last + 1)

    def _index(self, offset: int) -> int:
        return max(bisect_right(self._firsts, offset) - 1, 0)

    def _split(self, offset: int) -> None:
        """Have a span begin at an offset."""
        if not self.start_offset < offset <= self.end_offset:
            return
        at = self._index(offset)
        span = self._spans[at]
        if span.first == offset:
            return
        self._spans.insert(at + 1, replace(span, first=offset))
        self._firsts.insert(at + 1, offset)
        span.last = offset - 1

    def _count(self, span: Span, sign: int) -> None:
        if span.state is State.FINISHED:
            self.finished += sign * span.size
        elif span.state is State.ACQUIRED:
            self.acquired += sign * span.size
        elif span.state is State.WAITING:
            self.waiting += sign * span.size
        elif span.state is State.ARCHIVING:
            self.archiving += sign * span.size
