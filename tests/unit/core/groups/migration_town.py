"""A coordinator of both kinds of groups for tests, and a group of classic members that may be converted."""

from barnabas.core.coordination import SetTimer
from barnabas.core.errors import BarnabasError, RebalanceInProgress
from barnabas.core.groups.classic import decisions as classic
from barnabas.core.groups.classic.messages import HeartbeatRequest, JoinReply, JoinRequest, SyncReply, SyncRequest
from barnabas.core.groups.classic.state import ClassicSoft, ClassicState
from barnabas.core.groups.consumer import classic_members
from barnabas.core.groups.consumer.decisions import decide_heartbeat
from barnabas.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
from barnabas.core.groups.decision import JOIN, GroupOutcome, TimerKey
from barnabas.core.groups.embedded import (
    EmbeddedAssignment,
    Partitions,
    Subscription,
    build_assignment,
    build_subscription,
    parse_assignment,
)
from barnabas.core.groups.migration import downgraded_to
from barnabas.core.groups.records import ClassicProtocol
from barnabas.core.groups.settings import ConsumerConfig
from tests.unit.core.groups.classic.driver import Ticket
from tests.unit.core.groups.consumer.world import GROUP, World, topics


class Town(World):
    """A coordinator of both kinds of groups, driven as the runtime does it."""

    def __init__(self, config: ConsumerConfig | None = None, **counts: int) -> None:
        super().__init__(topics(**(counts or {"orders": 4})), config)
        self.soft = ClassicSoft()
        self.answers: dict[object, object] = {}

    def take_outcome(self, outcome: GroupOutcome) -> None:
        for entry in outcome.records:
            self.log.append(entry)
            self.groups.apply(entry)
        for reply in outcome.replies:
            assert isinstance(reply.token, Ticket)
            self.answers[reply.token.name] = reply.answer
        for change in outcome.timers:
            assert isinstance(change.key, TimerKey)
            if isinstance(change, SetTimer):
                self.timers[change.key] = self.now_ms + change.delay_ms
            else:
                self.timers.pop(change.key, None)

    def heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
        known = self.groups.consumer.get(GROUP)
        decision = decide_heartbeat(
            known if known is not None else classic.find(self.groups, self.soft, GROUP),
            request,
            now_ms=self.now_ms,
            new_member_id="made-by-server",
            topics=self.topics,
            config=self.config,
        )
        if known is None:
            self.take_outcome(classic.reset(self.groups, self.soft, GROUP, RebalanceInProgress("converted")))
        self.take(decision)
        downgraded = downgraded_to(decision)
        if downgraded is not None:
            self.take_outcome(classic.take_over(self.soft, downgraded, now_ms=self.now_ms))
        return decision.reply

    def classic_join(self, member_id: str, *names: str, **fields: object) -> object:
        """Answered now, or later under the token that is the member's id."""
        owned: Partitions = fields.pop("owned", {})  # type: ignore[assignment]
        metadata = build_subscription(Subscription(3, names, owned=owned))
        given: dict[str, object] = {
            "protocols": (ClassicProtocol("range", metadata),),
            "protocol_type": "consumer",
            "requires_member_id": False,
        } | fields
        new_member_id = str(given.pop("new_member_id", member_id))
        request = JoinRequest(
            group=GROUP,
            member_id=member_id if GROUP in self.groups.consumer or self._knows(member_id) else "",
            session_timeout_ms=20_000,
            rebalance_timeout_ms=10_000,
            **given,  # type: ignore[arg-type]
        )
        if GROUP not in self.groups.consumer:
            self.take_outcome(
                classic.join(
                    self.groups,
                    self.soft,
                    request,
                    token=Ticket(member_id),
                    now_ms=self.now_ms,
                    new_member_id=new_member_id,
                )
            )
            return self.answers.pop(member_id, None)
        return self.join_consumer(request, new_member_id)

    def join_consumer(self, request: JoinRequest, new_member_id: str = "new") -> JoinReply:
        decision = classic_members.decide_join(
            self.group,
            request,
            now_ms=self.now_ms,
            new_member_id=new_member_id,
            topics=self.topics,
            config=self.config,
        )
        self.take(decision)
        downgraded = downgraded_to(decision)
        if downgraded is not None:
            self.take_outcome(classic.take_over(self.soft, downgraded, now_ms=self.now_ms))
        return decision.reply

    def _knows(self, member_id: str) -> bool:
        live = classic.find(self.groups, self.soft, GROUP)
        return live is not None and member_id in live.members

    def classic_sync(self, member_id: str, generation: int) -> Partitions | BarnabasError:
        decision = classic_members.decide_sync(
            self.group,
            SyncRequest(group=GROUP, generation=generation, member_id=member_id),
            now_ms=self.now_ms,
            topics=self.topics,
            config=self.config,
        )
        self.take(decision)
        if isinstance(decision.reply, SyncReply):
            return parse_assignment(decision.reply.assignment).partitions
        return decision.reply

    def classic_beat(self, member_id: str, generation: int) -> BarnabasError | None:
        decision = classic_members.decide_heartbeat(
            self.group,
            HeartbeatRequest(group=GROUP, generation=generation, member_id=member_id),
            now_ms=self.now_ms,
            topics=self.topics,
            config=self.config,
        )
        self.take(decision)
        return decision.reply

    def stable_classic_group(self, **assignments: tuple[int, ...]) -> None:
        """A classic group in its first generation, whose members have these partitions of orders."""
        for member_id in assignments:
            self.classic_join(member_id, "orders")
        self.take_outcome(classic.on_timer(self.groups, self.soft, TimerKey(JOIN, GROUP), now_ms=self.now_ms + 60_000))
        live = classic.find(self.groups, self.soft, GROUP)
        assert live is not None
        if live.state is ClassicState.PREPARING_REBALANCE:
            self.take_outcome(classic.on_timer(self.groups, self.soft, TimerKey(JOIN, GROUP), now_ms=self.now_ms))
        given = tuple(
            (member_id, build_assignment(EmbeddedAssignment(3, {"orders": partitions})))
            for member_id, partitions in assignments.items()
        )
        assert live.leader is not None
        for member_id in (live.leader, *(other for other in assignments if other != live.leader)):
            request = SyncRequest(group=GROUP, generation=1, member_id=member_id, assignments=given)
            self.take_outcome(
                classic.sync(self.groups, self.soft, request, token=Ticket(member_id), now_ms=self.now_ms)
            )
        assert live.state is ClassicState.STABLE
        self.answers.clear()


def town_with_classic_group() -> Town:
    town = Town()
    town.stable_classic_group(a=(0, 1), b=(2, 3))
    return town
