"""Drives what one partition of a log of decisions says: decide, append, apply, and answer once it is durable.

Owns the timers, and the requests that wait for an answer. What is decided about belongs to the kinds of coordinators:
`group_coordinator` and `transaction_coordinator`. `core.coordination` has the contract: one decision at a time, answers
only when everything that was in the log is durable, reads too, timers on the loop's clock. Loading replays the log;
until that is done everybody is told to try again. When the log fails, what is in memory may be ahead of what is on
disk, so nothing more is said.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Sequence
from typing import ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from barnabas.core.coordination import Reply, SetTimer, TimerChange, Token, Within
from barnabas.core.errors import (
    BarnabasError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptLog,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotCoordinator,
    RecordTooLarge,
    StorageExhausted,
)
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from barnabas.core.records.control import MarkerType
from barnabas.core.records.record import Header, Record, encode_batch
from barnabas.runtime.clock import Clock
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Partition
from barnabas.runtime.replay import BeyondTheEnd, Piece, reading
from barnabas.runtime.rewriting import forget_old, rewrite_old
from barnabas.storage.log import Log
from barnabas.storage.readable_segment import SegmentGone

log = get_logger("barnabas.coordinator")

RETRY_MS: Final = 1000  # after which a timer fires again whose decision could not be written

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class DecisionLike(Protocol[E_co, T_co]):
    """What was decided on one request."""

    @property
    def records(self) -> Sequence[E_co]: ...
    @property
    def reply(self) -> T_co: ...
    @property
    def timers(self) -> Sequence[TimerChange]: ...


class OutcomeLike(Protocol[E_co]):
    """What was decided, with answers to any number of requests."""

    @property
    def records(self) -> Sequence[E_co]: ...
    @property
    def replies(self) -> Sequence[Reply]: ...
    @property
    def timers(self) -> Sequence[TimerChange]: ...


class Plain(NamedTuple, Generic[E]):
    """An outcome of no kind in particular."""

    records: Sequence[E] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[TimerChange] = ()


class Coordinator(ABC, Generic[E]):
    """What one partition of a log of decisions says, led here."""

    WHAT: ClassVar[str]  # is coordinated, in the words of messages

    def __init__(self, partition: Partition, *, offload: Offload, clock: Clock) -> None:
        self.partition = partition
        self._offload = offload
        self._clock = clock
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._firing: Hashable | None = None  # the timer that is being seen to
        self._waiting: dict[asyncio.Future[object], None] = {}
        self._is_replayed = self._is_loaded = False
        self.has_old = False  # records of an earlier format; see `rewriting`
        self.old_keys: dict[bytes, None] = {}  # those that have something under them
        self._end: BarnabasError | None = None  # why it coordinates no more

    # What a kind of coordinator says of its entries

    @abstractmethod
    def encode(self, entry: E) -> tuple[bytes, bytes | None]:
        """Key and value of an entry as they are in the log."""

    @abstractmethod
    def decode(self, key: bytes, value: bytes | None) -> E:
        """The entry that a record of the log is. Runs on a thread."""

    @abstractmethod
    def is_old(self, key: bytes) -> bool:
        """Whether a key, and what is under it, is of an earlier format. Runs on a thread."""

    @abstractmethod
    def old_key(self, entry: E) -> bytes:
        """The key that an entry has in the earlier format."""

    @abstractmethod
    def find_under(self, old_key: bytes) -> E | None:
        """What is known now under a key of the earlier format."""

    def implied_by_old(self) -> Sequence[E]:
        """What follows from records of the earlier format without being said in any, and would be now."""
        return ()

    def pending_under(self, old_keys: Container[bytes]) -> Sequence[tuple[int, E]]:  # noqa: ARG002
        """What transactions are about to commit under such keys: producer ids and entries, in the order of the log."""
        return ()

    @abstractmethod
    def apply(self, entry: E) -> None:
        """Take one entry."""

    def restore(self, entry: E) -> None:
        """Take one entry again that was rewritten: what came after it in the first place stays as it is."""
        self.apply(entry)

    def apply_within(self, producer_id: int, entry: E) -> None:
        """Take one entry that counts once the producer's transaction is committed."""
        raise NotImplementedError

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker that ends a producer's transaction was appended."""

    @abstractmethod
    def after_load(self) -> Sequence[TimerChange]:
        """The log is replayed: the timers that follow from it."""

    @abstractmethod
    def on_timer(self, key: Hashable) -> None:
        """A timer has fired."""

    def give_up(self, records: Sequence[E], error: BarnabasError) -> OutcomeLike[E]:  # noqa: ARG002
        """These cannot be written: what else waits for them, and is told so."""
        return Plain()

    # Loading and ending

    async def load(self) -> None:
        """Replay the log. Requests are refused meanwhile, and for good if it cannot be read."""
        try:
            source = self.partition.find_log()
            if source is not None:  # else it has no files, so nothing was ever written
                await self._replay(source)
        except BarnabasError as error:
            self._give_up_loading(error)
        self._is_replayed = self._end is None
        try:
            if self._is_replayed:
                await rewrite_old(self)
        except BarnabasError as error:
            self._fail(error)
        if self._end is None:
            self._is_loaded = True
            self._change_timers(self.after_load())

    def _give_up_loading(self, error: BarnabasError) -> None:
        name = self.partition.name
        advice = ""
        if not isinstance(error, CorruptLog):  # which says what to do
            advice = (
                f". Stop the node and restore the directory {name} from a backup, or give up what cannot be read with: "
                f"barnabas topic repair {name.topic} --data-dir {self.partition.data_dir_path}"
            )
        log.error(
            "the %s of %s cannot be loaded, and whoever asks for them is told that their coordinator is not available: "
            "%s%s",
            *(self.WHAT, name, error, advice),
        )
        self.close(CoordinatorNotAvailable(f"the {self.WHAT} of {name} cannot be loaded: {error}"))

    async def _replay(self, source: Log) -> None:
        offset = source.log_start_offset
        while self._end is None and (plan := source.begin_read(offset)) is not None:
            try:
                pieces, next_offset = await self._offload.run(reading(plan, self))
            except SegmentGone:
                continue  # replaced meanwhile by compaction: plan anew
            except BeyondTheEnd:
                if source.end_offset > plan.bound:
                    continue  # appended meanwhile, a marker most likely
                raise
            if next_offset is None:
                break
            for piece in pieces:
                self._take(piece)
            offset = next_offset

    def _take(self, piece: Piece[E]) -> None:
        if piece.old_keys:
            self.has_old = True
        for key, is_there in piece.old_keys.items():
            if is_there:
                self.old_keys[key] = None
            else:
                self.old_keys.pop(key, None)
        if piece.transaction is None:
            take = self.restore if piece.is_rewritten else self.apply
            for entry in piece.entries:
                take(entry)
        elif piece.marker is None:
            for entry in piece.entries:
                self.apply_within(piece.transaction, entry)
        else:
            self.end_transaction(piece.transaction, is_commit=piece.marker is MarkerType.COMMIT)

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
    def is_ended(self) -> bool:
        return self._end is not None

    @property
    def is_following(self) -> bool:
        """Whether it has read its log to the end: from then on it is told what else is appended there."""
        return self._is_replayed and self._end is None

    @property
    def is_available(self) -> bool:
        return self._is_loaded and self._end is None

    def check_not_ended(self) -> None:
        """Refuse once it coordinates no more; while it loads it may be asked for."""
        if self._end is not None:
            raise CoordinatorNotAvailable(str(self._end))

    def check_available(self) -> None:
        """Refuse while nothing certain can be said."""
        if self._end is not None:
            raise type(self._end)(*self._end.args)
        if not self._is_loaded:
            raise CoordinatorLoadInProgress(f"the {self.WHAT} of {self.partition.name} are being loaded; try again")

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
            del future  # which has the refusal, whose traceback has this frame

    async def commit(self, decide: Callable[[], DecisionLike[E, T]], *, within: Within | None = None) -> T:
        """Decide, and give the reply once everything it speaks of is durable. A refusal passes through."""

        def put(token: Token) -> None:
            decision = decide()
            self.carry_out(Plain(decision.records, [Reply(token, decision.reply)], decision.timers), within=within)

        return cast("T", await self.ask(put))

    async def read(self, look: Callable[[], T]) -> T:
        """What there is to see, given once it is durable: else a crash could take it back."""

        def put(token: Token) -> None:
            self._answer_when_durable([Reply(token, look())])

        return cast("T", await self.ask(put))

    def carry_out(self, outcome: OutcomeLike[E], *, within: Within | None = None) -> bool:
        """Append and apply what was decided, and see to the timers and the answers; tells whether it was written."""
        if outcome.records:
            try:
                self._append(outcome.records, within)
            except BarnabasError as refusal:
                self._refuse(outcome, refusal)
                return False
            for record in outcome.records:
                if within is None:
                    self.apply(record)
                else:
                    self.apply_within(within.producer_id, record)
        self._change_timers(outcome.timers)
        if outcome.records or outcome.replies:  # of a failure of the disk even what nobody waits for must be heard
            self._answer_when_durable(outcome.replies)
        return True

    def _append(self, entries: Sequence[E], within: Within | None) -> None:
        pairs = list(map(self.encode, entries))
        self.append_pairs(pairs, within)
        if self.old_keys and within is None:
            forget_old(self, entries)

    def append_pairs(
        self, pairs: Sequence[tuple[bytes, bytes | None]], within: Within | None, headers: tuple[Header, ...] = ()
    ) -> None:
        """Append keys and values as one batch."""
        now_ms = self._clock.now_ms()
        batch = encode_batch(
            [
                Record(offset=number, timestamp=now_ms, key=key, value=value, headers=headers)
                for number, (key, value) in enumerate(pairs)
            ],
            producer_id=NO_PRODUCER_ID if within is None else within.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if within is None else within.epoch,
            base_sequence=NO_SEQUENCE,
            is_transactional=within is not None,
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

    def _refuse(self, outcome: OutcomeLike[E], refusal: BarnabasError) -> None:
        """The log took nothing: what this decision said holds for nobody, nor what others wait for because of it."""
        if isinstance(refusal, InvalidProducerEpoch | InvalidTxnState):  # of the transaction that it was to be in
            _answer([Reply(token, refusal) for token, _ in outcome.replies])
            return
        if isinstance(refusal, StorageExhausted):
            self._refuse_for_now(outcome, refusal)
            return
        if not isinstance(refusal, RecordTooLarge):
            self._fail(refusal)
            return
        log.error("%s: a decision about %s is too large to be written: %s", self.partition.name, self.WHAT, refusal)
        self._give_up(outcome, BarnabasError(f"what was decided is too large to be written: {refusal}"))

    def _refuse_for_now(self, outcome: OutcomeLike[E], refusal: StorageExhausted) -> None:
        """There is no room, or no descriptor, to write this: clients ask again, and a timer fires again."""
        self._give_up(outcome, CoordinatorNotAvailable(f"the {self.WHAT} cannot be written at the moment: {refusal}"))
        if self._firing is not None:
            self._change_timers([SetTimer(self._firing, RETRY_MS)])

    def _give_up(self, outcome: OutcomeLike[E], error: BarnabasError) -> None:
        _answer([Reply(token, error) for token, _ in outcome.replies])
        given_up = self.give_up(outcome.records, error)
        self._change_timers(given_up.timers)
        _answer(given_up.replies)

    def _fail(self, error: BarnabasError) -> None:
        if self._end is None:
            log.error("the %s of %s cannot be written: %s", self.WHAT, self.partition.name, error)
            self.close(NotCoordinator(f"the {self.WHAT} of {self.partition.name} cannot be written: {error}"))

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

    def _fire(self, key: Hashable) -> None:
        self._timers.pop(key, None)
        if self._end is None:
            self._firing = key
            try:
                self.on_timer(key)
            finally:
                self._firing = None


def _answer(replies: Sequence[Reply]) -> None:
    for token, answer in replies:
        assert isinstance(token, asyncio.Future)
        if token.done():
            continue  # the client is gone, or it was answered when the coordinator ended
        if isinstance(answer, BarnabasError):
            token.set_exception(answer.with_traceback(None))
        else:
            token.set_result(answer)
