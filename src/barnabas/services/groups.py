"""Consumer groups: the verbs. Finds the coordinator of a group, and puts requests to it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Self, cast

import msgspec

from barnabas.core.coordination import Within
from barnabas.core.errors import BarnabasError, CoordinatorNotAvailable, GroupIdNotFound, InvalidGroupId
from barnabas.core.groups import listing, offset_access, offsets
from barnabas.core.groups.classic_messages import (
    ClassicConfig,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    SyncReply,
    SyncRequest,
)
from barnabas.core.groups.classic_state import ClassicSoft
from barnabas.core.groups.consumer_describe import DescribedConsumerGroup, describe
from barnabas.core.groups.consumer_messages import ConsumerConfig, ConsumerHeartbeat, ConsumerHeartbeatReply
from barnabas.core.groups.decision import Decision
from barnabas.core.groups.offsets import CommitRequest, FetchedOffset, OffsetsConfig, WantedOffset
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.names import OFFSETS_TOPIC
from barnabas.core.metadata.records import (
    GROUP_RESOURCE,
    MetadataRecord,
    NodeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.core.metadata.topics import NewTopic
from barnabas.runtime.clock import Clock
from barnabas.runtime.dice import Dice
from barnabas.runtime.group_coordinator import GroupCoordinator
from barnabas.runtime.offload import Offload
from barnabas.runtime.partition import Guard, Partition
from barnabas.runtime.turns import finish, in_turns, is_over, next_turn, pieces
from barnabas.services.committing import OFFSETS_PER_TURN, commit_in_pieces
from barnabas.services.coordinators import Coordinators
from barnabas.services.group_routing import GroupRouting, TopicInfos
from barnabas.services.group_settings import Bounds, GroupSettings, bounds_of
from barnabas.services.internal_topics import MAX_DECISION_BYTES
from barnabas.services.produce import Admission
from barnabas.services.served import ServedTopics
from barnabas.services.settings.group_config import resolve_group
from barnabas.services.topics import Topics

SEGMENT_BYTES: Final = 100 * 1024 * 1024


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all groups of a broker."""

    classic: ClassicConfig = ClassicConfig()
    consumer: ConsumerConfig = ConsumerConfig()
    offsets: OffsetsConfig = OffsetsConfig()
    topic_partitions: int = 50  # offsets.topic.num.partitions
    topic_replication_factor: int = 1  # offsets.topic.replication.factor
    topic_segment_bytes: int = SEGMENT_BYTES  # offsets.topic.segment.bytes
    retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    bounds: Bounds = msgspec.field(default_factory=lambda: bounds_of(GroupSettings()))  # of what a group sets itself

    @classmethod
    def of(cls, settings: GroupSettings) -> Self:
        """What the broker's settings say."""
        policy = settings.group_consumer_migration_policy
        return cls(
            classic=ClassicConfig(
                min_session_timeout_ms=settings.group_min_session_timeout_ms,
                max_session_timeout_ms=settings.group_max_session_timeout_ms,
                initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
                max_size=settings.group_max_size,
            ),
            consumer=ConsumerConfig(
                heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
                session_timeout_ms=settings.group_consumer_session_timeout_ms,
                max_size=settings.group_consumer_max_size,
                classic_max_size=settings.group_max_size,
                assignors=settings.group_consumer_assignors,
                assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
                upgrades=policy in ("bidirectional", "upgrade"),
                downgrades=policy in ("bidirectional", "downgrade"),
            ),
            offsets=OffsetsConfig(
                metadata_max_chars=settings.offset_metadata_max_bytes,
                retention_ms=settings.offsets_retention_minutes * 60_000,
            ),
            topic_partitions=settings.offsets_topic_num_partitions,
            topic_replication_factor=settings.offsets_topic_replication_factor,
            topic_segment_bytes=settings.offsets_topic_segment_bytes,
            retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
            bounds=bounds_of(settings),
        )

    def consumer_of(self, overrides: Mapping[str, str]) -> ConsumerConfig:
        """The settings of a consumer group that has these of its own."""
        if not overrides:
            return self.consumer
        return msgspec.structs.replace(self.consumer, **resolve_group(overrides, self.bounds))

    def new_topic(self) -> NewTopic:
        """The topic that groups are kept in."""
        settings = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self.topic_segment_bytes),
            "max.message.bytes": str(MAX_DECISION_BYTES),
        }
        return NewTopic(OFFSETS_TOPIC, self.topic_partitions, self.topic_replication_factor, None, settings)


