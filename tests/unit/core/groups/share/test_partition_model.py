"""A share partition against a model that keeps every offset by itself."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.core.errors import InvalidRecordState
from barnabas.core.groups.backoff import Backoff
from barnabas.core.groups.settings import ShareLimits
from barnabas.core.groups.share.acknowledging import AckBatch, AckType
from barnabas.core.groups.share.partition import LogBatch, SharePartition, StateBatch, StateWrite, Wanted
from barnabas.core.groups.share.window import Persisted, State
from barnabas.core.records.dead_letters import Cause

PLAIN = ShareLimits(lock_duration_ms=100, delivery_limit=4, max_locks=40)
CAREFUL = PLAIN._replace(backoff=Backoff(40, 100), max_waiting=20, has_letters=True)
LOADED = {Persisted.AVAILABLE: "available", Persisted.ARCHIVING: "archiving"}
MEMBERS = st.sampled_from(["a", "b", "c"])


@dataclass
class Kept:
    """One offset."""

    state: str = "available"
    count: int = 0
    member: str = ""
    deadline_ms: int = 0
    target: Persisted = Persisted.AVAILABLE
    write: int = 0
    cause: Cause | None = None


@dataclass
class Coordinator:
    """What was written."""

    start_offset: int = 0
    states: dict[int, tuple[Persisted, int]] = field(default_factory=dict)


class ShareMachine(RuleBasedStateMachine):
    """Fetches, acknowledgements, time, writes that fail, another leader."""

    limits = PLAIN

    def __init__(self) -> None:
        super().__init__()
        self.partition = SharePartition(0)
        self.kept: dict[int, Kept] = {}
        self.start = 0
        self.now_ms = 1000
        self.log: list[LogBatch] = []
        self.log_end = 0
        self.writing: StateWrite | None = None
        self.written = Coordinator()
        self.deliveries: dict[int, int] = {}
        self.failovers = 0

    # The log

    @rule(size=st.integers(1, 8), gap=st.sampled_from([0, 0, 0, 2]), is_delivered=st.sampled_from([True, True, False]))
    def append(self, size: int, gap: int, is_delivered: bool) -> None:
        first = self.log_end + gap
        self.log.append(LogBatch(first, first + size - 1, is_delivered))
        self.log_end = first + size

    @rule(part=st.integers(0, 6))
    def delete_records(self, part: int) -> None:
        offset = min(self.start + part, self.log_end)
        self.partition.follow_log_start(offset)
        for at in [at for at in self.kept if at < offset]:
            del self.kept[at]
        self.start = max(self.start, offset)
        self._advance()

    # Members

    @rule(
        member=MEMBERS,
        most=st.integers(1, 12),
        size=st.integers(0, 6),
        is_strict=st.booleans(),
        batches=st.integers(1, 4),
    )
    def fetch(self, member: str, most: int, size: int, is_strict: bool, batches: int) -> None:
        if not self.partition.can_acquire(self.limits):
            waiting = sum(each.state == "waiting" for each in self.kept.values())
            held = sum(each.state not in ("finished", "waiting") for each in self.kept.values())
            assert held >= self.limits.max_locks or waiting >= self.limits.max_waiting
            return
        at = self.partition.next_fetch_offset()
        assert all(each.state != "available" for offset, each in self.kept.items() if offset < at)
        read = [each for each in self.log if each.last >= at][:batches]
        found = self.partition.acquire(
            Wanted(member, most, size, is_strict), at, read, limits=self.limits, now_ms=self.now_ms
        )
        taken = [(offset, each.delivery_count) for each in found for offset in range(each.first, each.last + 1)]
        in_log = {offset for each in read if each.is_delivered for offset in range(each.first, each.last + 1)}
        for offset, count in taken:
            each = self.kept.setdefault(offset, Kept())
            assert offset in in_log, f"{offset} is not a record"
            assert each.state == "available", f"{offset} is {each.state}"
            assert count == each.count + 1
            each.state, each.count, each.member = "acquired", count, member
            each.deadline_ms = self.now_ms + self.limits.lock_duration_ms
            self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
        if any(count == self.limits.delivery_limit for _, count in taken):
            assert len(taken) == 1
        if is_strict:
            assert len(taken) <= most
        for offset in range(self.start, self.partition.end_offset + 1):
            span = self._span(offset)
            is_open = offset not in self.kept or self.kept[offset].state in ("available", "waiting")
            if span == State.FINISHED and is_open:
                assert offset not in in_log
                self.kept[offset] = Kept("finished")
            self.kept.setdefault(offset, Kept())
        for offset in range(self.start, self.partition.start_offset):  # passed over, and dropped at once
            if self.kept.get(offset, Kept()).state != "finished":
                assert offset not in in_log
                self.kept[offset] = Kept("finished")
        self._advance()

    def _span(self, offset: int) -> State:
        spans = self.partition.window.look(offset, offset)
        return spans[0].state if spans and offset >= self.partition.start_offset else State.FINISHED

    @rule(data=st.data(), member=MEMBERS, kind=st.sampled_from(list(AckType)))
    def acknowledge(self, data: Any, member: str, kind: AckType) -> None:
        if not self.kept:
            return
        first = data.draw(st.integers(max(0, self.start - 2), max(self.kept) + 1))
        last = first + data.draw(st.integers(0, 6))
        is_each = data.draw(st.booleans())
        types = (
            (kind,)
            if not is_each
            else tuple(data.draw(st.sampled_from(list(AckType))) for _ in range(last - first + 1))
        )
        ack = AckBatch(first, last, types)
        offsets = range(max(first, self.start), last + 1)
        is_right = all(
            offset in self.kept
            and self.kept[offset].state == "acquired"
            and self.kept[offset].member == member
            and self.kept[offset].deadline_ms > self.now_ms
            for offset in offsets
        )
        try:
            number = self.partition.acknowledge(member, [ack], limits=self.limits, now_ms=self.now_ms)
        except InvalidRecordState:
            assert not is_right
            return
        assert is_right
        for offset in offsets:
            each, said = self.kept[offset], types[0] if len(types) == 1 else types[offset - first]
            if said is AckType.RENEW:
                each.deadline_ms = self.now_ms + self.limits.lock_duration_ms
                continue
            assert number is not None
            each.state, each.write = "settling", number
            is_lettered = self.limits.has_letters and said in (AckType.RELEASE, AckType.REJECT)
            if said is AckType.RELEASE and each.count < self.limits.delivery_limit:
                each.target = Persisted.AVAILABLE
            elif is_lettered:
                each.target = Persisted.ARCHIVING
                each.cause = Cause.LIMIT if said is AckType.RELEASE else Cause.REJECTED
            else:
                each.target = Persisted.ACKNOWLEDGED if said is AckType.ACCEPT else Persisted.ARCHIVED

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self.partition.release(member, limits=self.limits, now_ms=self.now_ms)
        for offset, each in self.kept.items():
            if each.state == "acquired" and each.member == member:
                self._give_back(offset, each)
        self._advance()

    @rule(passed_ms=st.sampled_from([10, 60, 150]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.partition.expire(limits=self.limits, now_ms=self.now_ms)
        for offset, each in self.kept.items():
            if each.state == "waiting" and each.deadline_ms <= self.now_ms:
                each.state = "available"
            elif each.state == "acquired" and each.deadline_ms <= self.now_ms:
                self._give_back(offset, each)
        self._advance()

    def _give_back(self, offset: int, each: Kept) -> None:
        if each.count < self.limits.delivery_limit:
            self._come_back(offset, each)
        elif self.limits.has_letters:
            each.state, each.cause = "archiving", Cause.LIMIT
        else:
            each.state = "finished"

    def _come_back(self, offset: int, each: Kept) -> None:
        """It can be delivered again, at once or when it has waited."""
        each.state = "available"
        if not self.limits.backoff.is_on:
            return
        (span,) = self.partition.window.look(offset, offset)
        whole = min(self.limits.backoff.first_ms << (each.count - 1), self.limits.backoff.most_ms)
        assert whole * 0.8 - 1 <= span.deadline_ms - self.now_ms <= whole
        each.state, each.deadline_ms = "waiting", span.deadline_ms

    # Dead letters

    @rule(most=st.integers(1, 5), is_written=st.booleans())
    def write_letters(self, most: int, is_written: bool) -> None:
        wanted = self.partition.next_letters(limits=self.limits, max_records=most)
        left = sorted(offset for offset, each in self.kept.items() if each.state == "archiving")
        if wanted is None:
            assert left == [] or self.writing is not None or self.partition.must_write
            return
        assert wanted.first in left
        for offset in range(wanted.first, wanted.last + 1):
            assert self.kept[offset].state == "archiving"
            assert self.written.states[offset][0] is Persisted.ARCHIVING  # whoever leads next does not deliver it
            assert self.kept[offset].count == wanted.delivery_count
            assert self.kept[offset].cause in (wanted.cause, None)
        if is_written:
            self.partition.end_letters(wanted.first, wanted.last)
            for offset in range(wanted.first, wanted.last + 1):
                self.kept[offset].state = "finished"
        self._advance()

    # Writing

    @precondition(lambda self: self.writing is None and self.partition.must_write)
    @rule()
    def begin_write(self) -> None:
        self.writing = self.partition.begin_write()

    @precondition(lambda self: self.writing is not None)
    @rule(is_written=st.booleans())
    def end_write(self, is_written: bool) -> None:
        write, self.writing = self.writing, None
        assert write is not None
        if is_written:
            self.written.start_offset = max(self.written.start_offset, write.start_offset)
            for batch in write.batches:
                for offset in range(batch.first, batch.last + 1):
                    self.written.states[offset] = (batch.state, batch.delivery_count)
        self.partition.end_write(write.number, is_written=is_written, limits=self.limits, now_ms=self.now_ms)
        for offset, each in self.kept.items():
            if each.state == "settling" and each.write == write.number:
                if is_written and each.target is Persisted.AVAILABLE:
                    self._come_back(offset, each)
                elif is_written:
                    each.state = "archiving" if each.target is Persisted.ARCHIVING else "finished"
                elif each.deadline_ms > self.now_ms:
                    each.state = "acquired"
                else:
                    self._give_back(offset, each)
        if is_written:
            done = sum(
                state.is_done for offset, (state, _) in self.written.states.items() if offset >= write.start_offset
            )
            assert done <= write.complete_count <= done + sum(each.state == "finished" for each in self.kept.values())
        self._advance()

    @rule()
    def fail_over(self) -> None:
        """Another leader loads what was written: nothing that was acknowledged comes back."""
        done = {offset for offset, (state, _) in self.written.states.items() if state.is_done}
        batches = [
            StateBatch(offset, offset, state, count)
            for offset, (state, count) in self.written.states.items()
            if offset >= self.written.start_offset
        ]
        self.partition = SharePartition(self.written.start_offset, batches)
        self.partition.wait_anew(limits=self.limits, now_ms=self.now_ms)
        self.writing = None
        self.failovers += 1
        kept: dict[int, Kept] = {}
        for offset in range(self.written.start_offset, self.partition.end_offset + 1):
            state, count = self.written.states.get(offset, (Persisted.AVAILABLE, 0))
            kept[offset] = Kept(LOADED.get(state, "finished"), count)
            if state is Persisted.AVAILABLE and count:
                self._come_back(offset, kept[offset])
        self.kept = kept
        self.start = self.written.start_offset
        self._advance()
        assert all(self.kept[offset].state == "finished" for offset in done if offset in self.kept)

    def _advance(self) -> None:
        while self.start in self.kept and self.kept[self.start].state == "finished":
            del self.kept[self.start]
            self.start += 1

    @invariant()
    def agrees(self) -> None:
        window = self.partition.window
        assert self.partition.start_offset == self.start
        at = window.start_offset
        for span in window:
            assert span.first == at
            at = span.last + 1
            for offset in range(span.first, span.last + 1):
                each = self.kept[offset]
                assert each.state == span.state.name.lower(), (offset, each, span)
                if span.state is not State.FINISHED:
                    assert each.count == span.count, (offset, each, span)
        assert at == window.end_offset + 1
        assert window.finished == sum(each.state == "finished" for each in self.kept.values())
        assert window.acquired == sum(each.state == "acquired" for each in self.kept.values())
        assert window.waiting == sum(each.state == "waiting" for each in self.kept.values())
        assert window.archiving == sum(each.state == "archiving" for each in self.kept.values())
        assert all(left.is_like(right) is False for left, right in zip(list(window), list(window)[1:], strict=False))

    @invariant()
    def delivers_within_the_limit(self) -> None:
        most = self.limits.delivery_limit * (self.failovers + 1)
        assert all(count <= most for count in self.deliveries.values())


class CarefulMachine(ShareMachine):
    """The same in a group with backoff and dead letters."""

    limits = CAREFUL


CarefulMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestCarefulMachine = CarefulMachine.TestCase
ShareMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestShareMachine = ShareMachine.TestCase
