"""Transactions: records to any topics, and offsets of groups, that become visible together or not at all.

Owns one librdkafka producer per transactional id, which is initialised once (that aborts the open transaction of an
earlier producer of this id) and again after a fatal error; and what a failure means. A failure before the commit:
aborted. No answer to the commit: in doubt, and the readers read the committed offsets of their group.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from barnabas.client.bounded import StillRunning, call_within
from barnabas.client.errors import (
    Refused,
    TransactionAborted,
    TransactionFenced,
    TransactionInDoubt,
    TransactionTimedOut,
    Unreachable,
    translate,
)
from barnabas.client.message import HeadersLike
from barnabas.client.producers import DEFAULTS, DeliveringProducer, Sent
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError, InvalidRequest, InvalidTxnState, ProducerFenced

TIMEOUT_S: Final = 60.0
_ABORT_S: Final = 10.0
_STUCK_S: Final = 5.0
"""How long after its time a call of librdkafka is given up."""
_RETRY_S: Final = 0.05
# When all brokers are away, librdkafka 2.11 and later forget them and begin with the bootstrap addresses; but what they
# have cached of a group's coordinator keeps the one that was forgotten, and offsets sent there wait for ever.
_DEFAULTS: Final = {**DEFAULTS, "metadata.recovery.strategy": "none"}
_FORCED: Final = {"enable.idempotence": "true", "acks": "all"}
_BROKEN: Final = frozenset({KafkaError._FATAL, KafkaError._STATE})
_FENCED: Final = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class OffsetSource(Protocol):
    """A reader whose offsets a transaction can commit."""

    def uncommitted(self) -> tuple[list[Any], Any]: ...
    def note_committed(self) -> None: ...
    def rewind(self, *, ask: bool = ...) -> Any: ...


class Transaction:
    """The object of a `with bus.transaction(...)` block: sends and offset commits, valid until the end of the block."""

    def __init__(self, producer: "_TransactionalProducer", pick_partition: Callable[[str], int]) -> None:
        self._producer = producer
        self._pick_partition = pick_partition
        self._is_open = True
        self.sources: list[OffsetSource] = []

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp_ms: int | None = None,
    ) -> Sent:
        """Queue one record, as `Bus.send` does. If a record is not delivered, the block raises."""
        self._check_open()
        where = self._pick_partition(topic) if partition is None else partition
        return self._producer.send(topic, value, key=key, partition=where, headers=headers, timestamp_ms=timestamp_ms)

    def send_nowait(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: HeadersLike | None = None,
        timestamp_ms: int | None = None,
    ) -> Sent | None:
        """As `send`; None, with nothing done, if that would have to wait."""
        self._check_open()
        where = self._pick_partition(topic) if partition is None else partition
        return self._producer.send_nowait(
            topic, value, key=key, partition=where, headers=headers, timestamp_ms=timestamp_ms
        )

    def commit_offsets(self, reader: Any) -> None:
        """Commit, with this transaction, the offsets of what `reader` has returned by the end of the block.

        `reader` is what `Bus.consume(..., group=..., mode="transactional")` returns. If the block raises, the reader
        returns the same records again: so call this first, before anything can fail.
        """
        self._check_open()
        if not all(hasattr(reader, name) for name in ("uncommitted", "note_committed", "rewind")):
            raise InvalidRequest('commit_offsets needs a reader from consume(..., group=..., mode="transactional")')
        if reader not in self.sources:
            self.sources.append(reader)

    def end(self) -> None:
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise InvalidTxnState("the transaction has ended: send within its block")


class _TransactionalProducer:
    """An initialised producer, and perhaps its open transaction."""

    def __init__(self, handle: Producer, transactional_id: str, timeout_s: float) -> None:
        self._handle = handle
        self._id = transactional_id
        self.timeout_s = timeout_s
        self._began_at = 0.0
        self._delivering = DeliveringProducer(handle)
        self.is_usable = True
        self._is_stuck = False  # in a call that does not come back

    def initialise(self, timeout_s: float) -> None:
        self._retrying(f"take up transactional id {self._id!r}", timeout_s, self._handle.init_transactions)

    def begin(self) -> None:
        self._began_at = time.monotonic()
        self._delivering.forget_failures()
        try:
            self._handle.begin_transaction()
        except KafkaException as error:
            self.is_usable = False
            raise self._refusal(error.args[0], "begin a transaction") from None

    def send(self, topic: str, value: bytes | str | None, **more: Any) -> Sent:
        with self._sending():
            return self._delivering.send(topic, value, **more)

    def send_nowait(self, topic: str, value: bytes | str | None, **more: Any) -> Sent | None:
        with self._sending():
            return self._delivering.send_nowait(topic, value, **more)

    @contextlib.contextmanager
    def _sending(self) -> Iterator[None]:
        try:
            yield
        except Refused as refusal:
            if refusal.code not in _BROKEN:
                raise
            why = self._delivering.first_failure or refusal
            raise self.aborted(why) from why
        except ProducerFenced as refusal:
            raise self._fenced() from refusal

    def add_offsets(self, source: OffsetSource, timeout_s: float) -> None:
        offsets, member = source.uncommitted()
        if offsets:
            self._retrying("commit offsets", timeout_s, self._send_offsets, offsets, member)

    def _send_offsets(self, offsets: list[Any], member: Any, timeout_s: float) -> None:
        """librdkafka waits for a coordinator of the group that is away for as long as it is (its issue 5456)."""
        try:
            call_within(timeout_s + _STUCK_S, self._handle.send_offsets_to_transaction, offsets, member, timeout_s)
        except StillRunning:
            self.is_usable, self._is_stuck = False, True
            raise Unreachable(
                f"cannot commit offsets: the coordinator of the group does not answer within {timeout_s:g} s"
            ) from None

    def commit(self, timeout_s: float) -> None:
        """Raises TransactionAborted if that is certain, else TransactionInDoubt or the fatal error."""
        try:
            self._retrying("commit", timeout_s, self._handle.commit_transaction, keep=True)
        except KafkaException as failure:
            error = failure.args[0]
            refusal = self._refusal(error, "commit")
            if error.txn_requires_abort():
                raise self.aborted(refusal) from refusal
            self.is_usable = False
            if error.code() in _FENCED:
                raise refusal from None
            raise TransactionInDoubt(
                f"transaction of {self._id!r}: no answer to the commit, so the outcome is unknown: {refusal}"
            ) from refusal

    def abort(self) -> None:
        """Abort the open transaction.

        If that fails the producer is discarded, and the next one of this id aborts it. The same if a record was
        refused: librdkafka has given it a sequence number, which the broker would miss.
        """
        if self._is_stuck:
            return
        if self._delivering.first_failure is not None:
            self.is_usable = False
        try:
            self._retrying("abort", _ABORT_S, self._handle.abort_transaction)
        except BarnabasError:
            self.is_usable = False

    def close(self) -> None:
        self._delivering.close()
        if not self._is_stuck:
            self._handle.purge()

    def aborted(self, refusal: BarnabasError) -> TransactionAborted:
        return TransactionAborted(f"transaction of {self._id!r} was aborted: {refusal}")

    def _retrying(
        self, doing: str, timeout_s: float, call: Callable[..., None], *arguments: Any, keep: bool = False
    ) -> None:
        """Call until it succeeds; a retriable failure is retried, as librdkafka requires."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                call(*arguments, max(deadline - time.monotonic(), 0.1))
                return
            except KafkaException as failure:
                error = failure.args[0]
                if error.fatal():
                    self.is_usable = False
                if error.retriable() and not error.txn_requires_abort() and time.monotonic() < deadline:
                    time.sleep(_RETRY_S)
                    continue
                if keep:
                    raise
                raise self._refusal(error, doing) from None

    def _refusal(self, error: KafkaError, doing: str) -> BarnabasError:
        return self._fenced() if error.code() in _FENCED else translate(error, doing)

    def _fenced(self) -> BarnabasError:
        self.is_usable = False
        open_s = time.monotonic() - self._began_at if self._began_at else 0.0
        if open_s >= self.timeout_s:
            return TransactionTimedOut(
                f"transaction of {self._id!r} was open for {open_s:.1f} s; the cluster ends it after "
                f"{self.timeout_s:g} s (timeout)"
            )
        return TransactionFenced(f"another producer took over the transactional id {self._id!r}")


