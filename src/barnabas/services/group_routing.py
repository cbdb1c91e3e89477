"""Takes a request to the side that its group is on, classic or consumer (KIP-848), and carries out what is decided.

Owns the seam between the two: a classic group becomes a consumer group when a member of the new protocol joins it, and
classic again when the last one leaves. Members of the classic protocol are served on both sides. Offsets belong to the
name of a group and are not concerned.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from barnabas.core.errors import BarnabasError, RebalanceInProgress
from barnabas.core.groups import classic, consumer, consumer_classic
from barnabas.core.groups.classic_messages import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from barnabas.core.groups.classic_state import LiveGroup
from barnabas.core.groups.consumer_messages import ConsumerConfig, ConsumerHeartbeat
from barnabas.core.groups.consumer_state import ConsumerGroup
from barnabas.core.groups.decision import Decision, Outcome, Reply, TimerChange, TimerKey, Token
from barnabas.core.groups.migration import is_downgrade
from barnabas.core.groups.placing import TopicInfo
from barnabas.runtime.clock import Clock
from barnabas.runtime.coordinator import Coordinator
from barnabas.services.served import ServedTopics

T = TypeVar("T")


class GroupRouting:
    """Decides on requests, timers and changes of topics for all groups of a node."""

    def __init__(self, config: ConsumerConfig, *, served: ServedTopics, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._topics = TopicInfos(served)

    # Requests of classic members.

    def join(self, to: Coordinator, request: JoinRequest, token: Token, *, new_member_id: str) -> None:
        """JoinGroup."""
        now_ms = self._clock.now_ms()
        group = self._with_consumers(to, request.group)
        if group is None:
            to.carry_out(
                classic.join(to.groups, to.soft, request, token=token, now_ms=now_ms, new_member_id=new_member_id)
            )
            return
        self._decide(
            to,
            token,
            request.group,
            lambda: consumer_classic.decide_join(
                group,
                request,
                now_ms=now_ms,
                new_member_id=new_member_id,
                topics=self._topics,
                config=self._config,
            ),
        )

    def sync(self, to: Coordinator, request: SyncRequest, token: Token) -> None:
        """SyncGroup."""
        now_ms = self._clock.now_ms()
        group = self._with_consumers(to, request.group)
        if group is None:
            to.carry_out(classic.sync(to.groups, to.soft, request, token=token, now_ms=now_ms))
            return
        self._decide(
            to,
            token,
            request.group,
            lambda: consumer_classic.decide_sync(
                group, request, now_ms=now_ms, topics=self._topics, config=self._config
            ),
        )

    def heartbeat(self, to: Coordinator, request: HeartbeatRequest, token: Token) -> None:
        """Heartbeat."""
        group = self._with_consumers(to, request.group)
        if group is None:
            to.carry_out(classic.heartbeat(to.groups, to.soft, request, token=token))
            return
        self._decide(
            to,
            token,
            request.group,
            lambda: consumer_classic.decide_classic_heartbeat(
                group, request, now_ms=self._clock.now_ms(), topics=self._topics, config=self._config
            ),
        )

    def leave(self, to: Coordinator, request: LeaveRequest, token: Token) -> None:
        """LeaveGroup."""
        now_ms = self._clock.now_ms()
        group = self._with_consumers(to, request.group)
        if group is None:
            to.carry_out(classic.leave(to.groups, to.soft, request, token=token, now_ms=now_ms))
            return
        self._decide(
            to,
            token,
            request.group,
            lambda: consumer_classic.decide_classic_leave(
                group, request, now_ms=now_ms, topics=self._topics, config=self._config
            ),
        )

    def _with_consumers(self, to: Coordinator, group: str) -> ConsumerGroup | None:
        return to.groups.consumer[group] if classic.group_has_consumers(to.groups, group) else None

    # Requests of consumer members.

    def consumer_heartbeat(
        self, to: Coordinator, request: ConsumerHeartbeat, token: Token, *, new_member_id: str
    ) -> None:
        """ConsumerGroupHeartbeat; converts a classic group if it must."""
        group: ConsumerGroup | LiveGroup | None = to.groups.consumer.get(request.group)
        if group is None:
            group = classic.find(to.groups, to.soft, request.group)
        self._decide(
            to,
            token,
            request.group,
            lambda: consumer.decide_heartbeat(
                group,
                request,
                now_ms=self._clock.now_ms(),
                new_member_id=new_member_id,
                topics=self._topics,
                config=self._config,
            ),
            upgrades=isinstance(group, LiveGroup),
        )

    # Time and topics.

    def on_timer(self, to: Coordinator, key: TimerKey) -> None:
        """A timer of a group has fired."""
        group = to.groups.consumer.get(key.group)
        now_ms = self._clock.now_ms()
        if group is None:
            to.carry_out(classic.on_timer(to.groups, to.soft, key, now_ms=now_ms))
            return
        decision = consumer.on_timer(group, key, now_ms=now_ms, topics=self._topics, config=self._config)
        self._carry_out(to, key.group, decision, ())

    def on_topics_change(self, to: Coordinator) -> None:
        """Topics came, went or grew."""
        for name, group in list(to.groups.consumer.items()):
            decision = consumer.on_metadata_change(
                group, now_ms=self._clock.now_ms(), topics=self._topics, config=self._config
            )
            self._carry_out(to, name, decision, ())

    def timers_after_load(self, of: Coordinator) -> list[TimerChange]:
        """The timers of all members that the log has."""
        timers: list[TimerChange] = [*classic.timers_after_load(of.groups)]
        for group in of.groups.consumer.values():
            timers += consumer.timers_on_load(group, self._config)
        return timers

    # Carrying out.

    def _decide(
        self,
        to: Coordinator,
        token: Token,
        group: str,
        decide: Callable[[], Decision[object]],
        *,
        upgrades: bool = False,
    ) -> None:
        """Decide about a consumer group, or one that becomes one; a refusal is the answer."""
        try:
            decision = decide()
        except BarnabasError as refusal:
            to.carry_out(Outcome(replies=[Reply(token, refusal)]))
            return
        replies = [Reply(token, decision.reply)]
        if upgrades:
            # What waits in the classic group must join again; then it finds the consumer group.
            reset = classic.reset(to.groups, to.soft, group, RebalanceInProgress(f"group '{group}' is rebalancing"))
            decision = decision._replace(timers=[*reset.timers, *decision.timers])
            replies += reset.replies
        self._carry_out(to, group, decision, replies)

    def _carry_out(
        self, to: Coordinator, group: str, decision: Decision[object], replies: "list[Reply] | tuple[()]"
    ) -> None:
        is_written = to.carry_out(Outcome(decision.records, replies, decision.timers))
        if is_written and is_downgrade(decision):
            to.carry_out(classic.rebalance(to.groups, to.soft, group, now_ms=self._clock.now_ms()))


class TopicInfos(Mapping[str, TopicInfo]):
    """Every topic that is served, as assignors look at them."""

    def __init__(self, served: ServedTopics) -> None:
        self._topics = served.by_name

    def __getitem__(self, name: str) -> TopicInfo:
        topic = self._topics[name]
        return TopicInfo(topic.topic_id, len(topic.partitions))

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)
