"""A consumer group and its clients, driven by hand: the coordinator's log, its timers, and members that may be slow."""

from dataclasses import dataclass, field
from uuid import UUID

from barnabas.core.coordination import SetTimer
from barnabas.core.errors import RebalanceInProgress
from barnabas.core.groups.classic.messages import HeartbeatRequest, JoinRequest, SyncReply, SyncRequest
from barnabas.core.groups.consumer import classic_members
from barnabas.core.groups.consumer.assignors import TopicInfo
from barnabas.core.groups.consumer.decisions import decide_heartbeat, on_metadata_change, on_timer
from barnabas.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
from barnabas.core.groups.consumer.state import ConsumerGroup
from barnabas.core.groups.decision import GroupDecision, TimerKey, TimerKind
from barnabas.core.groups.embedded import Subscription, build_subscription, parse_assignment
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.records import ClassicProtocol, GroupEntry, TopicPartitions
from barnabas.core.groups.settings import ConsumerConfig

GROUP = "readers"


def topic_id(name: str) -> UUID:
    return UUID(bytes=name.encode().rjust(16, b"\0"))


def topics(**counts: int) -> dict[str, TopicInfo]:
    """Topics of so many partitions: `topics(orders=4)`."""
    return {name: TopicInfo(topic_id(name), count) for name, count in counts.items()}


def held(**partitions: tuple[int, ...]) -> tuple[TopicPartitions, ...]:
    """Partitions by topic: `held(orders=(0, 1))`."""
    return tuple(TopicPartitions(topic_id(name), partitions[name]) for name in sorted(partitions, key=topic_id))


class World:
    """One coordinator. Decisions are applied as they are made, and what they wrote is kept for a replay."""

    def __init__(self, topics: dict[str, TopicInfo], config: ConsumerConfig | None = None) -> None:
        self.topics = topics
        self.config = config or ConsumerConfig()
        self.groups = Groups()
        self.log: list[GroupEntry] = []
        self.timers: dict[TimerKey, int] = {}
        self.now_ms = 1_000

    @property
    def group(self) -> ConsumerGroup:
        return self.groups.consumer[GROUP]

    def take(self, decision: GroupDecision[object]) -> None:
        for entry in decision.records:
            self.log.append(entry)
            self.groups.apply(entry)
        for change in decision.timers:
            assert isinstance(change.key, TimerKey)
            if isinstance(change, SetTimer):
                self.timers[change.key] = self.now_ms + change.delay_ms
            else:
                self.timers.pop(change.key, None)

    def heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
        decision = decide_heartbeat(
            self.groups.consumer.get(GROUP),
            request,
            now_ms=self.now_ms,
            new_member_id="made-by-server",
            topics=self.topics,
            config=self.config,
        )
        self.take(decision)
        return decision.reply

    def join(self, member_id: str, *names: str, **fields: object) -> ConsumerHeartbeatReply:
        return self.heartbeat(join_request(member_id, *names, **fields))

    def beat(self, member_id: str, epoch: int, **fields: object) -> ConsumerHeartbeatReply:
        return self.heartbeat(
            ConsumerHeartbeat(group=GROUP, member_id=member_id, member_epoch=epoch, client_host="/h", **fields)  # type: ignore[arg-type]
        )

    def set_topics(self, topics: dict[str, TopicInfo]) -> None:
        self.topics = topics
        if GROUP in self.groups.consumer:
            self.take(on_metadata_change(self.group, now_ms=self.now_ms, topics=topics, config=self.config))

    def advance(self, ms: int) -> list[TimerKey]:
        """Let time pass; tell which timers fired."""
        fired: list[TimerKey] = []
        end_ms = self.now_ms + ms
        while True:
            due = min(((at_ms, key) for key, at_ms in self.timers.items() if at_ms <= end_ms), default=None)
            if due is None:
                break
            self.now_ms = max(self.now_ms, due[0])
            del self.timers[due[1]]
            fired.append(due[1])
            self.take(on_timer(self.group, due[1], now_ms=self.now_ms, topics=self.topics, config=self.config))
        self.now_ms = end_ms
        return fired

    def has_timer(self, kind: TimerKind, member_id: str) -> bool:
        return TimerKey(kind, GROUP, member_id) in self.timers

    def replay(self) -> Groups:
        groups = Groups()
        for entry in self.log:
            groups.apply(entry)
        return groups


