"""What time does to transactional ids, and the timers of a coordinator that has read its log."""

import pytest

from barnabas.core.coordination import SetTimer
from barnabas.core.transactions.decision import TransactionTimer
from barnabas.core.transactions.expiring import decide_expiry, timers_after_load
from barnabas.core.transactions.records import State, TransactionRecord, TransactionTombstone
from barnabas.core.transactions.transactions import Transactions

NOW_MS = 1_000_000
RETENTION_MS = 1_000


def transactions_of(*records: TransactionRecord) -> Transactions:
    return Transactions({record.transactional_id: record for record in records})


def old(name: str, state: State = State.EMPTY, age_ms: int = RETENTION_MS) -> TransactionRecord:
    return TransactionRecord(name, 1, 0, 60_000, state, start_ms=NOW_MS - 500, update_ms=NOW_MS - age_ms)


@pytest.mark.parametrize("state", State)
def test_only_ids_without_a_transaction_expire(state: State) -> None:
    decision = decide_expiry(transactions_of(old("x", state)), retention_ms=RETENTION_MS, now_ms=NOW_MS)
    expires = state in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
    assert decision == ([TransactionTombstone("x")] if expires else [], int(expires), ())


def test_an_id_that_was_used_within_the_retention_stays() -> None:
    transactions = transactions_of(old("young", age_ms=RETENTION_MS - 1), old("old"))
    decision = decide_expiry(transactions, retention_ms=RETENTION_MS, now_ms=NOW_MS)
    assert decision.records == [TransactionTombstone("old")]


def test_as_many_expire_at_once_as_the_limit_says_in_order() -> None:
    transactions = transactions_of(old("c"), old("a"), old("b"))
    for expected in (["a", "b"], ["c"], []):
        decision = decide_expiry(transactions, retention_ms=RETENTION_MS, now_ms=NOW_MS, limit=2)
        assert [entry.transactional_id for entry in decision.records] == expected
        assert decision.reply == len(expected)
        for entry in decision.records:
            transactions.apply(entry)
    assert transactions == Transactions()


def test_after_a_load_ongoing_transactions_have_the_rest_of_their_time() -> None:
    def ongoing(name: str, start_ms: int) -> TransactionRecord:
        return TransactionRecord(name, 1, 0, 60_000, State.ONGOING, start_ms=start_ms)

    transactions = transactions_of(
        ongoing("half", NOW_MS - 30_000),
        ongoing("over", NOW_MS - 90_000),
        ongoing("future", NOW_MS + 90_000),
        *(old(f"other{state}", state) for state in State if state is not State.ONGOING),
    )
    assert timers_after_load(transactions, NOW_MS) == [
        SetTimer(TransactionTimer("future"), 60_000),
        SetTimer(TransactionTimer("half"), 30_000),
        SetTimer(TransactionTimer("over"), 0),
    ]
