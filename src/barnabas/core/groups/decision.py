"""What a decision about groups comes to: facts to write down, answers once they are, timers to set.

`core.coordination` has the contract with the runtime. When an append is refused, so is what the group's other requests
wait for: see `classic.reset`.
"""

from collections.abc import Sequence
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from barnabas.core.coordination import CancelTimer, Reply, SetTimer, TimerChange, Token
from barnabas.core.errors import BarnabasError
from barnabas.core.groups.records import GroupEntry

__all__ = ("CancelTimer", "Decision", "Effects", "Outcome", "Reply", "SetTimer", "TimerChange", "TimerKey", "Token")

T_co = TypeVar("T_co", covariant=True)

TimerKind: TypeAlias = Literal["join", "sync", "session", "rebalance", "regex"]
JOIN: Final = "join"  # of a classic group: members have had their time to join
SYNC: Final = "sync"  # of a classic group: members have had their time to fetch their assignment
SESSION: Final = "session"  # of a member, classic or consumer: nothing was heard of it
REBALANCE: Final = "rebalance"  # of a consumer group's member: it has had its time to revoke
REGEX: Final = "regex"  # of a consumer group: there are expressions to be matched with the topics


class TimerKey(NamedTuple):
    """What a timer is for; there is at most one for each."""

    kind: TimerKind
    group: str
    member_id: str = ""


class Decision(NamedTuple, Generic[T_co]):
    """Records to append and apply as one, and the reply to give when that is done. No records: nothing changes."""

    records: Sequence[GroupEntry]
    reply: T_co
    timers: Sequence[TimerChange] = ()


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
