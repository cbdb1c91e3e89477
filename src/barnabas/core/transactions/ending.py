"""The end of a transaction: prepared by a request or a timeout, complete when every partition has its marker.

The producer is answered as soon as the transaction is prepared, which cannot be undone; its next transaction waits
until this one is complete.

With version 2 a request is distinguished from its retry by the epoch, which the first one raised:

    | state          | abort, retry      | abort, current | commit, retry     | commit, current |
    | EMPTY          | fenced            | prepared       | fenced            | InvalidTxnState |
    | ONGOING        | fenced            | prepared       | fenced            | prepared        |
    | PREPARE_COMMIT | InvalidTxnState   | Concurrent...  | Concurrent...     | Concurrent...   |
    | PREPARE_ABORT  | Concurrent...     | Concurrent...  | InvalidTxnState   | Concurrent...   |
    | COMPLETE_COMMIT| InvalidTxnState   | prepared       | the same answer   | InvalidTxnState |
    | COMPLETE_ABORT | the same answer   | prepared       | InvalidTxnState   | InvalidTxnState |

Stricter than Kafka in one thing: a retry is one only of the request that ended the transaction, which left its epoch
behind (`last_epoch`). In Kafka any epoch one below will do, which a producer of an older version leaves to others.
"""

from typing import Final, NamedTuple

import msgspec

from barnabas.core.coordination import Decision, SetTimer
from barnabas.core.errors import InvalidTxnState
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from barnabas.core.transactions.decision import TransactionDecision, TransactionTimer
from barnabas.core.transactions.expiring import remaining_ms
from barnabas.core.transactions.preparing import EPOCH_BUMP, prepare, prepare_without_bump, stop_timer
from barnabas.core.transactions.producers import (
    LAST_USED_EPOCH,
    check_not_prepared,
    check_owner,
    find,
    needs_producer_id,
    still_ending,
)
from barnabas.core.transactions.records import State, TransactionRecord
from barnabas.core.transactions.transactions import Transactions

__all__ = [
    "Ended",
    "MarkersDue",
    "decide_abort_expired",
    "decide_complete",
    "decide_end",
    "markers_due",
    "needs_producer_id",
]

# How long an expired transaction waits for a producer id that its abort needs.
NO_ID_RETRY_MS: Final = 1_000


class Ended(NamedTuple):
    """A transaction ends as requested."""

    producer_id: int  # what the producer goes on with; -1 below version 2: as it is
    producer_epoch: int
    is_prepared: bool  # markers are to be written; if not, it is complete already, and this was a retry


class TransactionEnd(NamedTuple):
    """The contents of the markers of one transaction."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    version: int  # of the protocol of transactions: 2 has an epoch for each


class MarkersDue(NamedTuple):
    """The marker that a prepared transaction writes to each of its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    version: int
    partitions: tuple[TopicPartition, ...]


def decide_end(
    transactions: Transactions,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    *,
    is_commit: bool,
    version: int,
    next_producer_id: int,
    now_ms: int,
) -> TransactionDecision[Ended]:
    """EndTxn. `next_producer_id` is a new one if `needs_producer_id` says so, else -1."""
    record = find(transactions, transactional_id)
    if version < EPOCH_BUMP:
        check_owner(record, producer_id, producer_epoch)
        return _end_without_bump(record, is_commit=is_commit, now_ms=now_ms)
    if _is_retry(record, producer_id, producer_epoch):
        return _end_again(record, is_commit=is_commit)
    check_owner(record, producer_id, producer_epoch)
    check_not_prepared(record)
    if is_commit and record.state is not State.ONGOING:
        raise _wrong_end(record, is_commit=True)
    prepared = prepare(record, is_commit=is_commit, next_producer_id=next_producer_id, now_ms=now_ms)
    return Decision([prepared], Ended(*prepared.owner, is_prepared=True), stop_timer(record))


