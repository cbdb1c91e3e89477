"""Consumer groups: the verbs. Finds the coordinator of a group, and passes requests to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.core.coordination import Within
from barnabas.core.errors import BarnabasError, GroupIdNotFound, InvalidGroupId, PolicyViolation
from barnabas.runtime.clock import Clock
from barnabas.runtime.dice import Dice
from barnabas.runtime.guards import Guard
from barnabas.runtime.later import Later
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import in_turns, next_turn, pieces
from barnabas.services.committing import OFFSETS_PER_TURN, commit_in_pieces
from barnabas.services.group_coordinators import GroupCoordinators
from barnabas.services.produce import Admission
from barnabas.services.session import Session

if TYPE_CHECKING:
    from barnabas.core.groups import listing, offset_access, offsets
    from barnabas.core.groups.classic.messages import (
        HeartbeatRequest,
        JoinReply,
        JoinRequest,
        LeaveReply,
        LeaveRequest,
        SyncReply,
        SyncRequest,
    )
    from barnabas.core.groups.consumer import describe
    from barnabas.core.groups.consumer.describe import DescribedConsumerGroup
    from barnabas.core.groups.consumer.messages import ConsumerHeartbeat, ConsumerHeartbeatReply
    from barnabas.core.groups.decision import GroupDecision
    from barnabas.core.groups.offsets import CommitRequest, FetchedOffset, WantedOffset
    from barnabas.runtime.group_coordinator import GroupCoordinator
else:  # loaded with the first group
    listing, offset_access, offsets, describe = (
        Later(f"barnabas.core.groups.{name}") for name in ("listing", "offset_access", "offsets", "consumer.describe")
    )


class OpenTransaction(NamedTuple):
    """The transaction in which offsets are committed."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class GroupService:
    """The verbs on groups."""

    def __init__(self, coordinators: GroupCoordinators, *, admission: Admission, clock: Clock, dice: Dice) -> None:
        self._coordinators = coordinators
        self._admission = admission
        self._clock = clock
        self._dice = dice

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Load the existing groups, in tasks of this task group."""
        self._coordinators.start(tasks)

    def close(self) -> None:
        """Stop coordinating."""
        self._coordinators.close()

    async def find_partition(self, group: str) -> int:
        """The partition of `__consumer_offsets` that a group belongs to: its leader coordinates the group."""
        return await self._coordinators.partition_of(group)

    async def create_topic(self) -> None:
        """Create `__consumer_offsets`, unless it exists."""
        await self._coordinators.create_topic()

    # Members of the classic protocol

    async def join(self, request: JoinRequest) -> JoinReply:
        """JoinGroup; waits until the generation is complete."""
        coordinator = await self._coordinators.of(request.group)
        self._check_room(coordinator, request.group)
        new_member_id = f"{request.instance_id or request.client_id}-{self._dice.uuid()}"
        return await coordinator.join(request, new_member_id=new_member_id)

    async def sync(self, request: SyncRequest) -> SyncReply:
        """SyncGroup; waits until the leader has assigned."""
        coordinator = await self._coordinators.of(request.group)
        return await coordinator.sync(request)

    async def heartbeat(self, request: HeartbeatRequest) -> None:
        """Heartbeat."""
        coordinator = await self._coordinators.of(request.group)
        await coordinator.heartbeat(request)

    async def leave(self, request: LeaveRequest) -> LeaveReply:
        """LeaveGroup."""
        coordinator = await self._coordinators.of(request.group)
        return await coordinator.leave(request)

    # Members of the consumer protocol (KIP-848)

    async def consumer_heartbeat(
        self, request: ConsumerHeartbeat, client: Session | None = None
    ) -> ConsumerHeartbeatReply:
        """ConsumerGroupHeartbeat, of a client: an expression matches only topics that it may see."""
        coordinator = await self._coordinators.of(request.group)
        self._check_room(coordinator, request.group)
        subscribers = self._coordinators.subscribers if client is not None else None
        if subscribers is None or client is None or subscribers.is_idle:
            return await coordinator.consumer_heartbeat(request, new_member_id=str(self._dice.uuid()))
        if request.regex:
            subscribers.note(request.group, request.regex, client)
        reply = await coordinator.consumer_heartbeat(request, new_member_id=str(self._dice.uuid()))
        group = coordinator.groups.consumer.get(request.group)
        member = None if group is None else group.members.get(reply.member_id)
        regex = None if member is None else member.regex
        if regex is not None and subscribers.note(request.group, regex, client):
            coordinator.tell_of_topics(request.group)  # it has joined before a restart, or elsewhere
        return reply

    async def describe_consumer_group(self, group: str) -> DescribedConsumerGroup:
        """ConsumerGroupDescribe; refused if it is not a consumer group."""
        coordinator = await self._named(group)

        def look() -> DescribedConsumerGroup:
            found = coordinator.groups.consumer.get(group)
            if found is None:
                is_there = coordinator.groups.type_of(group) is not None or group in coordinator.soft.live
                raise GroupIdNotFound(f"Group {group} {'is not a consumer group' if is_there else 'not found'}.")
            return describe.describe(found, self._coordinators.config.consumer)

        return await coordinator.read(look)

    # Offsets

    async def commit_offsets(self, request: CommitRequest) -> offsets.PartitionErrors:
        """OffsetCommit. A long one is several decisions, each with its own answer."""
        return await commit_in_pieces(request, self._commit_offsets)

    async def _commit_offsets(self, request: CommitRequest) -> offsets.PartitionErrors:
        coordinator = await self._coordinators.of(request.group)
        self._check_room(coordinator, request.group)
        return await coordinator.commit(
            lambda: offsets.commit(
                coordinator.groups,
                coordinator.soft,
                request,
                config=self._coordinators.config.offsets,
                now_ms=self._clock.now_ms(),
            )
        )

    async def commit_offsets_within(
        self, request: CommitRequest, transaction: OpenTransaction, *, adds: bool
    ) -> offsets.PartitionErrors:
        """TxnOffsetCommit: the offsets take effect once the transaction is committed. `adds` makes this partition of
        `__consumer_offsets` part of the transaction; otherwise it must already be.
        """
        return await commit_in_pieces(request, lambda piece: self._commit_offsets_within(piece, transaction, adds=adds))

    async def _commit_offsets_within(
        self, request: CommitRequest, transaction: OpenTransaction, *, adds: bool
    ) -> offsets.PartitionErrors:
        coordinator = await self._coordinators.of(request.group)
        coordinator.check_available()
        self._check_room(coordinator, request.group)
        guard = await self._verify(coordinator.partition, transaction, adds=adds)

        def decide() -> GroupDecision[offsets.PartitionErrors]:
            if guard is not None:
                coordinator.partition.check_verified(guard)
            return offsets.commit(
                coordinator.groups,
                coordinator.soft,
                request,
                config=self._coordinators.config.offsets,
                now_ms=self._clock.now_ms(),
            )

        try:
            return await coordinator.commit(decide, within=Within(transaction.producer_id, transaction.producer_epoch))
        finally:
            if guard is not None:
                coordinator.partition.end_verification(guard)

    async def _verify(self, partition: Partition, transaction: OpenTransaction, *, adds: bool) -> Guard | None:
        """Verify that a partition is part of a transaction, unless the transaction is open in it; see `Guard`."""
        if partition.has_open_transaction(transaction.producer_id, transaction.producer_epoch):
            return None
        guard = partition.begin_verification(transaction.producer_id, transaction.producer_epoch)
        try:
            refusals = await self._admission.admit(*transaction, [partition.name], adds=adds)
            refusal = refusals[partition.name]
            if refusal is not None:
                raise refusal
        except BaseException:
            partition.end_verification(guard)
            raise
        return guard

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

        def deciding(piece: Sequence[tuple[str, int]]) -> Callable[[], GroupDecision[offsets.PartitionErrors]]:
            return lambda: offsets.delete(coordinator.groups, coordinator.soft, group, piece)

        errors = list(await coordinator.commit(deciding(partitions[:OFFSETS_PER_TURN])))
        async for piece in pieces(partitions[OFFSETS_PER_TURN:], per_turn=OFFSETS_PER_TURN):
            errors.extend(await coordinator.commit(deciding(piece)))
        return tuple(errors)

    # Administration

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.gauge("groups", "Classic groups and consumer groups that this node coordinates.", self._count_groups)

    def loaded(self) -> Iterator[GroupCoordinator]:
        """The coordinators of this node whose groups are loaded now."""
        return self._coordinators.available()

    def _count_groups(self) -> int:
        return sum(len(each.groups.classic) + len(each.groups.consumer) for each in self._coordinators.available())

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
        """Delete a group without members. One with very many offsets takes several decisions, the group in the last: if
        a member joins in between, the rest is kept.
        """
        coordinator = await self._coordinators.of(group)

        def decide() -> GroupDecision[bool]:
            return listing.delete_group(coordinator.groups, coordinator.soft, group, limit=OFFSETS_PER_TURN)

        is_gone = await coordinator.commit(decide)
        while not is_gone:
            await next_turn()
            try:
                is_gone = await coordinator.commit(decide)
            except GroupIdNotFound:  # somebody else has removed the rest
                is_gone = True

    def _check_room(self, coordinator: GroupCoordinator, group: str) -> None:
        """Refuse another group when there are too many."""
        groups = coordinator.groups
        if group in groups.classic or group in groups.consumer or group in groups.simple:
            return
        if group in coordinator.soft.live or self._count_all() < self._coordinators.config.max_groups:
            return
        raise PolicyViolation(
            f"this node coordinates {self._coordinators.config.max_groups} groups, the maximum (max.groups); delete "
            "those that are not used"
        )

    def _count_all(self) -> int:
        """All groups here, those with offsets alone and those that are being formed included."""
        return sum(
            max(len(each.groups.classic), len(each.soft.live)) + len(each.groups.consumer) + len(each.groups.simple)
            for each in self._coordinators.available()
        )

    async def _named(self, group: str) -> GroupCoordinator:
        """The coordinator of a group whose name may not be empty."""
        if not group:
            raise InvalidGroupId("the group id must not be empty")
        return await self._coordinators.of(group)

    # Time

    async def run_expiry(self) -> None:
        """Expire committed offsets regularly, forever."""
        while True:
            await asyncio.sleep(self._coordinators.config.retention_check_interval_ms / 1000)
            await self.expire_offsets()

    async def expire_offsets(self) -> int:
        """Delete expired offsets; returns how many."""
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
        count = removed = await coordinator.commit(self._expiring(coordinator, group), is_own=True)
        while removed >= OFFSETS_PER_TURN:
            await next_turn()
            removed = await coordinator.commit(self._expiring(coordinator, group), is_own=True)
            count += removed
        return count

    def _expiring(self, coordinator: GroupCoordinator, group: str) -> Callable[[], GroupDecision[int]]:
        return lambda: offsets.expire(
            coordinator.groups,
            coordinator.soft,
            group,
            config=self._coordinators.config.offsets,
            now_ms=self._clock.now_ms(),
            limit=OFFSETS_PER_TURN,
        )


def _listing(coordinator: GroupCoordinator) -> Callable[[], list[listing.ListedGroup]]:
    return lambda: listing.list_groups(coordinator.groups, coordinator.soft)
