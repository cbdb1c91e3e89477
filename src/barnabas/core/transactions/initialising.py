"""InitProducerId: a producer takes a transactional id, and with it the right to fence whoever had it before.

A producer that says nothing of itself gets the next epoch, and the one before is fenced. One that names the id and
epoch it has (KIP-360) goes on after an error: it gets the next epoch unless another producer came in between; asked
again, because the answer was lost, it gets the same answer. An open transaction is aborted first, and the producer
asks again when that is done.

Stricter than Kafka in two things: a producer that names an epoch that was replaced does not abort a transaction of the
one that replaced it, and is given no epoch in which a transaction was ended already. More lenient in another: a lost
answer is given again at the last epoch of an id too.
"""

from typing import NamedTuple

import msgspec

from barnabas.core.errors import InvalidRequest, InvalidTransactionTimeout, ProducerFenced
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from barnabas.core.transactions.decision import Decision
from barnabas.core.transactions.preparing import EPOCH_BUMP, prepare, stop_timer
from barnabas.core.transactions.producers import check_not_prepared, check_transactional_id, is_exhausted
from barnabas.core.transactions.records import Producer, State, TransactionRecord
from barnabas.core.transactions.transactions import Transactions


class InitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A producer wants a transactional id. Producer id and epoch are those it has already, or both -1."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class Initialised(NamedTuple):
    """The transactional id is the producer's, under this id and epoch."""

    producer_id: int
    epoch: int


class AbortFirst(NamedTuple):
    """A transaction was open and is prepared to abort now, its producer fenced: ask again when it is complete."""

    transactional_id: str


def decide_init(
    transactions: Transactions, request: InitRequest, *, new_producer_id: int, max_timeout_ms: int, now_ms: int
) -> Decision[Initialised | AbortFirst]:
    """InitProducerId with a transactional id. `new_producer_id` is one that nobody has, unused if it is not needed."""
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
        last_epoch = NO_PRODUCER_EPOCH if expected is None else record.epoch
        return _initialise(_empty(record, _next_of(record, new_producer_id), last_epoch, request.timeout_ms, now_ms))
    if record.state is State.ONGOING or not _is_retry(record, expected):
        raise ProducerFenced(
            f"transactional id '{record.transactional_id}' is at {record.owner}, and {expected} is not the one before"
        )
    again = _empty(record, record.owner, record.last_epoch, request.timeout_ms, now_ms)
    return _initialise(msgspec.structs.replace(again, previous_producer_id=record.previous_producer_id))


def _expected_of(request: InitRequest) -> Producer | None:
    if (request.producer_id == NO_PRODUCER_ID) != (request.epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequest("of the producer id and epoch, one is there without the other")
    return None if request.producer_id == NO_PRODUCER_ID else Producer(request.producer_id, request.epoch)


def _is_retry(record: TransactionRecord, expected: Producer) -> bool:
    """Whether the producer was given the current epoch already and did not hear of it. Another producer that came
    in between would have left no last epoch. One that has ended a transaction at this epoch, and not with it, has heard
    of it: it would begin that epoch once more, with sequence numbers that are used.
    """
    if record.state.is_complete and record.version < EPOCH_BUMP:
        return False
    is_rotated = expected.producer_id == record.previous_producer_id and is_exhausted(expected.epoch)
    return expected.epoch == record.last_epoch and (expected.producer_id == record.producer_id or is_rotated)


def _next_of(record: TransactionRecord, new_producer_id: int) -> Producer:
    if is_exhausted(record.epoch):
        return Producer(new_producer_id, 0)
    return Producer(record.producer_id, record.epoch + 1)


def _empty(
    record: TransactionRecord, producer: Producer, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionRecord:
    return msgspec.structs.replace(
        record,
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=(),
        start_ms=NO_TIMESTAMP,
        update_ms=now_ms,
        last_epoch=last_epoch,
        previous_producer_id=record.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


def _initialise(record: TransactionRecord) -> Decision[Initialised | AbortFirst]:
    return Decision([record], Initialised(record.producer_id, record.epoch))