class OpenTransaction(NamedTuple):
    """The transaction that offsets are committed in."""

    transactional_id: str
    producer_id: int
    epoch: int


class GroupService:
    """The verbs on groups."""

    def __init__(
        self,
        config: GroupConfig,
        *,
        image: Image,
        served: ServedTopics,
        topics: Topics,
        offload: Offload,
        clock: Clock,
        dice: Dice,
    ) -> None:
        self.config = config
        self.admission: Admission | None = None  # once there are transactions
        self._clock = clock
        self._dice = dice
        self._image = image
        self._infos = TopicInfos(image)
        self._routing = GroupRouting(self._infos, config_of=self._consumer_config_of, clock=clock)
        self._coordinators = Coordinators(
            config.new_topic(),
            lambda partition: GroupCoordinator(
                partition,
                soft=ClassicSoft(config.classic),
                offload=offload,
                clock=clock,
                on_timer=self._routing.on_timer,
                after_load=self._routing.timers_after_load,
            ),
            # Topics may have changed meanwhile, and a node's rack while the node was down.
            on_loaded=self._routing.on_topics_change,
            served=served,
            topics=topics,
        )
        self._names = {topic.topic_id: topic.name for topic in served.by_name.values()}
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Load the groups there are, in tasks of this group."""
        self._tasks = tasks
        self._coordinators.start(tasks)

    def configure(self, config: GroupConfig) -> None:
        """Go by these settings from now on. What a member was told holds until it is told something else."""
        self.config = config

    def close(self) -> None:
        """Coordinate no more."""
        self._coordinators.close()

    def _consumer_config_of(self, group: str) -> ConsumerConfig:
        return self.config.consumer_of(self._image.config_of(GROUP_RESOURCE, group))

    async def find_partition(self, group: str) -> int:
        """The partition of the topic of groups that a group lives in: whoever leads it coordinates the group."""
        return await self._coordinators.partition_of(group)

    async def create_topic(self) -> None:
        """Make the topic of groups, unless it is there."""
        await self._coordinators.create_topic()

    # Members of the classic protocol

    async def join(self, request: JoinRequest) -> JoinReply:
        """JoinGroup; waits until the generation is made."""
        to = await self._coordinators.of(request.group)
        new_member_id = f"{request.instance_id or request.client_id}-{self._dice.uuid()}"
        return cast(
            "JoinReply",
            await to.ask(lambda token: self._routing.join(to, request, token, new_member_id=new_member_id)),
        )

    async def sync(self, request: SyncRequest) -> SyncReply:
        """SyncGroup; waits until the leader has assigned."""
        to = await self._coordinators.of(request.group)
        return cast("SyncReply", await to.ask(lambda token: self._routing.sync(to, request, token)))

    async def heartbeat(self, request: HeartbeatRequest) -> None:
        """Heartbeat."""
        to = await self._coordinators.of(request.group)
        await to.ask(lambda token: self._routing.heartbeat(to, request, token))

    async def leave(self, request: LeaveRequest) -> LeaveReply:
        """LeaveGroup."""
        to = await self._coordinators.of(request.group)
        return cast("LeaveReply", await to.ask(lambda token: self._routing.leave(to, request, token)))

    # Members of the consumer protocol (KIP-848)

    async def consumer_heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
        """ConsumerGroupHeartbeat."""
        to = await self._coordinators.of(request.group)
        new_member_id = str(self._dice.uuid())
        return cast(
            "ConsumerHeartbeatReply",
            await to.ask(
                lambda token: self._routing.consumer_heartbeat(to, request, token, new_member_id=new_member_id)
            ),
        )

    async def describe_consumer_group(self, group: str) -> DescribedConsumerGroup:
        """ConsumerGroupDescribe; refused when it is not a consumer group."""
        coordinator = await self._named(group)

        def look() -> DescribedConsumerGroup:
            found = coordinator.groups.consumer.get(group)
            if found is None:
                is_there = coordinator.groups.type_of(group) is not None or group in coordinator.soft.live
                raise GroupIdNotFound(f"Group {group} {'is not a consumer group' if is_there else 'not found'}.")
            return describe(found, self.config.consumer)

        return await coordinator.read(look)

    # Offsets

    async def commit_offsets(self, request: CommitRequest) -> offsets.PartitionErrors:
        """OffsetCommit. A long one is several decisions, each with its own answer."""
        return await commit_in_pieces(request, self._commit_offsets)

    async def _commit_offsets(self, request: CommitRequest) -> offsets.PartitionErrors:
        coordinator = await self._coordinators.of(request.group)
        return await coordinator.commit(
            lambda: offsets.commit(
                coordinator.groups,
                coordinator.soft,
                request,
                config=self.config.offsets,
                now_ms=self._clock.now_ms(),
            )
        )

    async def commit_offsets_within(
        self, request: CommitRequest, transaction: "OpenTransaction", *, adds: bool
    ) -> offsets.PartitionErrors:
        """TxnOffsetCommit: the offsets count once the transaction is committed. `adds` makes this partition of the
        topic of groups a part of the transaction; else it must be one.
        """
        return await commit_in_pieces(request, lambda piece: self._commit_offsets_within(piece, transaction, adds=adds))

    async def _commit_offsets_within(
        self, request: CommitRequest, transaction: "OpenTransaction", *, adds: bool
    ) -> offsets.PartitionErrors:
        coordinator = await self._coordinators.of(request.group)
        coordinator.check_available()
        guard = await self._verify(coordinator.partition, transaction, adds=adds)

        def decide() -> Decision[offsets.PartitionErrors]:
            if guard is not None:
                coordinator.partition.check_verified(guard)
            return offsets.commit(
                coordinator.groups,
                coordinator.soft,
                request,
                config=self.config.offsets,
                now_ms=self._clock.now_ms(),
            )

        try:
            return await coordinator.commit(decide, within=Within(transaction.producer_id, transaction.epoch))
        finally:
            if guard is not None:
                coordinator.partition.end_verification(guard)

    async def _verify(self, partition: Partition, transaction: "OpenTransaction", *, adds: bool) -> Guard | None:
        """Ask whether a partition is part of a transaction, unless the transaction is open in it; see `Guard`."""
        if partition.has_open_transaction(transaction.producer_id, transaction.epoch):
            return None
        if self.admission is None:
            raise CoordinatorNotAvailable("transactions are not served yet")
        guard = partition.begin_verification(transaction.producer_id, transaction.epoch)
        try:
            refusals = await self.admission.admit(*transaction, [partition.name], adds=adds)
            refusal = refusals[partition.name]
            if refusal is not None:
                raise refusal
        except BaseException:
            partition.end_verification(guard)
            raise
        return guard

    def end_transaction(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """The marker of a transaction was appended to a partition of the topic of groups."""
        coordinator = self._coordinators.following(partition)
        if coordinator is not None:  # else its log is being read, and it comes upon the marker by itself
            coordinator.end_transaction(producer_id, is_commit=is_commit)

    async def fetch_offsets(
        self,
        group: str,
        wanted: Sequence[WantedOffset] | None,
        *,
        member_id: str | None = None,
        epoch: int = -1,
        must_be_stable: bool = False,
    ) -> list[FetchedOffset]:
        """OffsetFetch: of these partitions, or of all."""
        coordinator = await self._coordinators.of(group)

        def looking(piece: Sequence[WantedOffset]) -> Callable[[], list[FetchedOffset]]:
            def look() -> list[FetchedOffset]:
                offset_access.check_fetch(coordinator.groups, group, member_id=member_id, epoch=epoch)
                return offsets.fetch(coordinator.groups, group, piece, must_be_stable=must_be_stable)

            return look

        if wanted is None:
            wanted = await coordinator.read(lambda: offsets.all_of(coordinator.groups, group))
        fetched: list[FetchedOffset] = await coordinator.read(looking(wanted[:OFFSETS_PER_TURN]))
        async for piece in pieces(wanted[OFFSETS_PER_TURN:], per_turn=OFFSETS_PER_TURN):
            fetched += await coordinator.read(looking(piece))
        return fetched

    async def delete_offsets(self, group: str, partitions: Sequence[tuple[str, int]]) -> offsets.PartitionErrors:
        """OffsetDelete. A long one is several decisions."""
        coordinator = await self._named(group)

        def deciding(piece: Sequence[tuple[str, int]]) -> Callable[[], Decision[offsets.PartitionErrors]]:
            return lambda: offsets.delete(coordinator.groups, coordinator.soft, group, piece)

        errors = await coordinator.commit(deciding(partitions[:OFFSETS_PER_TURN]))
        async for piece in pieces(partitions[OFFSETS_PER_TURN:], per_turn=OFFSETS_PER_TURN):
            errors += await coordinator.commit(deciding(piece))
        return errors

    # Administration

    async def list_groups(self) -> list[listing.ListedGroup]:
        """All groups that this node coordinates."""
        found: list[listing.ListedGroup] = []
        async for coordinator in in_turns(await self._coordinators.all_loaded(), per_turn=1):
            found += await coordinator.read(_listing(coordinator))
        return sorted(found, key=lambda listed: listed.group)

    async def describe_group(self, group: str) -> listing.DescribedGroup:
        """A classic group."""
        coordinator = await self._coordinators.of(group)
        return await coordinator.read(lambda: listing.describe_group(coordinator.groups, coordinator.soft, group))

    async def delete_group(self, group: str) -> None:
        """Remove a group without members. One with very many offsets is several decisions, the group in the last: a
        member that comes in between keeps what is left of it.
        """
        coordinator = await self._coordinators.of(group)

        def decide() -> Decision[bool]:
            return listing.delete_group(coordinator.groups, coordinator.soft, group, limit=OFFSETS_PER_TURN)

        is_gone = await coordinator.commit(decide)
        while not is_gone:
            await next_turn()
            try:
                is_gone = await coordinator.commit(decide)
            except GroupIdNotFound:  # somebody else has removed the rest
                is_gone = True

    async def _named(self, group: str) -> GroupCoordinator:
        """The coordinator of a group whose name may not be empty."""
        if not group:
            raise InvalidGroupId("a group needs a name")
        return await self._coordinators.of(group)

    # Time and topics

    async def run_expiry(self) -> None:
        """Remove offsets that nobody has used for long, from time to time, for ever."""
        while True:
            await asyncio.sleep(self.config.retention_check_interval_ms / 1000)
            await self.expire_offsets()

    async def expire_offsets(self) -> int:
        """Remove what nobody has used for long; returns how many offsets that were."""
        count = 0
        for coordinator in self._coordinators.available():
            async for group in in_turns(coordinator.groups.names()):
                try:
                    count += await self._expire_group(coordinator, group)
                except BarnabasError:
                    break  # it has ended, and said why
        return count

    async def _expire_group(self, coordinator: GroupCoordinator, group: str) -> int:
        """A group with very many offsets is several decisions."""
        count = removed = await coordinator.commit(self._expiring(coordinator, group))
        while removed >= OFFSETS_PER_TURN:
            await next_turn()
            removed = await coordinator.commit(self._expiring(coordinator, group))
            count += removed
        return count

    def _expiring(self, coordinator: GroupCoordinator, group: str) -> Callable[[], Decision[int]]:
        return lambda: offsets.expire(
            coordinator.groups,
            coordinator.soft,
            group,
            config=self.config.offsets,
            now_ms=self._clock.now_ms(),
            limit=OFFSETS_PER_TURN,
        )

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Topics came, went, grew or moved: groups that read them hear of it, offsets of what is gone go too."""
        removed = [record.topic_id for record in records if isinstance(record, RemoveTopicRecord)]
        self._names |= {record.topic_id: record.name for record in records if isinstance(record, TopicRecord)}
        if not removed and not any(
            isinstance(record, TopicRecord | PartitionRecord | NodeRecord) for record in records
        ):
            return
        self._infos.forget()
        self._coordinators.drop_deleted()
        gone = [(name, topic_id) for topic_id in removed if (name := self._names.pop(topic_id, None)) is not None]
        steps = self._routing.follow_topics(self._coordinators.available(), gone)
        if not is_over(steps):
            assert self._tasks is not None
            self._tasks.create_task(finish(steps))


def _listing(coordinator: GroupCoordinator) -> Callable[[], list[listing.ListedGroup]]:
    return lambda: listing.list_groups(coordinator.groups, coordinator.soft)