def _is_retry(record: TransactionRecord, producer_id: int, producer_epoch: int) -> bool:
    """Whether this producer ended the last transaction already, at this epoch."""
    if not (record.state.is_prepared or record.state.is_complete):
        return False
    if record.version < EPOCH_BUMP or record.last_epoch != producer_epoch:
        return False
    is_rotated = (
        record.previous_producer_id == producer_id and producer_epoch == LAST_USED_EPOCH and record.producer_epoch == 0
    )
    return is_rotated or (record.producer_id == producer_id and record.producer_epoch == producer_epoch + 1)


def _end_again(record: TransactionRecord, *, is_commit: bool) -> TransactionDecision[Ended]:
    if record.state.is_commit != is_commit:
        raise _wrong_end(record, is_commit=is_commit)
    if record.state.is_prepared:
        raise still_ending(record)
    return Decision([], Ended(*record.owner, is_prepared=False))


def _end_without_bump(record: TransactionRecord, *, is_commit: bool, now_ms: int) -> TransactionDecision[Ended]:
    """EndTxn below version 2: a retry looks like a second request, so each end may be requested again."""
    if record.state is State.ONGOING:
        prepared = prepare_without_bump(record, is_commit=is_commit, now_ms=now_ms)
        reply = Ended(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, is_prepared=True)
        return Decision([prepared], reply, stop_timer(record))
    # What was ended with version 2 has its next owner already, whose request this is.
    if record.state.is_prepared and (record.version >= EPOCH_BUMP or record.state.is_commit == is_commit):
        raise still_ending(record)
    if record.state.is_complete and record.state.is_commit == is_commit:
        return Decision([], Ended(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, is_prepared=False))
    raise _wrong_end(record, is_commit=is_commit)


def _wrong_end(record: TransactionRecord, *, is_commit: bool) -> InvalidTxnState:
    asked = "commit" if is_commit else "abort"
    return InvalidTxnState(f"cannot {asked}: transactional id '{record.transactional_id}' is in {record.state.label}")


def decide_abort_expired(
    transactions: Transactions, transactional_id: str, *, next_producer_id: int, now_ms: int
) -> TransactionDecision[bool]:
    """The timer of a transaction fired: abort it, and fence its producer. The reply is whether this prepared it. If it
    needs a producer id and has none, it is retried soon.
    """
    record = transactions.get(transactional_id)
    if record is None or record.state is not State.ONGOING:
        return Decision([], False)
    # One that begins later than now was seen to begin by a clock that was ahead. Of that only the timer tells the time.
    left_ms = 0 if record.start_ms > now_ms else remaining_ms(record, now_ms)
    if left_ms == 0 and next_producer_id == NO_PRODUCER_ID and needs_producer_id(transactions, transactional_id):
        left_ms = NO_ID_RETRY_MS
    if left_ms > 0:
        return Decision([], False, [SetTimer(TransactionTimer(transactional_id), left_ms)])
    return Decision([prepare(record, is_commit=False, next_producer_id=next_producer_id, now_ms=now_ms)], True)


def decide_complete(transactions: Transactions, transactional_id: str, *, now_ms: int) -> TransactionDecision[bool]:
    """All markers are written. The reply is whether this completed the transaction."""
    record = transactions.get(transactional_id)
    if record is None or not record.state.is_prepared:
        return Decision([], False)
    completed = msgspec.structs.replace(
        record,
        # The last epoch stays: it is the one that the producer knew before it was told of this owner.
        producer_id=record.owner.producer_id,
        producer_epoch=record.owner.producer_epoch,
        state=State.COMPLETE_COMMIT if record.state.is_commit else State.COMPLETE_ABORT,
        partitions=(),
        update_ms=now_ms,
        previous_producer_id=record.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
    return Decision([completed], True)


def markers_due(record: TransactionRecord) -> MarkersDue | None:
    """The markers to write to the partitions of a prepared transaction; None if it is not prepared."""
    if not record.state.is_prepared:
        return None
    return MarkersDue(
        record.transactional_id,
        record.producer_id,
        record.producer_epoch,
        record.state.is_commit,
        record.version,
        tuple(record.partition_names()),
    )
