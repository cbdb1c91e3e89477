"""A coordinator for tests: what the runtime does, with a clock that is moved by hand and a log in memory."""

from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple, TypeVar

from barnabas.core.coordination import SetTimer, TimerChange, Token
from barnabas.core.groups import offsets
from barnabas.core.groups.classic import decisions as classic
from barnabas.core.groups.classic.messages import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    LeftMember,
    Protocol,
    SyncReply,
    SyncRequest,
)
from barnabas.core.groups.classic.state import ClassicSoft, ClassicState
from barnabas.core.groups.decision import GroupDecision, GroupOutcome, TimerKey
from barnabas.core.groups.encoding import decode, encode_key, encode_value
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.offsets import CommitRequest, NewOffset, PartitionErrors
from barnabas.core.groups.records import ClassicGroupRecord, GroupEntry
from barnabas.core.groups.settings import ClassicConfig, OffsetsConfig

T = TypeVar("T")

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer, version 0."""
    names = b"".join(len(name.encode()).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


RANGE = (Protocol("range", subscription("t")),)


def replay(log: Iterable[tuple[bytes, bytes | None]]) -> Groups:
    groups = Groups()
    for key, value in log:
        groups.apply(decode(key, value))
    return groups


class Ticket(NamedTuple):
    """Whom a request is of; a test looks up the answer by it."""

    name: str

    def set_result(self, _answer: object, /) -> None:
        raise AssertionError("a decision hands its tokens back, and the runtime answers")


class Coordinator:
    """Decides, appends, applies, answers, and keeps the timers."""

    def __init__(self, config: ClassicConfig | None = None, offsets_config: OffsetsConfig | None = None) -> None:
        self.groups = Groups()
        self.soft = ClassicSoft(config or ClassicConfig())
        self.offsets_config = offsets_config or OffsetsConfig()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.now_ms = 1_000_000
        self.timers: dict[TimerKey, int] = {}
        self.asked: list[Token[Any]] = []
        self.answers: dict[Token[Any], object] = {}
        self.tokens = count(1)
        self.ids = count(1)

    # What the runtime does.

    def run(self, outcome: GroupOutcome) -> None:
        self._append(outcome.records)
        for token, answer in outcome.replies:
            assert token in self.asked, f"nobody waits with {token}"
            assert token not in self.answers, f"{token} is answered twice"
            self.answers[token] = answer
        self._set(outcome.timers)

    def take(self, decision: GroupDecision[T]) -> T:
        self._append(decision.records)
        self._set(decision.timers)
        return decision.reply

    def _append(self, records: Iterable[GroupEntry]) -> None:
        for record in records:
            self.log.append((encode_key(record), encode_value(record)))
            self.groups.apply(record)

    def _set(self, changes: Iterable[TimerChange]) -> None:
        for change in changes:
            assert isinstance(change.key, TimerKey)
            if isinstance(change, SetTimer):
                assert change.delay_ms >= 0
                self.timers[change.key] = self.now_ms + change.delay_ms
            else:
                self.timers.pop(change.key, None)

    def fire_next(self) -> bool:
        """Move the clock to the next timer and fire it."""
        if not self.timers:
            return False
        key = min(self.timers, key=lambda key: (self.timers[key], key))
        self.now_ms = max(self.now_ms, self.timers.pop(key))
        self.run(classic.on_timer(self.groups, self.soft, key, now_ms=self.now_ms))
        return True

    def pass_ms(self, delay_ms: int) -> None:
        """Move the clock and fire what is due, in order."""
        end_ms = self.now_ms + delay_ms
        while self.timers and min(self.timers.values()) <= end_ms:
            self.fire_next()
        self.now_ms = end_ms

    def fail_over(self) -> None:
        """Another node coordinates: it has the log and nothing else. Whoever waited has lost its connection."""
        self.groups = replay(self.log)
        self.soft = ClassicSoft(self.soft.config)
        self.timers = {}
        self.asked = [token for token in self.asked if token in self.answers]
        self._set(classic.timers_after_load(self.groups))

    # What members ask.

    def _token(self) -> Token[Any]:
        token = Ticket(str(next(self.tokens)))
        self.asked.append(token)
        return token

    def join(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        *,
        group: str = GROUP,
        protocols: tuple[Protocol, ...] = RANGE,
        protocol_type: str = "consumer",
        session_timeout_ms: int = SESSION_MS,
        rebalance_timeout_ms: int = REBALANCE_MS,
        version: int = 9,
    ) -> Token[Any]:
        token = self._token()
        request = JoinRequest(
            group=group,
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/host",
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocol_type=protocol_type,
            protocols=protocols,
            requires_member_id=version >= 4,
            skips_assignment=version >= 9,
        )
        new_member_id = f"m{next(self.ids)}"
        self.run(
            classic.join(self.groups, self.soft, request, token=token, now_ms=self.now_ms, new_member_id=new_member_id)
        )
        return token

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol: str | None = "range",
        group: str = GROUP,
    ) -> Token[Any]:
        token = self._token()
        request = SyncRequest(
            group=group,
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments=tuple((assignments or {}).items()),
        )
        self.run(classic.sync(self.groups, self.soft, request, token=token, now_ms=self.now_ms))
        return token

    def heartbeat(
        self, member_id: str, generation: int, instance_id: str | None = None, *, group: str = GROUP
    ) -> object:
        token = self._token()
        request = HeartbeatRequest(group=group, generation=generation, member_id=member_id, instance_id=instance_id)
        self.run(classic.heartbeat(self.groups, self.soft, request, token=token))
        return self.answers[token]

    def leave(self, *members: LeavingMember, group: str = GROUP) -> object:
        token = self._token()
        request = LeaveRequest(group=group, members=members)
        self.run(classic.leave(self.groups, self.soft, request, token=token, now_ms=self.now_ms))
        return self.answers[token]

    def commit(
        self,
        *new: NewOffset,
        group: str = GROUP,
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
        retention_ms: int = -1,
    ) -> PartitionErrors:
        request = CommitRequest(
            group=group,
            offsets=new or (NewOffset("t", 0, 7),),
            generation=generation,
            member_id=member_id,
            instance_id=instance_id,
            retention_ms=retention_ms,
        )
        return self.take(
            offsets.commit(self.groups, self.soft, request, config=self.offsets_config, now_ms=self.now_ms)
        )

    # In fewer words.

    def joined(self, token: Token[Any]) -> JoinReply:
        answer = self.answers[token]
        assert isinstance(answer, JoinReply), answer
        return answer

    def synced(self, token: Token[Any]) -> SyncReply:
        answer = self.answers[token]
        assert isinstance(answer, SyncReply), answer
        return answer

    def left(self, *members: LeavingMember) -> list[type | None]:
        """What became of each."""
        answer = self.leave(*members)
        assert isinstance(answer, tuple)
        kinds: list[type | None] = []
        for one in answer:
            assert isinstance(one, LeftMember)
            kinds.append(None if one.error is None else type(one.error))
        return kinds

    def state(self, group: str = GROUP) -> ClassicState:
        live = classic.find(self.groups, self.soft, group)
        return ClassicState.DEAD if live is None else live.state

    def record(self, group: str = GROUP) -> ClassicGroupRecord:
        return self.groups.classic[group]

    def stable_group(self, size: int = 2, *, static: bool = False) -> list[str]:
        """Members of a group in generation 1, each with an assignment; the first one leads."""
        tokens = [self.join(instance_id=f"i{number}" if static else None, version=3) for number in range(size)]
        while not all(token in self.answers for token in tokens):
            self.fire_next()
        ids = [self.joined(token).member_id for token in tokens]
        syncs = [self.sync(member_id, 1) for member_id in ids[1:]]
        syncs.append(self.sync(ids[0], 1, {member_id: member_id.encode() for member_id in ids}))
        assert all(token in self.answers for token in syncs)
        assert self.state() is ClassicState.STABLE
        return ids
