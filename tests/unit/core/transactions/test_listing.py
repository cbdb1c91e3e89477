"""ListTransactions and DescribeTransactions."""

from typing import Any

import pytest

from barnabas.core.errors import InvalidRegularExpression, InvalidRequest, TransactionalIdNotFound
from barnabas.core.transactions.listing import describe, list_transactions, unknown_states
from barnabas.core.transactions.records import State, TransactionRecord
from barnabas.core.transactions.transactions import Transactions

NOW_MS = 100_000
RECORDS = (
    TransactionRecord("pay-1", 11, 0, 60_000, State.ONGOING, start_ms=NOW_MS - 50),
    TransactionRecord("idle", 12, 0, 60_000, State.EMPTY),
    TransactionRecord("pay-2", 13, 0, 60_000, State.PREPARE_ABORT, start_ms=NOW_MS - 20),
)


@pytest.fixture
def transactions() -> Transactions:
    return Transactions({record.transactional_id: record for record in RECORDS})


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["idle", "pay-1", "pay-2"]),
        ({"states": ["Ongoing", "Empty"]}, ["idle", "pay-1"]),
        ({"states": ["Ongoing", "Nonsense"]}, ["pay-1"]),
        ({"states": ["Nonsense"]}, []),
        ({"states": ["ongoing"]}, []),
        ({"producer_ids": [13, 12, 99]}, ["idle", "pay-2"]),
        ({"longer_than_ms": -1}, ["idle", "pay-1", "pay-2"]),
        ({"longer_than_ms": 0}, ["idle", "pay-1", "pay-2"]),
        ({"longer_than_ms": 20}, ["idle", "pay-1"]),
        ({"longer_than_ms": 50}, ["idle"]),
        ({"id_pattern": ""}, ["idle", "pay-1", "pay-2"]),
        ({"id_pattern": "pay-.*"}, ["pay-1", "pay-2"]),
        ({"id_pattern": "pay"}, []),
        ({"id_pattern": "ay-1|idle"}, ["idle"]),
        ({"states": ["Ongoing"], "producer_ids": [13]}, []),
        ({"states": ["Ongoing"], "producer_ids": [11], "longer_than_ms": 10, "id_pattern": ".*1"}, ["pay-1"]),
    ],
)
def test_every_filter_has_to_let_an_id_through(
    transactions: Transactions, filters: dict[str, Any], names: list[str]
) -> None:
    found = list_transactions(transactions, **filters, now_ms=NOW_MS)
    assert [record.transactional_id for record in found] == names


@pytest.mark.parametrize("pattern", ["(", "(?=a)", "\\1", "a" * 4097, "\ud800"])
def test_a_pattern_that_is_none_is_refused(transactions: Transactions, pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        list_transactions(transactions, id_pattern=pattern, now_ms=NOW_MS)


def test_names_that_are_no_state_are_told_from_those_that_are() -> None:
    names = ["Empty", "x", "PrepareCommit", "Dead", "PrepareEpochFence", "ongoing"]
    assert unknown_states(names) == ["x", "ongoing"]


def test_an_id_is_described(transactions: Transactions) -> None:
    assert describe(transactions, "idle") == RECORDS[1]


def test_an_id_that_is_not_known_is_not_described(transactions: Transactions) -> None:
    with pytest.raises(TransactionalIdNotFound):
        describe(transactions, "another")
    with pytest.raises(InvalidRequest):
        describe(transactions, "")
