"""Takes a request to the side that its group is on, classic or consumer (KIP-848), and carries out what is decided.

Owns the seam between the two: a classic group becomes a consumer group when a member of the new protocol joins it, and
classic again when the last one leaves. Members of the classic protocol are served on both sides. Offsets belong to the
name of a group and are not concerned.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

from barnabas.core.errors import BarnabasError, RebalanceInProgress
from barnabas.core.groups import classic, consumer, consumer_classic
from barnabas.core.groups.classic_messages import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from barnabas.core.groups.classic_state import LiveGroup
from barnabas.core.groups.consumer_messages import ConsumerConfig, ConsumerHeartbeat
from barnabas.core.groups.consumer_state import ConsumerGroup
from barnabas.core.groups.decision import REGEX, Decision, Outcome, Reply, TimerChange, TimerKey, Token
from barnabas.core.groups.migration import is_downgrade
from barnabas.core.groups.offsets import delete_topic
from barnabas.core.groups.placing import TopicInfo
from barnabas.core.metadata.image import Image, Topic
from barnabas.runtime.clock import Clock
from barnabas.runtime.group_coordinator import GroupCoordinator

T = TypeVar("T")

CHANGES_PER_STEP: Final = 100
"""Offsets that are forgotten, and groups that hear of a change, in one turn of the loop."""


class GroupRouting:
    """Decides on requests, timers and changes of topics for all groups of a node."""

    def __init__(self, topics: "TopicInfos", *, config_of: Callable[[str], ConsumerConfig], clock: Clock) -> None:
        self._topics = topics
        self._config_of = config_of  # the settings of a group, by its name
        self._clock = clock

    # Requests of classic members.

    def join(self, to: GroupCoordinator, request: JoinRequest, token: Token, *, new_member_id: str) -> None:
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
                config=self._config_of(request.group),
            ),
        )

    def sync(self, to: GroupCoordinator, request: SyncRequest, token: Token) -> None:
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
                group, request, now_ms=now_ms, topics=self._topics, config=self._config_of(request.group)
            ),
        )

    def heartbeat(self, to: GroupCoordinator, request: HeartbeatRequest, token: Token) -> None:
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
                group,
                request,
                now_ms=self._clock.now_ms(),
                topics=self._topics,
                config=self._config_of(request.group),
            ),
        )

    def leave(self, to: GroupCoordinator, request: LeaveRequest, token: Token) -> None:
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
                group, request, now_ms=now_ms, topics=self._topics, config=self._config_of(request.group)
            ),
        )

    def _with_consumers(self, to: GroupCoordinator, group: str) -> ConsumerGroup | None:
        return to.groups.consumer[group] if classic.group_has_consumers(to.groups, group) else None

    # Requests of consumer members.

    def consumer_heartbeat(
        self, to: GroupCoordinator, request: ConsumerHeartbeat, token: Token, *, new_member_id: str
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
                config=self._config_of(request.group),
            ),
            upgrades=isinstance(group, LiveGroup),
        )

    # Time and topics.

    def on_timer(self, to: GroupCoordinator, key: TimerKey) -> None:
        """A timer of a group has fired."""
        group = to.groups.consumer.get(key.group)
        now_ms = self._clock.now_ms()
        if group is None and key.kind == REGEX:
            return
        if group is None:
            to.carry_out(classic.on_timer(to.groups, to.soft, key, now_ms=now_ms))
            return
        config = self._config_of(key.group)
        decision = consumer.on_timer(group, key, now_ms=now_ms, topics=self._topics, config=config)
        self._carry_out(to, key.group, decision, ())

    def on_topics_change(self, to: GroupCoordinator) -> None:
        """Topics came, went, grew or moved: groups that read them hear of it."""
        for name in list(to.groups.consumer):
            self.tell_of_topics(to, name)

    def tell_of_topics(self, to: GroupCoordinator, name: str) -> None:
        """The same for one group, if it is there."""
        group = to.groups.consumer.get(name)
        if group is not None:
            decision = consumer.on_metadata_change(
                group, now_ms=self._clock.now_ms(), topics=self._topics, config=self._config_of(name)
            )
            self._carry_out(to, name, decision, ())

    def follow_topics(
        self, coordinators: Iterable[GroupCoordinator], gone: Sequence[tuple[str, UUID]]
    ) -> Generator[None, None, None]:
        """Forget the offsets of topics that are gone, and tell groups of what has changed: some in each step.

        Until it comes to an offset, the id of its topic tells it from those of a later topic of that name.
        """
        left = CHANGES_PER_STEP
        for coordinator in list(coordinators):
            for name, topic_id in gone:
                while coordinator.is_available:
                    found = delete_topic(coordinator.groups, name, topic_id, limit=left)
                    if not coordinator.carry_out(Outcome(found.records)):
                        break
                    left -= found.reply
                    if left > 0:
                        break
                    yield
                    left = CHANGES_PER_STEP
            for group in list(coordinator.groups.consumer):
                if left <= 0:
                    yield
                    left = CHANGES_PER_STEP
                left -= 1
                if coordinator.is_available:
                    self.tell_of_topics(coordinator, group)

    def timers_after_load(self, of: GroupCoordinator) -> list[TimerChange]:
        """The timers of all members that the log has."""
        timers: list[TimerChange] = [*classic.timers_after_load(of.groups)]
        for name, group in of.groups.consumer.items():
            timers += consumer.timers_on_load(group, self._config_of(name))
        return timers

    # Carrying out.

    def _decide(
        self,
        to: GroupCoordinator,
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
        self, to: GroupCoordinator, group: str, decision: Decision[object], replies: "list[Reply] | tuple[()]"
    ) -> None:
        is_written = to.carry_out(Outcome(decision.records, replies, decision.timers))
        if is_written and is_downgrade(decision):
            to.carry_out(classic.rebalance(to.groups, to.soft, group, now_ms=self._clock.now_ms()))


class TopicInfos(Mapping[str, TopicInfo]):
    """Every topic of the cluster, as assignors look at them. What was looked up is kept until `forget`."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._found: dict[str, TopicInfo] = {}

    def forget(self) -> None:
        """The image has changed."""
        self._found.clear()

    def __getitem__(self, name: str) -> TopicInfo:
        info = self._found.get(name)
        if info is None:
            topic = self._image.topics[name]
            info = self._found[name] = TopicInfo(topic.topic_id, len(topic.partitions), self._racks_of(topic))
        return info

    def _racks_of(self, topic: Topic) -> list[frozenset[str]] | None:
        """The racks of each partition's replicas; None when no replica's rack is known."""
        racks = {node_id: node.rack for node_id, node in self._image.nodes.items() if node.rack is not None}
        if not racks:
            return None
        found = [
            frozenset(racks[replica] for replica in topic.partitions[partition].replicas if replica in racks)
            for partition in range(len(topic.partitions))
        ]
        return found if any(found) else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._image.topics)

    def __len__(self) -> int:
        return len(self._image.topics)
