"""Decisions about transactions, and their timer. The contract with the runtime is that of `core.coordination`.

There is no pending state between two records, as Kafka has one while it appends: a decision is visible to the next one
at once, and its reply is sent when the log is durable.
"""

from typing import NamedTuple, TypeAlias, TypeVar

from barnabas.core.coordination import Decision
from barnabas.core.transactions.records import TransactionEntry

T = TypeVar("T")

TransactionDecision: TypeAlias = Decision[TransactionEntry, T]


class TransactionTimer(NamedTuple):
    """The timer of an ongoing transaction: when it fires, see `ending.decide_abort_expired`."""

    transactional_id: str
