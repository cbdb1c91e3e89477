"""A classic group as it is now: its members, who waits for what, and how far the rebalance is.

Owns the soft state. What is replicated of a classic group is its last `ClassicGroupRecord`; a `LiveGroup` is made from
it when a request arrives, differs from it during a rebalance, and is dropped when the coordinator moves: members then
find the last complete generation, and join again.

Invariants: `support` counts the members that offer each protocol; at least one protocol is offered by all;
`joins_waiting` counts the members whose join waits; `static_members` has exactly the members with an instance id. Once
the record is applied, a live group that is stable or empty makes the same record.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from barnabas.core.coordination import Token
from barnabas.core.errors import BarnabasError, FencedInstanceId, RebalanceInProgress, UnknownMemberId
from barnabas.core.groups.classic.messages import JoinedMember, JoinReply, JoinRequest, Protocol, SyncReply
from barnabas.core.groups.decision import Effects
from barnabas.core.groups.records import ClassicGroupRecord, ClassicMember
from barnabas.core.groups.settings import ClassicConfig
from barnabas.core.groups.subscriptions import CONSUMER_PROTOCOL, parse_topics


class ClassicState(Enum):
    """The state of a group, with the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"  # members join
    COMPLETING_REBALANCE = "CompletingRebalance"  # the generation is there, its assignment is awaited
    STABLE = "Stable"
    DEAD = "Dead"  # what is said of a group that is not there


