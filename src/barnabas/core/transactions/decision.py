"""What a decision about transactions comes to. The contract with the runtime is `coordination`'s.

There is no state between two records, as Kafka has one while it appends: a decision counts for the next one at once,
and its reply is given when the log is durable.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from barnabas.core.coordination import TimerChange
from barnabas.core.transactions.records import TransactionEntry

T_co = TypeVar("T_co", covariant=True)


class TransactionTimer(NamedTuple):
    """The timer of an ongoing transaction: it has had its time, see `ending.decide_abort_expired`."""

    transactional_id: str


class Decision(NamedTuple, Generic[T_co]):
    """Records to append and apply as one, and the reply to give when that is done. No records: nothing changes."""

    records: Sequence[TransactionEntry]
    reply: T_co
    timers: Sequence[TimerChange] = ()
