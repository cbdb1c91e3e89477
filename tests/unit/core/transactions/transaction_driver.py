"""A coordinator of transactions for tests: what the runtime does, with a clock moved by hand and a log in memory."""

from collections.abc import Hashable
from itertools import count
from typing import TypeVar

import msgspec

from barnabas.core.coordination import SetTimer
from barnabas.core.model import TopicPartition
from barnabas.core.transactions import ending, initialising, partitions
from barnabas.core.transactions.decision import TransactionDecision, TransactionTimer
from barnabas.core.transactions.encoding import decode, encode_key, encode_value
from barnabas.core.transactions.ending import Ended, needs_producer_id
from barnabas.core.transactions.initialising import AbortFirst, Initialised, InitRequest
from barnabas.core.transactions.records import State, TransactionRecord
from barnabas.core.transactions.transactions import Transactions

T = TypeVar("T")

NAME = "payments"
TIMER = TransactionTimer(NAME)
TIMEOUT_MS = 60_000
MAX_TIMEOUT_MS = 900_000
FIRST_ID = 1000
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Coordinator:
    """Decides, appends, applies, and keeps the timers."""

    def __init__(self) -> None:
        self.transactions = Transactions()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[Hashable, int] = {}
        self.now_ms = 1_000_000
        self.producer_ids = count(FIRST_ID)

    def take(self, decision: TransactionDecision[T]) -> T:
        for entry in decision.records:
            self.log.append((encode_key(entry), encode_value(entry)))
            self.transactions.apply(entry)
        for change in decision.timers:
            if isinstance(change, SetTimer):
                self.timers[change.key] = self.now_ms + change.delay_ms
            else:
                del self.timers[change.key]  # nothing is cancelled that was not set
        return decision.reply

    def replay(self) -> Transactions:
        transactions = Transactions()
        for key, value in self.log:
            transactions.apply(decode(key, value))
        return transactions

    @property
    def record(self) -> TransactionRecord:
        return self.transactions.by_id[NAME]

    @property
    def standing(self) -> tuple[int, int, State]:
        return self.record.producer_id, self.record.producer_epoch, self.record.state

    def put(self, state: State, *, producer_epoch: int = 5, **fields: object) -> None:
        """Make the id what a test begins with: one of a producer of version 2."""
        base = TransactionRecord(NAME, FIRST_ID, producer_epoch, TIMEOUT_MS, state, update_ms=self.now_ms, version=2)
        if state is not State.EMPTY:
            base = msgspec.structs.replace(base, start_ms=self.now_ms)
        if state is State.ONGOING or state.is_prepared:
            base = msgspec.structs.replace(base, partitions=(("t", (0, 1)),))
        if state is State.ONGOING:
            self.timers[TIMER] = self.now_ms + TIMEOUT_MS
        self.transactions.apply(msgspec.structs.replace(base, **fields))
        next(self.producer_ids)

    def init(self, producer_id: int = -1, epoch: int = -1, timeout_ms: int = TIMEOUT_MS) -> Initialised | AbortFirst:
        request = InitRequest(
            transactional_id=NAME, timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
        )
        return self.take(
            initialising.decide_init(
                self.transactions,
                request,
                new_producer_id=next(self.producer_ids),
                max_timeout_ms=MAX_TIMEOUT_MS,
                now_ms=self.now_ms,
            )
        )

    def add(self, producer_id: int, epoch: int, *names: TopicPartition, version: int = 2) -> None:
        decision = partitions.decide_add(
            self.transactions, NAME, producer_id, epoch, names, version=version, now_ms=self.now_ms
        )
        self.take(decision)

    def end(self, producer_id: int, epoch: int, *, is_commit: bool, version: int = 2) -> Ended:
        return self.take(
            ending.decide_end(
                self.transactions,
                NAME,
                producer_id,
                epoch,
                is_commit=is_commit,
                version=version,
                next_producer_id=self.next_producer_id(),
                now_ms=self.now_ms,
            )
        )

    def next_producer_id(self) -> int:
        return next(self.producer_ids) if needs_producer_id(self.transactions, NAME) else -1

    def complete(self) -> bool:
        return self.take(ending.decide_complete(self.transactions, NAME, now_ms=self.now_ms))

    def fire(self) -> bool:
        """The timer fires, whatever the time is."""
        self.timers.pop(TIMER, None)
        return self.take(
            ending.decide_abort_expired(
                self.transactions, NAME, next_producer_id=self.next_producer_id(), now_ms=self.now_ms
            )
        )