@dataclass(slots=True)
class LiveMember:
    """A member as of its last join, and its waiting requests."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    is_new: bool = False  # has never had an answer to a join, so it does not know its id
    join_token: Token[JoinReply] | None = None
    sync_token: Token[SyncReply] | None = None

    @property
    def is_waiting(self) -> bool:
        return self.join_token is not None or self.sync_token is not None

    def metadata_of(self, protocol: str | None) -> bytes:
        """The member's metadata for this protocol."""
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The first of its protocols that all support."""
        return next(offered.name for offered in self.protocols if offered.name in candidates)


@dataclass(slots=True)
class LiveGroup:
    """A classic group and its members, in the order they came."""

    group: str
    state: ClassicState = ClassicState.EMPTY
    state_time_ms: int = -1
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, LiveMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)  # member ids by instance id
    pending: dict[str, None] = field(default_factory=dict)  # ids given out, whose members have not joined with them
    unsynced: dict[str, None] = field(default_factory=dict)  # members that have not asked for their assignment
    support: dict[str, int] = field(default_factory=dict)
    joins_waiting: int = 0
    # Of the first rebalance after being empty, which waits for more members than those it knows.
    is_initial: bool = False
    has_newcomers: bool = False
    initial_rest_ms: int = 0

    @classmethod
    def from_record(cls, record: ClassicGroupRecord) -> "LiveGroup":
        """The group as of its last complete generation."""
        live = cls(
            record.group,
            ClassicState.STABLE if record.members else ClassicState.EMPTY,
            state_time_ms=record.state_time_ms,
            generation=record.generation,
            protocol_type=record.protocol_type,
            protocol=record.protocol,
        )
        for kept in record.members:
            live.add(
                LiveMember(
                    kept.member_id,
                    kept.instance_id,
                    kept.client_id,
                    kept.client_host,
                    kept.rebalance_timeout_ms,
                    kept.session_timeout_ms,
                    (Protocol(record.protocol or "", kept.subscription),),
                    kept.assignment,
                )
            )
        live.leader = record.leader
        return live

    def to_record(self) -> ClassicGroupRecord:
        """The record of the group: its current generation."""
        members = tuple(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata_of(self.protocol),
                member.assignment,
            )
            for member in self.members.values()
        )
        return ClassicGroupRecord(
            self.group, self.protocol_type, self.generation, self.protocol, self.leader, self.state_time_ms, members
        )

    # Questions.

    @property
    def is_idle(self) -> bool:
        """Whether the record describes the group completely."""
        return self.state is ClassicState.EMPTY and not self.pending

    @property
    def all_joined(self) -> bool:
        return self.joins_waiting == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> LiveMember:
        """The member of that id; refused when there is none, or another has its instance id."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise UnknownMemberId(f"group '{self.group}' has no member with instance id '{instance_id}'")
            if known != member_id:
                raise FencedInstanceId(f"instance id '{instance_id}' is now that of member '{known}'")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group '{self.group}' has no member '{member_id}'")
        return member

    def supports(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Whether a member with these protocols can join."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        count = len(self.members)
        return protocol_type == self.protocol_type and any(
            self.support.get(offered.name, 0) == count for offered in protocols
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes of those that all offer; the first voted for when there are several."""
        count = len(self.members)
        candidates = frozenset(name for name, supporters in self.support.items() if supporters == count)
        votes: dict[str, int] = {}
        for member in self.members.values():
            voted = member.vote(candidates)
            votes[voted] = votes.get(voted, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """The members, for the reply to the leader."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata_of(self.protocol))
            for member in self.members.values()
        )

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members of this generation read; None when they are not known."""
        if self.protocol_type != CONSUMER_PROTOCOL or (self.members and self.protocol is None):
            return None
        topics: set[str] = set()
        for member in self.members.values():
            parsed = parse_topics(member.metadata_of(self.protocol))
            if parsed is None:
                return None
            topics |= parsed
        return frozenset(topics)

    # Changes.

    def move_to(self, state: ClassicState, now_ms: int) -> None:
        self.state = state
        self.state_time_ms = now_ms

    def add(self, member: LiveMember) -> None:
        """Add a new member; the first one becomes the leader and sets the protocol type."""
        assert member.member_id not in self.members
        assert member.instance_id is None or member.instance_id not in self.static_members
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        self._count(member, 1)

    def remove(self, member: LiveMember, effects: Effects, refusal: BarnabasError) -> None:
        """Remove a member; its waiting requests are refused. If it was the leader, another becomes it."""
        self.answer_join(member, effects, refusal)
        self.answer_sync(member, effects, refusal)
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        self.unsynced.pop(member.member_id, None)
        self._count(member, -1)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, member: LiveMember, new_member_id: str, effects: Effects) -> None:
        """A static member has rejoined: it keeps its place under a new id, and the old id is fenced."""
        fenced = FencedInstanceId(f"instance id '{member.instance_id}' is now that of member '{new_member_id}'")
        self.answer_join(member, effects, fenced)
        self.answer_sync(member, effects, fenced)
        old_member_id, member.member_id, member.is_new = member.member_id, new_member_id, False
        self.members = {kept.member_id: kept for kept in self.members.values()}
        assert member.instance_id is not None
        self.static_members[member.instance_id] = new_member_id
        self.unsynced.pop(old_member_id, None)
        if self.leader == old_member_id:
            self.leader = new_member_id

    def update(self, member: LiveMember, request: JoinRequest) -> None:
        """A member joins again, maybe with other protocols and timeouts."""
        self._count(member, -1)
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self._count(member, 1)

    def wait_join(self, member: LiveMember, token: Token[JoinReply], effects: Effects) -> None:
        """Let a join wait. An earlier one of the same member, of a lost connection, is told to retry."""
        self.answer_join(member, effects, RebalanceInProgress("the member has sent a newer request"))
        member.join_token = token
        self.joins_waiting += 1

    def answer_join(self, member: LiveMember, effects: Effects, answer: JoinReply | BarnabasError) -> None:
        if member.join_token is None:
            return
        effects.reply(member.join_token, answer)
        member.join_token = None
        self.joins_waiting -= 1

    def wait_sync(self, member: LiveMember, token: Token[SyncReply], effects: Effects) -> None:
        """Let a sync wait. An earlier one of the same member, of a lost connection, is told to join again."""
        self.answer_sync(member, effects, RebalanceInProgress("the member has sent a newer request"))
        member.sync_token = token

    def answer_sync(self, member: LiveMember, effects: Effects, answer: SyncReply | BarnabasError) -> bool:
        if member.sync_token is None:
            return False
        effects.reply(member.sync_token, answer)
        member.sync_token = None
        return True

    def _count(self, member: LiveMember, change: int) -> None:
        for name in {offered.name: None for offered in member.protocols}:
            count = self.support.get(name, 0) + change
            if count:
                self.support[name] = count
            else:
                del self.support[name]


@dataclass(slots=True)
class ClassicSoft:
    """The live classic groups of a coordinator, and their settings."""

    config: ClassicConfig = field(default_factory=ClassicConfig)
    live: dict[str, LiveGroup] = field(default_factory=dict)
