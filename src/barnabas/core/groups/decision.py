"""What a decision about groups comes to: facts to write down, answers once they are, timers to set.

The contract with the runtime that drives a coordinator, one for each partition of the coordinator log:
1. One decision at a time: decide, append the records as one batch, `Groups.apply` each, with no other decision between.
2. Answers are given once everything that was in the log at that time is durable, those of decisions without records
   too: they speak of facts that an earlier decision wrote.
3. Timers count from the decision, on a clock that never goes back. A timer that is set again or cancelled does not
   fire. A timer that fires is gone; its decision follows the same three rules.
4. When the append is refused, the answers of this decision become that refusal, and so do those that the group's other
   requests wait for: see `classic.reset`. When leadership goes, all is dropped and loaded again.

Decisions may change soft state at once, replicated state never.
"""

from collections.abc import Sequence
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from barnabas.core.errors import BarnabasError
from barnabas.core.groups.records import GroupEntry

T_co = TypeVar("T_co", covariant=True)

# Whom to answer: whatever the caller gave with the request, which is never looked at. None is nobody.
Token: TypeAlias = object

TimerKind: TypeAlias = Literal["join", "sync", "session", "rebalance"]
JOIN: Final = "join"  # of a classic group: members have had their time to join
SYNC: Final = "sync"  # of a classic group: members have had their time to fetch their assignment
SESSION: Final = "session"  # of a member, classic or consumer: nothing was heard of it
REBALANCE: Final = "rebalance"  # of a consumer group's member: it has had its time to revoke


class TimerKey(NamedTuple):
    """What a timer is for; there is at most one for each."""

    kind: TimerKind
    group: str
    member_id: str = ""


class SetTimer(NamedTuple):
    """Start a timer, or start it over."""

    key: TimerKey
    delay_ms: int


class CancelTimer(NamedTuple):
    """Stop a timer if there is one."""

    key: TimerKey


TimerChange: TypeAlias = SetTimer | CancelTimer


class Decision(NamedTuple, Generic[T_co]):
    """Records to append and apply as one, and the reply to give when that is done. No records: nothing changes."""

    records: Sequence[GroupEntry]
    reply: T_co
    timers: Sequence[TimerChange] = ()


class Reply(NamedTuple):
    """The answer to a request that came with this token: what it asked for, or a refusal."""

    token: Token
    answer: object | BarnabasError


class Outcome(NamedTuple):
    """A decision that answers any number of requests: the one that was made, others that waited, or none yet."""

    records: Sequence[GroupEntry] = ()
    replies: Sequence[Reply] = ()
    timers: Sequence[TimerChange] = ()


class Effects:
    """Gathers an outcome while it is being decided."""

    __slots__ = ("records", "replies", "timers")

    def __init__(self) -> None:
        self.records: list[GroupEntry] = []
        self.replies: list[Reply] = []
        self.timers: list[TimerChange] = []

    def reply(self, token: Token, answer: object | BarnabasError) -> None:
        if token is not None:
            self.replies.append(Reply(token, answer))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        self.timers.append(SetTimer(key, delay_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        self.timers.append(CancelTimer(key))

    def outcome(self) -> Outcome:
        return Outcome(self.records, self.replies, self.timers)
