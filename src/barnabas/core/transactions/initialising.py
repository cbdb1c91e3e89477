"""InitProducerId: a producer takes over a transactional id, which fences the previous one.

A producer without an id and epoch gets the next epoch, and the previous one is fenced. One that names the id and epoch
it has (KIP-360) goes on after an error: it gets the next epoch unless another producer came in between; a retry,
because the answer was lost, gets the same answer. An open transaction is aborted first, and the producer retries when
that is done.

Stricter than Kafka in two things: a producer with a fenced epoch does not abort a transaction of its successor, and
gets no epoch in which a transaction was already ended. More lenient in another: a lost answer is given again at the
last epoch of an id too.
"""

from typing import NamedTuple

import msgspec

from barnabas.core.coordination import Decision
from barnabas.core.errors import InvalidRequest, InvalidTransactionTimeout, ProducerFenced
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from barnabas.core.transactions.decision import TransactionDecision
from barnabas.core.transactions.preparing import EPOCH_BUMP, prepare, stop_timer
from barnabas.core.transactions.producers import check_not_prepared, check_transactional_id, is_exhausted
from barnabas.core.transactions.records import Owner, State, TransactionRecord
from barnabas.core.transactions.transactions import Transactions


class InitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A producer takes over a transactional id. Producer id and epoch are its current ones, or both -1."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class Initialised(NamedTuple):
    """The transactional id is the producer's, under this id and epoch."""

    producer_id: int
    producer_epoch: int


class AbortFirst(NamedTuple):
    """A transaction was open and is prepared to abort now, its producer fenced: retry when it is complete."""

    transactional_id: str


def decide_init(
    transactions: Transactions, request: InitRequest, *, new_producer_id: int, max_timeout_ms: int, now_ms: int
) -> TransactionDecision[Initialised | AbortFirst]:
    """InitProducerId with a transactional id. `new_producer_id` is a new one, left unused if not needed."""
    check_transactional_id(request.transactional_id)
    expected = _expected_of(request)
    if not 0 < request.timeout_ms <= max_timeout_ms:
        raise InvalidTransactionTimeout(
            f"a transaction timeout of {request.timeout_ms} ms is not between 1 and {max_timeout_ms} ms"
        )
    record = transactions.get(request.transactional_id)
    if record is None:
        name, timeout_ms = request.transactional_id, request.timeout_ms
        return _initialise(TransactionRecord(name, new_producer_id, 0, timeout_ms, State.EMPTY, update_ms=now_ms))
    check_not_prepared(record)
    if expected is None or expected == record.owner:
        if record.state is State.ONGOING:
            # A new producer is never told the epoch that this takes: it asks again, and gets the one after.
            prepared = prepare(record, is_commit=False, next_producer_id=new_producer_id, now_ms=now_ms)
            return Decision([prepared], AbortFirst(record.transactional_id), stop_timer(record))
        last_epoch = NO_PRODUCER_EPOCH if expected is None else record.producer_epoch
        return _initialise(_empty(record, _next_of(record, new_producer_id), last_epoch, request.timeout_ms, now_ms))
    if record.state is State.ONGOING or not _is_retry(record, expected):
        raise ProducerFenced(
            f"transactional id '{record.transactional_id}' is held by {record.owner}; {expected} is not the one before"
        )
    again = _empty(record, record.owner, record.last_epoch, request.timeout_ms, now_ms)
    return _initialise(msgspec.structs.replace(again, previous_producer_id=record.previous_producer_id))


def _expected_of(request: InitRequest) -> Owner | None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequest("producer id and epoch must be given together")
    return None if request.producer_id == NO_PRODUCER_ID else Owner(request.producer_id, request.producer_epoch)


def _is_retry(record: TransactionRecord, expected: Owner) -> bool:
    """Whether the producer already got the current epoch and the answer was lost. Another producer in between would
    have left no last epoch. One that has ended a transaction at this epoch, and not with it, got the answer: it would
    start that epoch again, with used sequence numbers.
    """
    if record.state.is_complete and record.version < EPOCH_BUMP:
        return False
    is_rotated = expected.producer_id == record.previous_producer_id and is_exhausted(expected.producer_epoch)
    return expected.producer_epoch == record.last_epoch and (expected.producer_id == record.producer_id or is_rotated)


def _next_of(record: TransactionRecord, new_producer_id: int) -> Owner:
    if is_exhausted(record.producer_epoch):
        return Owner(new_producer_id, 0)
    return Owner(record.producer_id, record.producer_epoch + 1)


def _empty(
    record: TransactionRecord, producer: Owner, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionRecord:
    return msgspec.structs.replace(
        record,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=(),
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
        last_epoch=last_epoch,
        previous_producer_id=record.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


def _initialise(record: TransactionRecord) -> TransactionDecision[Initialised | AbortFirst]:
    return Decision([record], Initialised(record.producer_id, record.producer_epoch))
