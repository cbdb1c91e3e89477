"""The result of a coordinator's decision, which the runtime carries out: records, answers and timers.

The contract with that runtime, which runs one coordinator for each partition of an internal topic:
1. One decision at a time: decide, append the records as one batch, apply each, with no other decision between.
2. Answers are given once everything that was in the log at that time is durable, those of decisions without records
   too: they depend on what an earlier decision wrote.
3. Timers count from the decision, on a clock that never goes back. A timer that is set again or cancelled does not
   fire. A timer that fires is gone; its decision follows the same three rules.
4. When the append is refused, the answers of this decision become that refusal. When leadership moves, everything is
   dropped and loaded again.

Decisions may change soft state at once, replicated state never.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from barnabas.core.errors import BarnabasError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
E_co = TypeVar("E_co", covariant=True)


class Token(Protocol[T_contra]):
    """Identifies the request to answer: the caller passes it with the request, and decisions only return it."""

    def set_result(self, answer: T_contra, /) -> None: ...


class Reply(NamedTuple, Generic[T]):
    """The answer to the request of this token: its result, or a refusal."""

    token: Token[T]
    answer: T | BarnabasError


class SetTimer(NamedTuple):
    """Start a timer, or restart it. Its key identifies it; there is at most one for each key."""

    key: Hashable
    delay_ms: int


class CancelTimer(NamedTuple):
    """Stop a timer if there is one."""

    key: Hashable


TimerChange: TypeAlias = SetTimer | CancelTimer


class Decision(NamedTuple, Generic[E_co, T_co]):
    """Records to append and apply atomically, and the reply once that is done. Without records nothing changes."""

    records: Sequence[E_co]
    reply: T_co
    timers: Sequence[TimerChange] = ()


class Outcome(NamedTuple, Generic[E_co]):
    """A decision that answers any number of requests: the current one, waiting ones, or none yet."""

    records: Sequence[E_co] = ()
    replies: Sequence[Reply[Any]] = ()
    timers: Sequence[TimerChange] = ()


class Within(NamedTuple):
    """The transaction that records are written in: they take effect once it is committed."""

    producer_id: int
    producer_epoch: int