def join_request(member_id: str, *names: str, **fields: object) -> ConsumerHeartbeat:
    given: dict[str, object] = {"rebalance_timeout_ms": 10_000, "topics": names, "owned": ()} | fields
    return ConsumerHeartbeat(group=GROUP, member_id=member_id, member_epoch=0, client_host="/h", **given)  # type: ignore[arg-type]


@dataclass
class Client:
    """A member as a consumer keeps it: it owns what it was assigned, and takes its time to give up what it was not."""

    world: World
    member_id: str
    subscription: tuple[str, ...]
    instance_id: str | None = None
    epoch: int = 0
    owned: set[tuple[UUID, int]] = field(default_factory=set)
    wanted: set[tuple[UUID, int]] = field(default_factory=set)
    is_slow: bool = False

    def beat(self, *, loses_answer: bool = False) -> None:
        """Revoke unless slow, tell what is owned, and take the answer, or have it lost on the way."""
        if not self.is_slow:
            self.owned &= self.wanted
        request = ConsumerHeartbeat(
            group=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=10_000,
            topics=self.subscription,
            owned=self._owned_partitions() if self.epoch else (),
            client_host="/h",
        )
        if not self.epoch:
            self.owned.clear()
        reply = self.world.heartbeat(request)
        if loses_answer:
            return
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.wanted = {(held.topic_id, p) for held in reply.assignment for p in held.partitions}
            self.owned |= self.wanted

    def abandon(self) -> None:
        """Fenced: give up all, and start over."""
        self.epoch = 0
        self.owned.clear()
        self.wanted.clear()

    def _owned_partitions(self) -> tuple[TopicPartitions, ...]:
        by_topic: dict[UUID, list[int]] = {}
        for topic_id, partition in sorted(self.owned):
            by_topic.setdefault(topic_id, []).append(partition)
        return tuple(TopicPartitions(topic_id, tuple(partitions)) for topic_id, partitions in by_topic.items())


@dataclass
class ClassicClient(Client):
    """A cooperative member of the classic protocol: it revokes, joins again, and fetches what it may have."""

    joined_with: tuple[str, ...] = ()
    must_join: bool = True

    def beat(self, *, loses_answer: bool = False) -> None:
        if self.epoch and not self.must_join and self.joined_with == self.subscription:
            request = HeartbeatRequest(group=GROUP, generation=self.epoch, member_id=self.member_id)
            told = classic_members.decide_heartbeat(
                self.world.group, request, now_ms=self.world.now_ms, topics=self.world.topics, config=self.world.config
            )
            self.world.take(told)
            self.must_join = told.reply is not None
        else:
            self._join(loses_answer=loses_answer)

    def abandon(self) -> None:
        super().abandon()
        self.must_join = True

    def _join(self, *, loses_answer: bool) -> None:
        if not self.is_slow:
            self.owned &= self.wanted
        names = {info.topic_id: name for name, info in self.world.topics.items()}
        owned = {names[held.topic_id]: held.partitions for held in self._owned_partitions() if held.topic_id in names}
        joined = classic_members.decide_join(
            self.world.group,
            JoinRequest(
                group=GROUP,
                member_id=self.member_id,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=(ClassicProtocol("r", build_subscription(Subscription(3, self.subscription, owned=owned))),),
            ),
            now_ms=self.world.now_ms,
            new_member_id=self.member_id,
            topics=self.world.topics,
            config=self.world.config,
        )
        self.world.take(joined)
        if loses_answer:
            return
        self.epoch, self.joined_with = joined.reply.generation, self.subscription
        self._sync(names)

    def _sync(self, names: dict[UUID, str]) -> None:
        request = SyncRequest(group=GROUP, generation=self.epoch, member_id=self.member_id)
        synced = classic_members.decide_sync(
            self.world.group, request, now_ms=self.world.now_ms, topics=self.world.topics, config=self.world.config
        )
        self.world.take(synced)
        if not isinstance(synced.reply, SyncReply):
            assert isinstance(synced.reply, RebalanceInProgress)
            self.must_join = True
            return
        given = parse_assignment(synced.reply.assignment).partitions
        ids = {name: topic_id for topic_id, name in names.items()}
        self.wanted = {(ids[name], partition) for name, partitions in given.items() for partition in partitions}
        self.owned |= self.wanted
        self.must_join = self.owned != self.wanted
