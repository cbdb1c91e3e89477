"""A share partition: what a share group has of one partition, and what it has done with it (KIP-932).

Owns the rules of delivery. Its leader keeps one in memory for each group that reads, loaded from what the share
coordinator has. The machine of a record, in its `window`:

                       a member fetches it: one delivery more, a lock
          AVAILABLE -----------------------------------------------> ACQUIRED
            ^ ^  ^       its lock runs out, its session ends            |   | RENEW: a new lock
            | |  +----------------------------------------------------- +---+
            | |                                                         | ACCEPT, RELEASE, REJECT, GAP
            | |          RELEASE is written                             v
            | +---------------------------------------------------- SETTLING ---> back to ACQUIRED, or to AVAILABLE if
            |                                                           |         its lock has run out: not written
         WAITING                                                        v
      instead of AVAILABLE, in a group with              FINISHED: accepted, rejected, or delivered often enough
      backoff, until its time has come                       ^
                                                         ARCHIVING: instead of FINISHED, in a group with dead letters,
                                                         of what is rejected or was delivered often enough, until its
                                                         letter is written, however long that takes

A record that comes back after as many deliveries as the limit allows is finished: the limit counts when it comes back,
and may have changed since. The start offset moves past what is finished, and past nothing else: a record whose letter
cannot be written stays, and counts against the limit of locks.

What waits for its time does not count against that limit. It has one of its own: once it is reached, nothing new is
acquired. That a record waits is not written: whoever leads next has it wait anew.

What is acknowledged is written before it counts. What time does is so at once, and written with the next write: should
it be lost, a record is delivered once more. That a record is out is not written at all: whoever leads next delivers it
again, under its old count.

A batch that keeps coming back is halved from the half of the limit on, and the last attempt is of one record alone, so
that one bad record does not finish its neighbours.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import groupby
from typing import Final, NamedTuple

from barnabas.core.errors import InvalidRecordState
from barnabas.core.groups.settings import ShareLimits
from barnabas.core.groups.share.acknowledging import AckBatch, AckType
from barnabas.core.groups.share.window import Persisted, Span, State, Window
from barnabas.core.records.dead_letters import Cause, LetterRange

MAX_DIRTY: Final = 1000
"""Ranges that wait to be written; of more, what is between them is written along."""

_FINAL: Final = {
    AckType.GAP: Persisted.ARCHIVED,
    AckType.ACCEPT: Persisted.ACKNOWLEDGED,
    AckType.REJECT: Persisted.ARCHIVED,
    AckType.RELEASE: Persisted.ARCHIVED,  # after its last delivery
}
_LOADED: Final = {Persisted.AVAILABLE: State.AVAILABLE, Persisted.ARCHIVING: State.ARCHIVING}
_WRITTEN: Final = {
    State.AVAILABLE: Persisted.AVAILABLE,
    State.WAITING: Persisted.AVAILABLE,
    State.ARCHIVING: Persisted.ARCHIVING,
    State.FINISHED: Persisted.ARCHIVED,
}
"""What is written of a state that nobody waits for."""


class LogBatch(NamedTuple):
    """A batch of the log, as far as it matters here."""

    first: int
    last: int
    is_delivered: bool = True  # not a marker, and not of an aborted transaction


class Wanted(NamedTuple):
    """What a member asks for."""

    member: str
    max_records: int
    batch_size: int = 0  # acquired ranges end at a batch from this size on; 0: they do not
    is_strict: bool = False  # not one record more than `max_records`; else whole batches


class Acquired(NamedTuple):
    """Records that a member has acquired."""

    first: int
    last: int
    delivery_count: int


class StateBatch(NamedTuple):
    """The state of a range of offsets, as it is written."""

    first: int
    last: int
    state: Persisted
    delivery_count: int


class StateWrite(NamedTuple):
    """What is to be written. Its number is that of acknowledgements which wait for it."""

    number: int
    start_offset: int
    complete_count: int  # offsets from the start offset on that are finished
    batches: tuple[StateBatch, ...]


class SharePartition:
    """One partition of one group."""

    __slots__ = (
        "_deadlines",
        "_dirty",
        "_due",
        "_is_start_dirty",
        "_number",
        "_seed",
        "_settling",
        "state_epoch",
        "window",
    )

    def __init__(
        self, start_offset: int, batches: Iterable[StateBatch] = (), *, state_epoch: int = 0, seed: int = 0
    ) -> None:
        """As the share coordinator has it. What no batch tells of is available, and was never delivered.

        `seed` is what backoff varies by, so that partitions do not come back all together.
        """
        self.window = Window(start_offset)
        self.state_epoch = state_epoch
        self._seed = seed
        self._deadlines: list[int] = []  # a heap, with some that count no longer
        self._due: list[tuple[int, int, int]] = []  # a heap: when ranges have waited long enough, and which they are
        self._dirty: list[tuple[int, int]] = []  # ranges to be written, for which nobody waits
        self._is_start_dirty = False
        self._number = 1  # of the next write
        self._settling: dict[int, list[tuple[int, int]]] = {}  # ranges that wait for a write, by its number
        for batch in sorted(batches):
            self._load(batch)

    def _load(self, batch: StateBatch) -> None:
        window = self.window
        if batch.last < window.start_offset:
            return
        first = max(batch.first, window.end_offset + 1)
        if first > window.end_offset + 1:
            window.append(Span(window.end_offset + 1, first - 1, State.AVAILABLE))
        if batch.last >= first:
            state = _LOADED.get(batch.state, State.FINISHED)
            count = 0 if state is State.FINISHED else batch.delivery_count
            window.append(Span(first, batch.last, state, count))

    def wait_anew(self, *, limits: ShareLimits, now_ms: int) -> None:
        """After a load: what was delivered before waits from now on."""
        if limits.backoff.is_on:
            for span in [span for span in self.window if span.state is State.AVAILABLE and span.count]:
                self._make_available(span, limits, now_ms)

    # Fetching

    @property
    def start_offset(self) -> int:
        return self.window.start_offset

    @property
    def end_offset(self) -> int:
        """The last offset that was fetched."""
        return self.window.end_offset

    def next_fetch_offset(self) -> int:
        """Where the next fetch reads: at the first record to be delivered again, or after all that were fetched."""
        return self.window.find_available()

    def can_acquire(self, limits: ShareLimits) -> bool:
        """Whether a fetch may bring anything: with all locks out, only what is delivered again."""
        return self.next_fetch_offset() <= self.end_offset or self.has_room(limits)

    def has_room(self, limits: ShareLimits) -> bool:
        """Whether anything new may be acquired."""
        return self.window.held < limits.max_locks and not self.is_full_of_waiting(limits)

    def is_full_of_waiting(self, limits: ShareLimits) -> bool:
        """Whether as much waits for its time as may: until some of it has come, nothing new is acquired."""
        return self.window.waiting >= limits.max_waiting

    def follow_log_start(self, log_start_offset: int) -> None:
        """Records were deleted from the log: nothing of them is left here, and their acknowledgements count no more."""
        if log_start_offset > self.start_offset:
            self.window.drop_before(log_start_offset)
            self._is_start_dirty = True

    def acquire(
        self, wanted: Wanted, read_from: int, batches: Sequence[LogBatch], *, limits: ShareLimits, now_ms: int
    ) -> list[Acquired]:
        """Acquire for a member what was read from the log from an offset on.

        Offsets between batches are not in the log any more, and never will be: they are finished.
        """
        taking = _Taking(self, wanted, limits, now_ms + limits.lock_duration_ms)
        at = max(read_from, self.start_offset)
        for batch in batches:
            if batch.last < at:
                continue
            if taking.is_full:
                break
            if batch.first > at:
                self._pass_over(at, batch.first - 1)
            first = max(batch.first, at)
            if not batch.is_delivered:
                self._pass_over(first, batch.last)
            else:
                taking.take(first, batch)
            at = batch.last + 1
        if taking.acquired:
            heappush(self._deadlines, now_ms + limits.lock_duration_ms)
        return taking.acquired

    def _pass_over(self, first: int, last: int) -> None:
        """These are never delivered."""
        window = self.window
        if first <= window.end_offset:
            for span in window.carve(first, last):
                if span.state in (State.AVAILABLE, State.WAITING):
                    window.change(span, State.FINISHED, count=0)
                    self._note_dirty(span.first, span.last)
            window.tidy(first, last)
        if last > window.end_offset:
            beyond = max(first, window.end_offset + 1)
            self._note_dirty(beyond, last)
            window.append(Span(beyond, last, State.FINISHED))

    # Acknowledging

    def acknowledge(self, member: str, acks: Sequence[AckBatch], *, limits: ShareLimits, now_ms: int) -> int | None:
        """What a member says of what it has acquired: all of it, or nothing if any of it is refused.

        The number of the write to wait for; None if there is nothing to be written. What is before the start offset is
        ignored: it was deleted from the log.
        """
        self._check(member, acks, limits, now_ms)
        is_written = False
        for ack in acks:
            for kind, first, last in _runs(ack):
                is_written |= self._take(kind, first, last, limits, now_ms)
        return self._number if is_written else None

    def _check(self, member: str, acks: Sequence[AckBatch], limits: ShareLimits, now_ms: int) -> None:
        for ack in acks:
            if AckType.RENEW in ack.types and not limits.allows_renewal:
                raise InvalidRecordState("this group does not allow locks to be renewed")
            first = max(ack.first, self.start_offset)
            if ack.last < first:
                continue
            spans = self.window.look(first, ack.last) if ack.last <= self.end_offset else []
            if not spans or any(
                span.state is not State.ACQUIRED or span.member != member or span.deadline_ms <= now_ms
                for span in spans
            ):
                raise InvalidRecordState(f"offsets {ack.first} to {ack.last} are not acquired by member '{member}'")

    def _take(self, kind: AckType, first: int, last: int, limits: ShareLimits, now_ms: int) -> bool:
        window = self.window
        is_settled = False
        for span in window.carve(first, last):
            if kind is AckType.RENEW:
                span.deadline_ms = now_ms + limits.lock_duration_ms
                heappush(self._deadlines, span.deadline_ms)
                continue
            target, cause = _target(kind, span.count, limits)
            window.change(
                span,
                State.SETTLING,
                member=span.member,
                deadline_ms=span.deadline_ms,
                target=target,
                write=self._number,
                cause=cause,
            )
            self._settling.setdefault(self._number, []).append((span.first, span.last))
            is_settled = True
        window.tidy(first, last)
        return is_settled

    # Time

    def next_deadline_ms(self) -> int | None:
        """When to call `expire` next."""
        first_due = self._due[0][0] if self._due else None
        if not self._deadlines or (first_due is not None and first_due < self._deadlines[0]):
            return first_due
        return self._deadlines[0]

    def expire(self, *, limits: ShareLimits, now_ms: int) -> bool:
        """Locks have run out: what they held comes back. Records have waited long enough. Whether there were any."""
        is_due = self._end_waiting(now_ms)
        if not self._deadlines or self._deadlines[0] > now_ms:
            return is_due
        while self._deadlines and self._deadlines[0] <= now_ms:
            heappop(self._deadlines)
        due = [span for span in self.window if span.state is State.ACQUIRED and span.deadline_ms <= now_ms]
        return self._give_back(due, limits, now_ms) or is_due

    def _end_waiting(self, now_ms: int) -> bool:
        is_due = False
        while self._due and self._due[0][0] <= now_ms:
            _, first, last = heappop(self._due)
            if last < self.start_offset:
                continue
            spans = [
                span
                for span in self.window.look(max(first, self.start_offset), last)
                if span.state is State.WAITING and span.deadline_ms <= now_ms
            ]
            for span in spans:
                self.window.change(span, State.AVAILABLE)
            self.window.tidy(max(first, self.start_offset), last)
            is_due = is_due or bool(spans)
        return is_due

    def release(self, member: str, *, limits: ShareLimits, now_ms: int) -> bool:
        """A member's session has ended: what it held comes back. Whether anything did."""
        held = [span for span in self.window if span.state is State.ACQUIRED and span.member == member]
        return self._give_back(held, limits, now_ms)

    def _give_back(self, spans: Sequence[Span], limits: ShareLimits, now_ms: int) -> bool:
        ranges = [(span.first, span.last) for span in spans]
        for span in spans:
            self._return(span, limits, now_ms)
        for first, last in reversed(ranges):  # tidying up merges spans, and so changes what is behind them
            self.window.tidy(first, last)
        return bool(ranges)

    def _return(self, span: Span, limits: ShareLimits, now_ms: int) -> None:
        if span.count < limits.delivery_limit:
            self._make_available(span, limits, now_ms)
        elif limits.has_letters:
            self.window.change(span, State.ARCHIVING, cause=Cause.LIMIT)
        else:
            self.window.change(span, State.FINISHED)
        self._note_dirty(span.first, span.last)

    def _make_available(self, span: Span, limits: ShareLimits, now_ms: int) -> None:
        if not limits.backoff.is_on:
            self.window.change(span, State.AVAILABLE)
            return
        due_ms = now_ms + limits.backoff.wait_ms(span.count, seed=self._seed ^ span.first)
        self.window.change(span, State.WAITING, deadline_ms=due_ms)
        heappush(self._due, (due_ms, span.first, span.last))

    # Dead letters

    def next_letters(self, *, limits: ShareLimits, max_records: int) -> LetterRange | None:
        """The first records whose letters are to be written; None if there are none.

        Not before it is written that they are: else whoever leads next could deliver a record that has its letter.
        After a load nobody knows why: what was delivered as often as it may be is taken for that.
        """
        if not self.window.archiving:
            return None
        archiving = (each for each in self.window if each.state is State.ARCHIVING)
        span = next((each for each in archiving if not self._is_unwritten(each)), None)
        if span is None:
            return None
        cause = span.cause or (Cause.LIMIT if span.count >= limits.delivery_limit else Cause.REJECTED)
        return LetterRange(span.first, min(span.last, span.first + max_records - 1), span.count, cause)

    def _is_unwritten(self, span: Span) -> bool:
        return any(
            first <= span.last and last >= span.first
            for ranges in (self._dirty, *self._settling.values())
            for first, last in ranges
        )

    def end_letters(self, first: int, last: int) -> None:
        """The letters of a range are written, or nobody wants them any more: it is finished."""
        first = max(first, self.start_offset)
        for span in self.window.carve(first, last):
            if span.state is State.ARCHIVING:
                self.window.change(span, State.FINISHED)
                self._note_dirty(span.first, span.last)
        if first <= last:
            self.window.tidy(first, last)

    # Writing

    @property
    def must_write(self) -> bool:
        """Whether there is anything to be written."""
        return self._number in self._settling or bool(self._dirty) or self._is_start_dirty

    def note_start(self) -> None:
        """The start offset was chosen here: it is to be written, so that whoever leads next begins at the same."""
        self._is_start_dirty = True

    def begin_write(self) -> StateWrite:
        """What is to be written now. Acknowledgements from now on wait for the next write."""
        number = self._number
        self._number += 1
        batches = [
            StateBatch(max(first, span.first), min(last, span.last), span.target, span.count)
            for first, last in self._settling.get(number, ())
            for span in self.window.look(max(first, self.start_offset), min(last, self.end_offset))
            if span.state is State.SETTLING and span.write == number
        ]
        for first, last in self._dirty:
            batches += self._describe(first, last)
        self._settling.setdefault(number, []).extend(self._dirty)  # to be written again if this write fails
        self._dirty = []
        self._is_start_dirty = False
        start, complete = self._after(number)
        return StateWrite(number, start, complete, tuple(sorted({batch for batch in batches if batch.last >= start})))

    def _describe(self, first: int, last: int) -> list[StateBatch]:
        spans = self.window.look(max(first, self.start_offset), min(last, self.end_offset))
        return [
            StateBatch(
                max(first, span.first),
                min(last, span.last),
                _WRITTEN[span.state],
                span.count,
            )
            for span in spans
            if span.state in _WRITTEN and (span.count or span.state is State.FINISHED)
        ]

    def _after(self, number: int) -> tuple[int, int]:
        """The start offset, and how many offsets from there on are finished, once this is written."""
        start, complete, is_head = self.start_offset, 0, True
        for span in self.window:
            is_finished = span.state is State.FINISHED or (
                span.state is State.SETTLING and span.write == number and span.target.is_done
            )
            is_head = is_head and is_finished
            if is_head:
                start = span.last + 1
            elif is_finished:
                complete += span.size
        return start, complete

    def end_write(self, number: int, *, is_written: bool, limits: ShareLimits, now_ms: int) -> None:
        """A write has succeeded, or it has not: then what waited for it is as before."""
        window = self.window
        ranges = self._settling.pop(number, [])
        for first, last in ranges:
            spans = [
                span for span in window.carve(first, last) if span.state is State.SETTLING and span.write == number
            ]
            for span in spans:
                self._settle(span, is_written=is_written, limits=limits, now_ms=now_ms)
            if not is_written:
                self._note_dirty(first, last)
        for first, last in reversed(ranges):
            window.tidy(max(first, window.start_offset), last)
        if not is_written:
            self._is_start_dirty = True

    def _settle(self, span: Span, *, is_written: bool, limits: ShareLimits, now_ms: int) -> None:
        if is_written and span.target is Persisted.AVAILABLE:
            self._make_available(span, limits, now_ms)
        elif is_written and span.target is Persisted.ARCHIVING:
            self.window.change(span, State.ARCHIVING, cause=span.cause)
        elif is_written:
            self.window.change(span, State.FINISHED)
        elif span.deadline_ms > now_ms:
            heappush(self._deadlines, span.deadline_ms)
            self.window.change(span, State.ACQUIRED, member=span.member, deadline_ms=span.deadline_ms)
        else:
            self._return(span, limits, now_ms)

    def _note_dirty(self, first: int, last: int) -> None:
        self._dirty.append((first, last))
        if len(self._dirty) > MAX_DIRTY:
            self._dirty = [(min(each[0] for each in self._dirty), max(each[1] for each in self._dirty))]


