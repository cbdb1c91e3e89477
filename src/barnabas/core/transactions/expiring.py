"""Timeouts: transactional ids that are not used expire, and transactions that take too long are found."""

from barnabas.core.coordination import Decision, SetTimer, TimerChange
from barnabas.core.transactions.decision import TransactionDecision, TransactionTimer
from barnabas.core.transactions.records import State, TransactionRecord, TransactionTombstone
from barnabas.core.transactions.transactions import Transactions


def decide_expiry(
    transactions: Transactions, *, retention_ms: int, now_ms: int, limit: int = 1000
) -> TransactionDecision[int]:
    """Delete ids without a transaction whose last change is `transactional.id.expiration.ms` ago, up to a limit. The
    reply is their number.
    """
    expired = [
        name
        for name, record in transactions.by_id.items()
        if (record.state is State.EMPTY or record.state.is_complete) and record.update_ms <= now_ms - retention_ms
    ]
    expired = sorted(expired)[:limit]
    return Decision([TransactionTombstone(name) for name in expired], len(expired))


def remaining_ms(record: TransactionRecord, now_ms: int) -> int:
    """How long a transaction may still take. Never more than its timeout: the clock of the coordinator that saw it
    begin may have been ahead.
    """
    return min(max(record.start_ms + record.timeout_ms - now_ms, 0), record.timeout_ms)


def timers_after_load(transactions: Transactions, now_ms: int) -> list[TimerChange]:
    """The timers of all ongoing transactions, for a coordinator that has read its log."""
    return [
        SetTimer(TransactionTimer(record.transactional_id), remaining_ms(record, now_ms))
        for record in transactions.to_records()
        if record.state is State.ONGOING
    ]
