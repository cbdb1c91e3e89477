"""Administration of transactions: ListTransactions, DescribeTransactions."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from barnabas.core.errors import TransactionalIdNotFound
from barnabas.core.regexes import matcher_of
from barnabas.core.transactions.producers import check_transactional_id
from barnabas.core.transactions.records import State, TransactionRecord
from barnabas.core.transactions.transactions import Transactions

# Kafka has two more states, in which a listing never shows anything.
_KNOWN_STATES: Final = frozenset({*(state.label for state in State), "Dead", "PrepareEpochFence"})


def unknown_states(names: Iterable[str]) -> list[str]:
    """The unknown states among the names."""
    return [name for name in names if name not in _KNOWN_STATES]


def list_transactions(
    transactions: Transactions,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int = -1,
    id_pattern: str | None = None,
    now_ms: int,
) -> list[TransactionRecord]:
    """The transactional ids that match every filter, in order. An empty filter matches all; one of only unknown states
    none. The pattern is RE2's and has to match the whole id.
    """
    matches = _matcher_of(id_pattern)
    return [
        record
        for record in transactions.to_records()
        if (not states or record.state.label in states)
        and (not producer_ids or record.producer_id in producer_ids)
        # An id that has begun nothing has always been at it, as in Kafka.
        and (longer_than_ms < 0 or now_ms - record.start_ms > longer_than_ms)
        and matches(record.transactional_id)
    ]


def _matcher_of(pattern: str | None) -> Callable[[str], bool]:
    return matcher_of(pattern, what="the pattern of transactional ids") if pattern else _matches_all


def _matches_all(_: str) -> bool:
    return True


def describe(transactions: Transactions, transactional_id: str) -> TransactionRecord:
    """A transactional id; refused if it is unknown."""
    check_transactional_id(transactional_id)
    record = transactions.get(transactional_id)
    if record is None:
        raise TransactionalIdNotFound(f"transactional id '{transactional_id}' is not known")
    return record
