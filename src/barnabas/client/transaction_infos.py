"""The description of a transaction. Separate from `transaction_admin`, which most programs never load."""

from dataclasses import dataclass
from typing import Final

from barnabas.core.model import TopicPartition

HANGING_S: Final = 900.0  # transaction.max.timeout.ms as clusters have it: no honest transaction is older


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """A transactional id in a listing; `coordinator` is the node that coordinates it."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionDetails:
    """A transactional id. `start_ms` and `age_seconds` are None if no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    age_seconds: float | None
    partitions: tuple[TopicPartition, ...]
    coordinator: int


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition since `start_offset`, for which its producer's last record was written
    `age_seconds` ago. `transactional_id` is None if no coordinator knows the producer.
    """

    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    age_seconds: float
    transactional_id: str | None
