"""A Consume stream as a member of an ordinary consumer group (KIP-848), wherever the group is coordinated.

A heartbeat tells the coordinator that the stream is there and what it reads, and is told what it shall read. What is
taken away is given up, with what was acknowledged of it committed, before the next heartbeat says so.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol
from uuid import UUID

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import group as group_of
from barnabas.core.errors import BarnabasError, FencedMemberEpoch, StaleMemberEpoch, UnknownMemberId
from barnabas.core.groups.consumer.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
)
from barnabas.core.groups.offsets import CommitRequest, FetchedOffset, NewOffset
from barnabas.core.groups.records import TopicPartitions
from barnabas.core.model import TopicPartition
from barnabas.edge.grpc.routing import PASSING_OF_GROUPS, Routes
from barnabas.services.session import Session

REBALANCE_TIMEOUT_MS: Final = 60_000
"""How long a member may take to give up a partition; here that is one commit."""
LEAVE_S: Final = 5.0
RETRY_S: Final = 0.1


class Reader(Protocol):
    """Reads what the member is assigned."""

    async def assign(self, names: Sequence[TopicPartition]) -> None:
        """Read these partitions as well."""
        ...

    async def revoke(self, names: Sequence[TopicPartition], *, is_lost: bool) -> None:
        """Read these no longer. Lost: somebody else may read them already, so nothing is committed."""
        ...


class Member:
    """One member, for as long as its stream is open."""

    def __init__(
        self, routes: Routes, session: Session, *, group: str, topics: Iterable[str], instance_id: str | None
    ) -> None:
        self._routes = routes
        self._broker = routes.broker
        self._session = session
        self._group = group
        self._topics = tuple(topics)
        self._instance_id = instance_id
        self.member_id = str(self._broker.dice.uuid())
        self._epoch = JOIN_EPOCH
        self._owned: set[TopicPartition] = set()
        self._must_tell_all = True

    async def run(self, reader: Reader) -> None:
        """Be a member, until this is cancelled."""
        while True:
            self._broker.access.authorize(self._session, Operation.READ, group_of(self._group))
            try:
                reply = await self._routes.heartbeat(self._heartbeat())
            except (UnknownMemberId, FencedMemberEpoch):
                lost, self._owned = sorted(self._owned), set()
                self._epoch, self._must_tell_all = JOIN_EPOCH, True
                if lost:
                    await reader.revoke(lost, is_lost=True)
                continue
            except PASSING_OF_GROUPS:
                self._must_tell_all = True  # an answer may be lost
                await asyncio.sleep(RETRY_S)
                continue
            self._epoch, self._must_tell_all = reply.member_epoch, False
            if reply.assignment is None or not await self._follow(reply, reader):
                await asyncio.sleep(reply.heartbeat_interval_ms / 1000)

    async def _follow(self, reply: ConsumerHeartbeatReply, reader: Reader) -> bool:
        """Give up and take over partitions; whether there is something to tell at once."""
        target = self._names(reply.assignment or ())
        gone, new = sorted(self._owned - target), sorted(target - self._owned)
        if gone:
            await reader.revoke(gone, is_lost=False)
            self._owned.difference_update(gone)
        if new:
            await reader.assign(new)
            self._owned.update(new)
        self._must_tell_all = bool(gone or new)
        return self._must_tell_all

    def _names(self, assignment: Iterable[TopicPartitions]) -> set[TopicPartition]:
        topics = self._broker.image.topics_by_id
        return {
            TopicPartition(topics[each.topic_id].name, partition)
            for each in assignment
            if each.topic_id in topics
            for partition in each.partitions
        }

    def _heartbeat(self) -> ConsumerHeartbeat:
        is_joining = self._epoch == JOIN_EPOCH
        if not (is_joining or self._must_tell_all):
            return ConsumerHeartbeat(
                group=self._group, member_id=self.member_id, member_epoch=self._epoch, instance_id=self._instance_id
            )
        return ConsumerHeartbeat(
            group=self._group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            instance_id=self._instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            topics=self._topics,
            owned=() if is_joining else self._owned_by_id(),
            client_id=self._session.client_id or "",
            client_host=self._session.client_host,
        )

    def _owned_by_id(self) -> tuple[TopicPartitions, ...]:
        topics = self._broker.image.topics
        by_id: dict[UUID, list[int]] = {}
        for name in sorted(self._owned):
            if name.topic in topics:
                by_id.setdefault(topics[name.topic].topic_id, []).append(name.partition)
        return tuple(TopicPartitions(topic_id, tuple(some)) for topic_id, some in by_id.items())

    async def committed(self, names: Sequence[TopicPartition]) -> list[FetchedOffset]:
        """What the group has committed of these partitions."""
        while True:
            try:
                return await self._routes.committed(self._group, names, member_id=self.member_id, epoch=self._epoch)
            except (*PASSING_OF_GROUPS, StaleMemberEpoch):
                await asyncio.sleep(RETRY_S)

    async def commit(self, positions: dict[TopicPartition, int]) -> dict[TopicPartition, BarnabasError | None]:
        """Commit positions as this member; for each None, or why it was not committed."""
        topics = self._broker.image.topics
        offsets = [
            NewOffset(*name, offset, -1, "", topics[name.topic].topic_id)
            for name, offset in positions.items()
            if name.topic in topics
        ]
        request = CommitRequest(
            group=self._group,
            offsets=offsets,
            generation=self._epoch,
            member_id=self.member_id,
            instance_id=self._instance_id,
        )
        try:
            errors = await self._routes.commit(request)
        except BarnabasError as error:
            errors = [error.with_traceback(None)] * len(offsets)
        return {TopicPartition(each.topic, each.partition): error for each, error in zip(offsets, errors, strict=True)}

    async def leave(self) -> None:
        """Leave the group, if it can be told soon; else the session of the member ends by itself."""
        if self._epoch == JOIN_EPOCH:
            return
        epoch = LEAVE_EPOCH if self._instance_id is None else STATIC_LEAVE_EPOCH
        request = ConsumerHeartbeat(
            group=self._group, member_id=self.member_id, member_epoch=epoch, instance_id=self._instance_id
        )
        with suppress(BarnabasError, TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._routes.heartbeat(request)
