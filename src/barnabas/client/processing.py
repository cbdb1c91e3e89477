"""From a topic through a function into a topic, batch by batch.

Owns the loop and how it handles failures. Exactly once: the records of a batch and the offsets of what they were made
from are one transaction, so a process killed at any line has done the batch completely or not at all. At least once:
records are delivered first, then the offsets are committed; a process killed in between repeats the batch.

The function is called before the transaction begins, so a slow one does not time it out. Its effects outside the bus
are not part of the transaction, and may happen twice.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Final, Protocol, TypeAlias

from confluent_kafka import KafkaError

from barnabas.client.errors import DeliveryFailed, Refused, TransactionAborted, TransactionInDoubt, Unreachable
from barnabas.client.message import HeadersLike, Message
from barnabas.client.producers import ANY_PARTITION, DeliveringProducer
from barnabas.client.rewindable import RewindableReader
from barnabas.client.transactions import TransactionalProducers
from barnabas.core import errors as core_errors
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.model import TopicPartition

BATCH_SIZE: Final = 500
MAX_WAIT_S: Final = 0.1
# Without a name of its own a process that died cannot end what it left open; others wait for this long.
NAMELESS_TIMEOUT_S: Final = 10.0
# How long after the last success a failure that should pass is believed to.
_PATIENCE_S: Final = 300.0
_RETRY_S: Final = 0.1
_LOOK_S: Final = 0.1  # how soon `stop` is noticed

# What another attempt may cure: the group or a leader moved, a broker was away, the producer must begin anew.
_PASSING: Final = (
    Unreachable,
    TransactionInDoubt,
    core_errors.ConcurrentTransactions,
    core_errors.CoordinatorNotAvailable,
    core_errors.FencedMemberEpoch,
    core_errors.IllegalGeneration,
    core_errors.InvalidProducerEpoch,
    core_errors.InvalidProducerIdMapping,
    core_errors.InvalidTxnState,
    core_errors.NotCoordinator,
    core_errors.NotEnoughReplicas,
    core_errors.NotLeaderOrFollower,
    core_errors.ProducerFenced,
    core_errors.RebalanceInProgress,
    core_errors.RequestTimedOut,
    core_errors.StaleMemberEpoch,
    core_errors.TransactionAbortable,
    core_errors.UnknownMemberId,
)
_PASSING_CODES: Final = frozenset(  # the same, where there is no class
    {
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._PURGE_QUEUE,
        KafkaError._STATE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)


@dataclass(frozen=True, slots=True)
class Output:
    """A record that a function returns. Without a `key` it has the key of the record it is made from."""

    value: bytes | str | None
    key: bytes | str | EllipsisType | None = ...
    headers: HeadersLike | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


Made: TypeAlias = bytes | str | Output | Message | Sequence[bytes | str | Output | Message] | None
Function: TypeAlias = Callable[[Message], Made]


@dataclass(frozen=True, slots=True)
class Processed:
    """The result: records read and written, and the number of batches; `retries` counts batches that were repeated."""

    read: int
    written: int
    batches: int
    retries: int


class BatchDelivery(Protocol):
    """Writes the records of a batch and its offsets to the cluster; if that fails, rewinds and raises."""

    def prepare(self) -> None: ...
    def deliver(self, reader: RewindableReader, outputs: "list[_Record]") -> None: ...
    def close(self) -> None: ...


class ExactlyOnce:
    """Each batch is a transaction."""

    def __init__(
        self, transactions: TransactionalProducers, transactional_id: str, sink: str, timeout_s: float
    ) -> None:
        self._transactions = transactions
        self._id = transactional_id
        self._sink = sink
        self._timeout_s = timeout_s

    def prepare(self) -> None:
        """Take over the transactional id: its open transaction is aborted, and does not block readers."""
        self._transactions.initialise(self._id, self._timeout_s)

    def deliver(self, reader: RewindableReader, outputs: "list[_Record]") -> None:
        with self._transactions.open(self._id, self._timeout_s) as transaction:
            transaction.commit_offsets(reader)
            for output in outputs:
                transaction.send(
                    self._sink,
                    output.value,
                    key=output.key,
                    partition=output.partition,
                    headers=output.headers,
                    timestamp_ms=output.timestamp_ms,
                )

    def close(self) -> None:
        self._transactions.discard(self._id)


class AtLeastOnce:
    """Each batch is delivered, then committed."""

    def __init__(self, producer: DeliveringProducer, sink: str, timeout_s: float) -> None:
        self._producer = producer
        self._sink = sink
        self._timeout_s = timeout_s

    def prepare(self) -> None:
        """Nothing to prepare."""

    def deliver(self, reader: RewindableReader, outputs: "list[_Record]") -> None:
        try:
            sent = [
                self._producer.send(
                    self._sink,
                    output.value,
                    key=output.key,
                    partition=ANY_PARTITION if output.partition is None else output.partition,
                    headers=output.headers,
                    timestamp_ms=output.timestamp_ms,
                )
                for output in outputs
            ]
            deadline = time.monotonic() + self._timeout_s
            for each in sent:
                each.result(max(deadline - time.monotonic(), 0))
            reader.commit()
        except BaseException:
            reader.rewind()
            raise

    def close(self) -> None:
        self._producer.close()


class Processor:
    """One run of the loop."""

    def __init__(
        self,
        open_reader: Callable[[], RewindableReader],
        function: Function,
        delivery: BatchDelivery,
        *,
        batch_size: int,
        max_wait_s: float,
        stop: threading.Event | None,
        ends: Mapping[TopicPartition, int] | None,
    ) -> None:
        self._open_reader = open_reader
        self._reader: RewindableReader | None = None
        self._function = function
        self._delivery = delivery
        self._batch_size = batch_size
        self._max_wait_s = max_wait_s
        self._stop = stop or threading.Event()
        self._ends = ends
        self._give_up_at = time.monotonic() + _PATIENCE_S
        self._done = Processed(0, 0, 0, 0)

    def run(self) -> Processed:
        try:
            while not self._stop.is_set():
                try:
                    self._delivery.prepare()
                    reader = self._opened()
                    if self._ends is not None and reader.is_done(self._ends):
                        break
                    self._one_batch(reader)
                except BarnabasError as error:
                    self._go_on_after(error)
        finally:
            self._delivery.close()
            self._close_reader()
        return self._done

    def _one_batch(self, reader: RewindableReader) -> None:
        batch = self._gather(reader)
        if not batch:
            self._give_up_at = time.monotonic() + _PATIENCE_S
            return
        outputs = [output for record in batch for output in self._made_from(record)]
        self._delivery.deliver(reader, outputs)
        done = self._done
        self._done = Processed(done.read + len(batch), done.written + len(outputs), done.batches + 1, done.retries)
        self._give_up_at = time.monotonic() + _PATIENCE_S

    def _gather(self, reader: RewindableReader) -> list[Message]:
        """Up to a batch of records: those that arrive within `max_wait` of the first."""
        batch: list[Message] = []
        deadline = time.monotonic() + _LOOK_S
        while len(batch) < self._batch_size:
            records = reader.next_chunk(self._batch_size - len(batch), max(deadline - time.monotonic(), 0))
            if records and not batch:
                deadline = time.monotonic() + self._max_wait_s
            for record in records:
                reader.note_handed_out(record)
            batch += records
            if time.monotonic() >= deadline or (self._ends is not None and reader.is_done(self._ends)):
                break
        if batch:
            reader.uncommitted()  # raises if part of it was taken away: before the function is called for nothing
        return batch

    def _made_from(self, record: Message) -> "Iterator[_Record]":
        try:
            made = self._function(record)
        except BarnabasError as error:  # the caller's, whatever it is: not to be taken for one of the bus
            raise _Raised(error) from error
        for each in made if isinstance(made, (list, tuple)) else [made]:
            if each is not None:
                yield _record_of(each, record)

    def _go_on_after(self, error: BarnabasError) -> None:
        """Repeat the batch if the failure is retriable; else raise it."""
        if isinstance(error, _Raised):
            raise error.error
        if not may_pass(error) or time.monotonic() > self._give_up_at:
            raise error
        done = self._done
        self._done = Processed(done.read, done.written, done.batches, done.retries + 1)
        if self._reader is not None:
            self._reader.rewind(ask=isinstance(error, TransactionInDoubt))
        self._stop.wait(_RETRY_S)

    def _opened(self) -> RewindableReader:
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()


class _Raised(BarnabasError):
    """An exception of the function, if it is a `BarnabasError`."""

    def __init__(self, error: BarnabasError) -> None:
        super().__init__(str(error))
        self.error = error


def may_pass(error: BarnabasError) -> bool:
    """Whether a failure is worth a retry."""
    if isinstance(error, (DeliveryFailed, TransactionAborted)) and isinstance(error.__cause__, BarnabasError):
        return may_pass(error.__cause__)
    if isinstance(error, Refused):
        return error.code in _PASSING_CODES
    return isinstance(error, _PASSING)


@dataclass(frozen=True, slots=True)
class _Record:
    """An output with its key."""

    value: bytes | str | None
    key: bytes | str | None
    headers: HeadersLike | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def _record_of(made: Any, source: Message) -> _Record:
    if isinstance(made, Output):
        key = source.key if isinstance(made.key, EllipsisType) else made.key
        return _Record(made.value, key, made.headers, made.partition, made.timestamp_ms)
    if isinstance(made, Message):
        return _Record(made.value, made.key, made.headers, None, made.timestamp_ms)
    if isinstance(made, (bytes, str)):
        return _Record(made, source.key)
    raise InvalidRequest(
        f"the function returned {type(made).__name__}; allowed: None, bytes, str, Output, Message or a list of them"
    )
