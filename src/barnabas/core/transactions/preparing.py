"""The step to a prepared transaction, taken by a request to end it, a new producer or a timeout.

With version 2 the epoch rises by one: the markers carry the new epoch, so that nothing still in flight under the old
one can become part of the next transaction (KIP-890). When the epochs of the id are used up, the producer continues
under `next_producer_id` once the transaction is complete.
"""

from typing import Final

import msgspec

from barnabas.core.coordination import CancelTimer
from barnabas.core.errors import ConcurrentTransactions
from barnabas.core.model import NO_PRODUCER_ID
from barnabas.core.transactions.decision import TransactionTimer
from barnabas.core.transactions.producers import MAX_EPOCH, is_exhausted
from barnabas.core.transactions.records import State, TransactionRecord

# The version whose end of a transaction raises the epoch. The coordinator itself always ends them so.
EPOCH_BUMP: Final = 2


def prepare(record: TransactionRecord, *, is_commit: bool, next_producer_id: int, now_ms: int) -> TransactionRecord:
    """Prepare the end of the transaction; its producer continues at the next epoch."""
    if not is_exhausted(record.producer_epoch):
        next_producer_id = NO_PRODUCER_ID
    elif next_producer_id == NO_PRODUCER_ID:
        raise ConcurrentTransactions(f"a new producer id for '{record.transactional_id}' is not available yet")
    return msgspec.structs.replace(
        record,
        state=State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT,
        producer_epoch=min(record.producer_epoch + 1, MAX_EPOCH),
        last_epoch=record.producer_epoch,
        previous_producer_id=record.producer_id,
        next_producer_id=next_producer_id,
        # An abort may come before anything was begun, when a producer does not know whether it was.
        start_ms=record.start_ms if record.state is State.ONGOING else now_ms,
        update_ms=now_ms,
        version=EPOCH_BUMP,
    )


def prepare_without_bump(record: TransactionRecord, *, is_commit: bool, now_ms: int) -> TransactionRecord:
    """Prepare the end of the transaction; its producer continues at the same epoch."""
    return msgspec.structs.replace(
        record,
        state=State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT,
        previous_producer_id=record.producer_id,
        update_ms=now_ms,
        version=0,
    )


def stop_timer(record: TransactionRecord) -> list[CancelTimer]:
    """Cancel the timer of a transaction that ends."""
    return [CancelTimer(TransactionTimer(record.transactional_id))] if record.state is State.ONGOING else []
