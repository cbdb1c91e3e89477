"""Drives the groups of one partition of the coordinator log: decide, append, apply, and answer once it is durable.

Owns the groups while this node leads the partition, the timers of their members, and the requests that wait for an
answer. `core.groups.decision` has the contract: one decision at a time, answers only when everything that was in the
log is durable, reads too, timers on the loop's clock. Loading replays the log; until that is done everybody is told to
try again. When the log fails, what is in memory may be ahead of what is on disk, so nothing more is said.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast

from barnabas.core.errors import (
    BarnabasError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    RecordTooLarge,
)
from barnabas.core.groups import classic
from barnabas.core.groups.classic_state import ClassicSoft
from barnabas.core.groups.decision import Decision, Outcome, Reply, SetTimer, TimerChange, TimerKey, Token
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.records import GroupEntry, decode, encode_key, encode_value
from barnabas.core.records.batch import iter_whole_batches
from barnabas.core.records.record import Record, decode_records, encode_batch
from barnabas.runtime.clock import Clock
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition
from barnabas.storage.reading import ReadPlan
from barnabas.storage.segment import SegmentGone

log = logging.getLogger("barnabas.coordinator")

T = TypeVar("T")
OnTimer = Callable[["Coordinator", TimerKey], None]
AfterLoad = Callable[["Coordinator"], Sequence[TimerChange]]

# Of the log, at a time, while loading: what is read is applied on the loop, which others want too.
READ_BYTES: Final = 512 * 1024


class Coordinator:
    """The groups of one partition of the coordinator log, led here."""

    def __init__(
        self,
        partition: Partition,
        *,
        soft: ClassicSoft,
        offload: Offload,
        clock: Clock,
        on_timer: OnTimer,
        after_load: AfterLoad,
    ) -> None:
        self.groups = Groups()
        self.soft = soft
        self.partition = partition
        self._offload = offload
        self._clock = clock
        self._on_timer = on_timer
        self._after_load = after_load
        self._timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self._waiting: dict[asyncio.Future[object], None] = {}
        self._is_loaded = False
        self._end: BarnabasError | None = None  # why it coordinates no more

    # Loading and ending

    async def load(self) -> None:
        """Replay the log. Requests are refused meanwhile, and for good if it cannot be read."""
        try:
            if self.partition.has_log:  # else it has no files, so nothing was ever written
                await self._replay()
        except BarnabasError as error:
            log.error("the groups of %s cannot be loaded: %s", self.partition.name, error)
            self.close(CoordinatorNotAvailable(f"the groups of {self.partition.name} cannot be loaded: {error}"))
        if self._end is None:
            self._is_loaded = True
            self._change_timers(self._after_load(self))

    async def _replay(self) -> None:
        offset = self.partition.log.log_start_offset
        while self._end is None and (plan := self.partition.log.begin_read(offset)) is not None:
            try:
                entries, next_offset = await self._offload.run(_reading(plan))
            except SegmentGone:
                continue  # replaced meanwhile by compaction: plan anew
            if next_offset is None:
                break
            for entry in entries:
                self.groups.apply(entry)
            offset = next_offset

    def close(self, reason: BarnabasError | None = None) -> None:
        """Coordinate no more: timers stop, and whoever waits is told to look for the coordinator anew."""
        if self._end is not None:
            return
        self._end = reason or NotCoordinator(f"{self.partition.name} is not led here any more")
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        _answer([Reply(future, self._end) for future in self._waiting])

    @property
    def is_available(self) -> bool:
        return self._is_loaded and self._end is None

    def check_available(self) -> None:
        """Refuse while nothing certain can be said."""
        if self._end is not None:
            raise type(self._end)(*self._end.args)
        if not self._is_loaded:
            raise CoordinatorLoadInProgress(f"the groups of {self.partition.name} are being loaded; try again")

    # Deciding

    async def ask(self, put: Callable[[Token], None]) -> object:
        """Put a request, and wait for its answer, which another decision may give. A refusal is raised.

        Whoever asks may go away while it waits: then nobody hears the answer, and the member's session ends in time.
        """
        self.check_available()
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        try:
            put(future)
            return await future
        finally:
            del self._waiting[future]

    async def commit(self, decide: Callable[[], Decision[T]]) -> T:
        """Decide, and give the reply once everything it speaks of is durable. A refusal passes through."""

        def put(token: Token) -> None:
            decision = decide()
            self.carry_out(Outcome(decision.records, [Reply(token, decision.reply)], decision.timers))

        return cast("T", await self.ask(put))

    async def read(self, look: Callable[[], T]) -> T:
        """What there is to see of the groups, given once it is durable: else a crash could take it back."""
        return await self.commit(lambda: Decision((), look()))

    def carry_out(self, outcome: Outcome) -> bool:
        """Append and apply what was decided, and see to the timers and the answers; tells whether it was written."""
        if outcome.records:
            try:
                self._append(outcome.records)
            except BarnabasError as refusal:
                self._refuse(outcome, refusal)
                return False
            for record in outcome.records:
                self.groups.apply(record)
        self._change_timers(outcome.timers)
        if outcome.records or outcome.replies:  # of a failure of the disk even what nobody waits for must be heard
            self._answer_when_durable(outcome.replies)
        return True

    def _append(self, records: Sequence[GroupEntry]) -> None:
        now_ms = self._clock.now_ms()
        batch = encode_batch(
            [
                Record(offset=number, timestamp=now_ms, key=encode_key(entry), value=encode_value(entry))
                for number, entry in enumerate(records)
            ]
        )
        self.partition.append(batch, now_ms=now_ms)

    def _answer_when_durable(self, replies: Sequence[Reply]) -> None:
        partition = self.partition
        if not partition.has_log or partition.high_watermark >= partition.end_offset:
            _answer(replies)
        else:
            partition.call_when_acked(partition.end_offset, lambda error: self._answer_acked(replies, error))

    def _answer_acked(self, replies: Sequence[Reply], error: BarnabasError | None) -> None:
        if error is not None:
            self._fail(error)
        _answer(replies)  # after a failure they have been answered, all of them

    def _refuse(self, outcome: Outcome, refusal: BarnabasError) -> None:
        """The log took nothing: what this decision said holds for nobody, nor what its groups wait for."""
        if not isinstance(refusal, RecordTooLarge):
            self._fail(refusal)
            return
        log.error("%s: a decision about groups is too large to be written: %s", self.partition.name, refusal)
        error = BarnabasError(f"the group is too large to be written: {refusal}")
        _answer([Reply(token, error) for token, _ in outcome.replies])
        for group in dict.fromkeys(record.group for record in outcome.records):
            reset = classic.reset(self.groups, self.soft, group, error)
            self._change_timers(reset.timers)
            _answer(reset.replies)

    def _fail(self, error: BarnabasError) -> None:
        if self._end is None:
            log.error("the groups of %s cannot be written: %s", self.partition.name, error)
            self.close(NotCoordinator(f"the groups of {self.partition.name} cannot be written: {error}"))

    # Timers

    def _change_timers(self, changes: Sequence[TimerChange]) -> None:
        if not changes:
            return
        loop = asyncio.get_running_loop()
        for change in changes:
            timer = self._timers.pop(change.key, None)
            if timer is not None:
                timer.cancel()
            if isinstance(change, SetTimer):
                self._timers[change.key] = loop.call_later(change.delay_ms / 1000, self._fire, change.key)

    def _fire(self, key: TimerKey) -> None:
        self._timers.pop(key, None)
        if self._end is None:
            self._on_timer(self, key)


def _answer(replies: Sequence[Reply]) -> None:
    for token, answer in replies:
        assert isinstance(token, asyncio.Future)
        if token.done():
            continue  # the client is gone, or it was answered when the coordinator ended
        if isinstance(answer, BarnabasError):
            token.set_exception(answer)
        else:
            token.set_result(answer)


def _reading(plan: ReadPlan) -> Callable[[], tuple[list[GroupEntry], int | None]]:
    """Read and decode the next piece of the log: its entries, and the offset after them; None when nothing is left."""

    def read() -> tuple[list[GroupEntry], int | None]:
        located = plan.locate(READ_BYTES)
        if located is None:
            return [], None
        entries: list[GroupEntry] = []
        next_offset: int | None = None
        data = located.read()
        for position, header in iter_whole_batches(data):
            next_offset = header.next_offset
            if header.is_control:
                continue
            entries += [
                decode(record.key, record.value)
                for record in decode_records(data, position, header)
                if record.key is not None and record.offset >= plan.offset
            ]
        return entries, next_offset

    return read