class TransactionalProducers:
    """The transactional producers of one bus, by their ids."""

    def __init__(self, settings: Settings, pick_partition: Callable[[str], int], timeout_s: float) -> None:
        self._settings = settings
        self._pick_partition = pick_partition
        self._timeout_s = timeout_s
        self._producers: dict[str, _TransactionalProducer] = {}
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    @contextlib.contextmanager
    def open(self, transactional_id: str, timeout_s: float = TIMEOUT_S) -> Iterator[Transaction]:
        """A transaction for a block: committed at its end, aborted if the block raises."""
        with self._holding(transactional_id):
            producer = self._usable(transactional_id, timeout_s)
            producer.begin()
            transaction = Transaction(producer, self._pick_partition)
            try:
                yield transaction
            except BaseException:
                self._roll_back(transaction, producer)
                raise
            finally:
                transaction.end()
            self._commit(transaction, producer)

    def initialise(self, transactional_id: str, timeout_s: float) -> None:
        """Take over an id: the open transaction of an earlier producer of this id is aborted."""
        with self._holding(transactional_id):
            self._usable(transactional_id, timeout_s)

    def discard(self, transactional_id: str) -> None:
        """Discard the producer of an id that is no longer used."""
        with self._lock:
            producer = self._producers.pop(transactional_id, None)
        if producer is not None:
            producer.close()

    def close(self) -> None:
        self._is_closed = True
        for transactional_id in list(self._producers):
            self.discard(transactional_id)

    def _commit(self, transaction: Transaction, producer: _TransactionalProducer) -> None:
        try:
            for source in transaction.sources:
                producer.add_offsets(source, self._timeout_s)
        except BarnabasError as refusal:
            self._roll_back(transaction, producer)
            if isinstance(refusal, (TransactionFenced, TransactionTimedOut)):
                raise
            raise producer.aborted(refusal) from refusal
        except BaseException:
            self._roll_back(transaction, producer)
            raise
        try:
            producer.commit(self._timeout_s)
        except TransactionAborted:
            self._roll_back(transaction, producer)
            raise
        except BaseException:
            producer.is_usable = False
            for source in transaction.sources:
                source.rewind(ask=True)
            raise
        for source in transaction.sources:
            source.note_committed()

    def _roll_back(self, transaction: Transaction, producer: _TransactionalProducer) -> None:
        producer.abort()
        for source in transaction.sources:
            source.rewind()

    @contextlib.contextmanager
    def _holding(self, transactional_id: str) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise BarnabasError("the bus is closed")
            if transactional_id in self._busy:
                raise InvalidRequest(f"a transaction of {transactional_id!r} is open already: one at a time")
            self._busy.add(transactional_id)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(transactional_id)

    def _usable(self, transactional_id: str, timeout_s: float) -> _TransactionalProducer:
        producer = self._producers.get(transactional_id)
        if producer is not None and producer.is_usable and producer.timeout_s == timeout_s:
            return producer
        if not transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        self.discard(transactional_id)
        forced = {**_FORCED, "transactional.id": transactional_id, "transaction.timeout.ms": f"{timeout_s * 1000:.0f}"}
        producer = _TransactionalProducer(self._settings.producer(_DEFAULTS, forced), transactional_id, timeout_s)
        try:
            producer.initialise(self._timeout_s)
        except BaseException:
            producer.close()
            raise
        self._producers[transactional_id] = producer
        return producer