class _Taking:
    """What one fetch acquires."""

    __slots__ = ("_deadline_ms", "_is_over", "_limits", "_partition", "_taken", "_wanted", "acquired")

    def __init__(self, partition: SharePartition, wanted: Wanted, limits: ShareLimits, deadline_ms: int) -> None:
        self._partition = partition
        self._wanted = wanted
        self._limits = limits
        self._deadline_ms = deadline_ms
        self._taken = 0
        self._is_over = False
        self.acquired: list[Acquired] = []

    @property
    def is_full(self) -> bool:
        return self._is_over or self._taken >= self._wanted.max_records

    def take(self, first: int, batch: LogBatch) -> None:
        """Take of a batch, from an offset on, what is available."""
        window = self._partition.window
        is_first = True
        if first <= window.end_offset:
            for found in window.look(first, min(batch.last, window.end_offset)):
                if found.state is not State.AVAILABLE or self.is_full:
                    continue
                begin, end = max(first, found.first), min(batch.last, found.last)
                self._take_again(begin, end, found.count, batch, is_first=is_first)
                is_first = False
        if batch.last > window.end_offset and not self.is_full:
            self._take_new(window.end_offset + 1, batch.last, is_first=is_first)

    def _take_again(self, first: int, last: int, count: int, batch: LogBatch, *, is_first: bool) -> None:
        limits, window = self._limits, self._partition.window
        if count >= limits.halving_from:
            if self._taken:  # what may be bad goes with nothing else
                self._is_over = True
                return
            is_last_attempt = count >= limits.delivery_limit - 1
            size = (batch.last - batch.first + 1) >> (count - limits.halving_from + 1)
            last = min(last, first + (0 if is_last_attempt else max(size, 1) - 1))
            self._is_over = True
        last = self._within_limit(first, last)
        for span in window.carve(first, last):
            window.change(
                span,
                State.ACQUIRED,
                count=count + 1,
                member=self._wanted.member,
                deadline_ms=self._deadline_ms,
            )
        window.tidy(first, last)
        self._add(Acquired(first, last, count + 1), is_first=is_first)

    def _take_new(self, first: int, last: int, *, is_first: bool) -> None:
        window = self._partition.window
        if not self._partition.has_room(self._limits):
            self._is_over = True
            return
        last = self._within_limit(first, last)
        window.append(Span(first, last, State.ACQUIRED, 1, self._wanted.member, self._deadline_ms))
        self._add(Acquired(first, last, 1), is_first=is_first)

    def _within_limit(self, first: int, last: int) -> int:
        if not self._wanted.is_strict:
            return last
        return min(last, first + self._wanted.max_records - self._taken - 1)

    def _add(self, taken: Acquired, *, is_first: bool) -> None:
        """Add what was taken to the range before it, unless that is large enough and a batch begins here."""
        self._taken += taken.last - taken.first + 1
        before = self.acquired[-1] if self.acquired else None
        if before is None or before.last + 1 != taken.first or before.delivery_count != taken.delivery_count:
            self.acquired.append(taken)
            return
        is_large = 0 < self._wanted.batch_size <= before.last - before.first + 1
        if is_first and is_large:
            self.acquired.append(taken)
        else:
            self.acquired[-1] = before._replace(last=taken.last)


def _target(kind: AckType, count: int, limits: ShareLimits) -> tuple[Persisted, Cause | None]:
    """What becomes of a record of which a member says this; and why, if it gets a dead letter."""
    if kind is AckType.RELEASE and count < limits.delivery_limit:
        return Persisted.AVAILABLE, None
    if kind in (AckType.RELEASE, AckType.REJECT) and limits.has_letters:
        return Persisted.ARCHIVING, Cause.REJECTED if kind is AckType.REJECT else Cause.LIMIT
    return _FINAL[kind], None


def _runs(ack: AckBatch) -> list[tuple[AckType, int, int]]:
    """The ranges of one acknowledgement that say the same."""
    if len(ack.types) == 1:
        return [(ack.types[0], ack.first, ack.last)]
    runs, at = [], ack.first
    for kind, same in groupby(ack.types):
        size = sum(1 for _ in same)
        runs.append((kind, at, at + size - 1))
        at += size
    return runs
