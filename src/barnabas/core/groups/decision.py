"""Decisions about groups: their timers, and the collection of an outcome while it is being decided.

`core.coordination` has the contract with the runtime. When an append is refused, so are the group's waiting requests:
see `routing.give_up`.
"""

from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from barnabas.core.coordination import CancelTimer, Decision, Outcome, Reply, SetTimer, TimerChange, Token
from barnabas.core.errors import BarnabasError
from barnabas.core.groups.records import GroupEntry

T = TypeVar("T")

GroupDecision: TypeAlias = Decision[GroupEntry, T]
GroupOutcome: TypeAlias = Outcome[GroupEntry]

TimerKind: TypeAlias = Literal["join", "sync", "session", "rebalance", "regex"]
JOIN: Final = "join"  # of a classic group: members have had their time to join
SYNC: Final = "sync"  # of a classic group: members have had their time to fetch their assignment
SESSION: Final = "session"  # of a member, classic or consumer: nothing was heard of it
REBALANCE: Final = "rebalance"  # of a consumer group's member: it has had its time to revoke
REGEX: Final = "regex"  # of a consumer group: there are expressions to be matched with the topics


class TimerKey(NamedTuple):
    """Identifies a timer; there is at most one for each key."""

    kind: TimerKind
    group: str
    member_id: str = ""


class Effects:
    """Collects an outcome while it is being decided."""

    __slots__ = ("records", "replies", "timers")

    def __init__(self) -> None:
        self.records: list[GroupEntry] = []
        self.replies: list[Reply[Any]] = []
        self.timers: list[TimerChange] = []

    def reply(self, token: Token[T], answer: T | BarnabasError) -> None:
        self.replies.append(Reply(token, answer))

    def set_timer(self, key: TimerKey, delay_ms: int) -> None:
        self.timers.append(SetTimer(key, delay_ms))

    def cancel_timer(self, key: TimerKey) -> None:
        self.timers.append(CancelTimer(key))

    def outcome(self) -> GroupOutcome:
        return Outcome(self.records, self.replies, self.timers)
