"""The partitions of a transaction: adding them, and verifying that they were added.

A partition is added before anything is written to it, so that its marker is written even if the producer dies. Clients
of version 2 do not add partitions: the leader of the partition does, when they write to it (KIP-890). For older ones it
verifies that they did.
"""

from collections.abc import Iterable, Sequence

import msgspec

from barnabas.core.coordination import Decision, SetTimer
from barnabas.core.errors import BarnabasError, TransactionAbortable
from barnabas.core.model import TopicPartition
from barnabas.core.transactions.decision import TransactionDecision, TransactionTimer
from barnabas.core.transactions.preparing import EPOCH_BUMP
from barnabas.core.transactions.producers import check_not_prepared, check_owner, find
from barnabas.core.transactions.records import State, TransactionRecord
from barnabas.core.transactions.transactions import Transactions


def decide_add(
    transactions: Transactions,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Sequence[TopicPartition],
    *,
    version: int,
    now_ms: int,
) -> TransactionDecision[None]:
    """AddPartitionsToTxn and AddOffsetsToTxn: the first of a transaction begins it."""
    record = find(transactions, transactional_id)
    check_owner(record, producer_id, producer_epoch)
    check_not_prepared(record)
    is_ongoing = record.state is State.ONGOING
    if is_ongoing and record.has_partitions(partitions):
        return Decision([], None)
    added = msgspec.structs.replace(
        record,
        state=State.ONGOING,
        partitions=_merged(record, partitions),
        start_ms=record.start_ms if is_ongoing else now_ms,
        update_ms=now_ms,
        previous_producer_id=record.producer_id,
        version=EPOCH_BUMP if version >= EPOCH_BUMP else 0,
    )
    timers = [] if is_ongoing else [SetTimer(TransactionTimer(transactional_id), record.timeout_ms)]
    return Decision([added], None, timers)


def _merged(record: TransactionRecord, partitions: Iterable[TopicPartition]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    by_topic = {topic: {*numbers} for topic, numbers in record.partitions}
    for topic, number in partitions:
        by_topic.setdefault(topic, set()).add(number)
    return tuple((topic, tuple(sorted(numbers))) for topic, numbers in sorted(by_topic.items()))


def verify(
    transactions: Transactions,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
) -> dict[TopicPartition, BarnabasError | None]:
    """Verify that each partition is part of the transaction: None if it is, else the refusal.

    Raises refusals of the whole request.
    """
    record = find(transactions, transactional_id)
    check_owner(record, producer_id, producer_epoch)
    check_not_prepared(record)
    return {
        partition: None
        if record.has_partitions((partition,))
        else TransactionAbortable(f"{partition} was not added to the transaction of '{transactional_id}'")
        for partition in partitions
    }
