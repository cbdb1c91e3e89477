"""Runs the coordinator of one partition of an internal topic: decide, append, apply, and answer once it is durable.

Owns the timers, and the requests that wait for an answer. The state belongs to the kinds of coordinators:
`group_coordinator` and `transaction_coordinator`. `core.coordination` has the contract: one decision at a time, answers
only when everything that was in the log is durable, reads too, timers on the loop's clock. Loading replays the log;
until that is done requests are refused with a retriable error. When the log fails, the state in memory may be ahead of
the disk, so nothing more is answered. Nor is anything while this node has no lease (decision 23): somebody else may
lead, and this node not know it yet.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from barnabas.core.coordination import Decision, Outcome, Reply, SetTimer, TimerChange, Token, Within
from barnabas.core.errors import (
    BarnabasError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptLog,
    CutOff,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotCoordinator,
    NotEnoughReplicas,
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
T = TypeVar("T")


class Coordinator(ABC, Generic[E]):
    """The coordinator of one partition of an internal topic that this node leads."""

    WHAT: ClassVar[str]  # is coordinated, in the words of messages

    def __init__(self, partition: Partition, *, offload: Offload, clock: Clock) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        """Under which it coordinates. Under another one it is replaced: what was decided in this one may be gone."""
        self._offload = offload
        self._clock = clock
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._firing: Hashable | None = None  # the timer that is being seen to
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._own: set[object] = set()  # those of them that no client waits for
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
        """The entry that a record of the log stands for. Runs on a thread."""

    @abstractmethod
    def is_old(self, key: bytes) -> bool:
        """Whether a key and its value are of an earlier format. Runs on a thread."""

    @abstractmethod
    def old_key(self, entry: E) -> bytes:
        """The key that an entry has in the earlier format."""

    @abstractmethod
    def find_under(self, old_key: bytes) -> E | None:
        """The current entries under a key of the earlier format."""

    def implied_by_old(self) -> Sequence[E]:
        """Entries that records of the earlier format imply, and that the current format writes."""
        return ()

    def pending_under(self, old_keys: Container[bytes]) -> Sequence[tuple[int, E]]:  # noqa: ARG002
        """Pending entries of transactions under such keys: producer ids and entries, in the order of the log."""
        return ()

    @abstractmethod
    def apply(self, entry: E) -> None:
        """Apply one entry."""

    def restore(self, entry: E) -> None:
        """Apply again an entry that was rewritten: entries that came after the original still count."""
        self.apply(entry)

    def apply_within(self, producer_id: int, entry: E) -> None:
        """Apply one entry that takes effect once the producer's transaction is committed."""
        raise NotImplementedError

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker that ends a producer's transaction was appended."""

    @abstractmethod
    def after_load(self) -> Sequence[TimerChange]:
        """The log is replayed: the timers that follow from it."""

    @abstractmethod
    def on_timer(self, key: Hashable) -> None:
        """A timer has fired."""

    def give_up(self, records: Sequence[E], error: BarnabasError) -> Outcome[E]:  # noqa: ARG002
        """These records cannot be written: the answers to requests that wait for them."""
        return Outcome()

    # Loading and ending

    async def load(self) -> None:
        """Replay the log. Requests are refused meanwhile, and permanently if it cannot be read."""
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
            "the %s of %s cannot be loaded; their coordinator is not available: %s%s",
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
        """Stop coordinating: timers stop, and waiting requests are told to look up the coordinator again."""
        if self._end is not None:
            return
        self._end = reason or NotCoordinator(f"{self.partition.name} is no longer led by this node")
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        _answer([Reply(future, self._end) for future in self._waiting])

    @property
    def is_current(self) -> bool:
        """Whether this node still leads the partition, under the same leader epoch."""
        partition = self.partition
        return partition.is_led and partition.leader_epoch == self.leader_epoch and not partition.is_deleted

    @property
    def is_ended(self) -> bool:
        return self._end is not None

    @property
    def is_following(self) -> bool:
        """Whether it has read its log to the end: from then on it must be told of everything appended to it."""
        return self._is_replayed and self._end is None

    @property
    def is_available(self) -> bool:
        return self._is_loaded and self._end is None

    def check_not_ended(self) -> None:
        """Refuse once it has stopped coordinating, but not while it loads."""
        if self._end is not None:
            raise CoordinatorNotAvailable(str(self._end))

    def check_available(self) -> None:
        """Refuse while it loads, and once it has stopped or failed."""
        if self._end is not None:
            raise type(self._end)(*self._end.args)
        partition = self.partition  # asked for every request: `is_current`, without the call
        if not partition.is_led or partition.leader_epoch != self.leader_epoch or partition.is_deleted:
            raise NotCoordinator(f"{partition.name} is no longer led by this node")
        if not self._is_loaded:
            raise CoordinatorLoadInProgress(f"the {self.WHAT} of {self.partition.name} are being loaded; try again")

    # Deciding

    def check_leads(self) -> None:
        """Refuse while another node may lead, and this one not know it: before an answer, and after each await."""
        if not self.partition.may_answer:
            # NOT_COORDINATOR: clients look the coordinator up again, and come back if it is still this one.
            raise NotCoordinator(f"another node may lead {self.partition.name}: no controller has confirmed this one")

    async def ask(self, decide: Callable[[Token[T]], Outcome[E]]) -> T:
        """Decide on a request, and wait for its answer, which another decision may give. A refusal is raised.

        The caller may be cancelled while it waits: then the answer is dropped, and the member's session times out.
        """
        return await self._wait_answer(lambda token: self.carry_out(decide(token)))

    async def commit(
        self, decide: Callable[[], Decision[E, T]], *, within: Within | None = None, is_own: bool = False
    ) -> T:
        """Decide, and return the reply once everything it depends on is durable. A refusal passes through.

        `is_own`: nobody has asked for it, and nobody is answered, so it needs no lease; a log that another node leads
        takes nothing anyway.
        """

        def put(token: "Token[T]") -> None:  # quoted: it would be evaluated at every commit
            records, reply, timers = decide()
            self.carry_out(Outcome(records, [Reply(token, reply)], timers), within=within)

        return await self._wait_answer(put, is_own=is_own)

    async def read(self, look: Callable[[], T], *, is_own: bool = False) -> T:
        """Read the state, and return once it is durable: else a crash could undo it. `is_own`: see `commit`."""
        return await self._wait_answer(lambda token: self._answer_when_durable([Reply(token, look())]), is_own=is_own)

    async def _wait_answer(self, put: Callable[[Token[T]], object], *, is_own: bool = False) -> T:
        self.check_available()
        if not is_own:
            self.check_leads()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        if is_own:
            self._own.add(future)
        try:
            put(future)
            answer = await future
            if not is_own:
                self.check_leads()  # it may have stood still meanwhile
            return answer
        finally:
            del self._waiting[future]
            self._own.discard(future)
            del future  # which has the refusal, whose traceback has this frame

    def carry_out(self, outcome: Outcome[E], *, within: Within | None = None) -> bool:
        """Append and apply a decision, with its timers and answers; returns whether it was written."""
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
        """Append keys and values as one batch, under the leader epoch that it coordinates in and no other."""
        if not self.is_current:
            raise NotCoordinator(f"{self.partition.name} is no longer led by this node")
        if not self.partition.is_alone:
            self.partition.check_in_sync()
        now_ms = self._clock.now_ms()
        batch = encode_batch(
            [
                Record(offset=number, timestamp=now_ms, key=key, value=value, headers=headers)
                for number, (key, value) in enumerate(pairs)
            ],
            producer_id=NO_PRODUCER_ID if within is None else within.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if within is None else within.producer_epoch,
            base_sequence=NO_SEQUENCE,
            is_transactional=within is not None,
        )
        self.partition.append(batch, now_ms=now_ms)

    def _answer_when_durable(self, replies: Sequence[Reply[Any]]) -> None:
        partition = self.partition
        if not partition.has_log or partition.high_watermark >= partition.end_offset:
            _answer(replies)
        else:
            self._answer_at(partition.end_offset, replies)

    def _answer_at(self, end_offset: int, replies: Sequence[Reply[Any]]) -> None:
        self.partition.call_when_acked(end_offset, lambda error: self._answer_acked(end_offset, replies, error))

    def _answer_acked(self, end_offset: int, replies: Sequence[Reply[Any]], error: BarnabasError | None) -> None:
        if isinstance(error, CutOff):
            # Clients are to look elsewhere. But it may still lead: what it does of its own accord waits on.
            self._answer_at(end_offset, replies)
            replies = [Reply(token, NotCoordinator(str(error))) for token, _ in replies if token not in self._own]
        elif error is not None:
            self._fail(error)
        _answer(replies)  # after a failure they have been answered, all of them

    def _refuse(self, outcome: Outcome[E], refusal: BarnabasError) -> None:
        """The log refused the decision: fail its answers, and the requests that wait because of it."""
        if isinstance(refusal, InvalidProducerEpoch | InvalidTxnState):  # of the transaction that it was to be in
            _answer([Reply(token, refusal) for token, _ in outcome.replies])
            return
        if isinstance(refusal, StorageExhausted | NotEnoughReplicas | CutOff):
            self._refuse_for_now(outcome, refusal)
            return
        if not isinstance(refusal, RecordTooLarge):
            self._fail(refusal)
            return
        log.error("%s: a decision about %s is too large to be written: %s", self.partition.name, self.WHAT, refusal)
        self._give_up(outcome, BarnabasError(f"the decision is too large to be written: {refusal}"))

    def _refuse_for_now(self, outcome: Outcome[E], refusal: BarnabasError) -> None:
        """There is no space or no file descriptor to write this, or too few replicas: clients retry, and a timer fires
        again.
        """
        self._give_up(outcome, CoordinatorNotAvailable(f"the {self.WHAT} cannot be written at the moment: {refusal}"))
        if self._firing is not None:
            self._change_timers([SetTimer(self._firing, RETRY_MS)])

    def _give_up(self, outcome: Outcome[E], error: BarnabasError) -> None:
        _answer([Reply(token, error) for token, _ in outcome.replies])
        given_up = self.give_up(outcome.records, error)
        self._change_timers(given_up.timers)
        _answer(given_up.replies)

    def _fail(self, error: BarnabasError) -> None:
        if not self.is_current:
            self.close()  # not a failure: whoever leads now has what is committed
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


def _answer(replies: Sequence[Reply[Any]]) -> None:
    for token, answer in replies:
        assert isinstance(token, asyncio.Future)
        if token.done():
            continue  # the client is gone, or it was answered when the coordinator ended
        if isinstance(answer, BarnabasError):
            token.set_exception(answer.with_traceback(None))
        else:
            token.set_result(answer)
