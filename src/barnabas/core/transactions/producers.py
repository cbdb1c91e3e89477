"""Which producer owns a transactional id, and when its epochs are exhausted.

A producer is refused by its id first, then by its epoch, as in Kafka. Between the end of a transaction and its last
marker the next owner counts: it is told to retry, any other is refused.
"""

from typing import Final

from barnabas.core.errors import ConcurrentTransactions, InvalidProducerIdMapping, InvalidRequest, ProducerFenced
from barnabas.core.transactions.records import TransactionRecord
from barnabas.core.transactions.transactions import Transactions

MAX_EPOCH: Final = 2**15 - 1
# No producer is given the highest epoch: it is left for the coordinator, to fence the one before with.
LAST_USED_EPOCH: Final = MAX_EPOCH - 1


def is_exhausted(producer_epoch: int) -> bool:
    """Whether a producer at this epoch can continue only under a new id."""
    return producer_epoch >= LAST_USED_EPOCH


def needs_producer_id(transactions: Transactions, transactional_id: str) -> bool:
    """Whether ending a transaction now needs a new producer id. An id that is not needed is left unused."""
    record = transactions.get(transactional_id)
    return record is not None and not record.state.is_prepared and is_exhausted(record.producer_epoch)


def check_transactional_id(transactional_id: str) -> None:
    if not transactional_id:
        raise InvalidRequest("the transactional id is empty")


def find(transactions: Transactions, transactional_id: str) -> TransactionRecord:
    """The record of a transactional id; refused if there is none."""
    check_transactional_id(transactional_id)
    record = transactions.get(transactional_id)
    if record is None:
        raise InvalidProducerIdMapping(f"transactional id '{transactional_id}' has no producer")
    return record


def check_owner(record: TransactionRecord, producer_id: int, producer_epoch: int) -> None:
    """Refuse all but the current producer of a transactional id."""
    owner = record.owner
    if producer_id != owner.producer_id:
        raise InvalidProducerIdMapping(
            f"producer {producer_id} does not own transactional id '{record.transactional_id}'"
        )
    if producer_epoch != owner.producer_epoch:
        raise ProducerFenced(
            f"producer {producer_id} of '{record.transactional_id}' is at epoch {owner.producer_epoch}, "
            f"not at {producer_epoch}"
        )


def check_not_prepared(record: TransactionRecord) -> None:
    """Refuse, with a retriable error, while the previous transaction is ending."""
    if record.state.is_prepared:
        raise still_ending(record)


def still_ending(record: TransactionRecord) -> ConcurrentTransactions:
    return ConcurrentTransactions(f"the last transaction of '{record.transactional_id}' is still being ended")
