"""What a coordinator's decisions ask of the runtime that carries them out, whatever they are about: answers and timers.

The contract with that runtime, which drives one coordinator for each partition of a log of decisions:
1. One decision at a time: decide, append the records as one batch, apply each, with no other decision between.
2. Answers are given once everything that was in the log at that time is durable, those of decisions without records
   too: they speak of facts that an earlier decision wrote.
3. Timers count from the decision, on a clock that never goes back. A timer that is set again or cancelled does not
   fire. A timer that fires is gone; its decision follows the same three rules.
4. When the append is refused, the answers of this decision become that refusal. When leadership goes, all is dropped
   and loaded again.

Decisions may change soft state at once, replicated state never.
"""

from collections.abc import Hashable
from typing import NamedTuple, TypeAlias

from barnabas.core.errors import BarnabasError

# Whom to answer: whatever the caller gave with the request, which is never looked at. None is nobody.
Token: TypeAlias = object


class Reply(NamedTuple):
    """The answer to a request that came with this token: what it asked for, or a refusal."""

    token: Token
    answer: object | BarnabasError


class SetTimer(NamedTuple):
    """Start a timer, or start it over. Its key says what it is for; there is at most one for each."""

    key: Hashable
    delay_ms: int


class CancelTimer(NamedTuple):
    """Stop a timer if there is one."""

    key: Hashable


TimerChange: TypeAlias = SetTimer | CancelTimer


class Within(NamedTuple):
    """The transaction that records are written in: they count once it is committed."""

    producer_id: int
    epoch: int
