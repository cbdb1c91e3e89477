"""Share groups: the verbs on groups. Members join and are told what to fetch; administrators look at groups, and set or
delete where they read.

The state of a partition is made before the partition is assigned: recorded as begun, asked of its share coordinator,
recorded as done. A heartbeat that begins that waits a little for it, so that a new member need not wait for its next
one. What was begun and not done is tried again with the next heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from barnabas.core.coordination import Decision
from barnabas.core.errors import (
    BarnabasError,
    GroupIdNotFound,
    InvalidGroupId,
    NonEmptyGroup,
    UnknownTopicOrPartition,
)
from barnabas.core.model import TopicPartition
from barnabas.runtime.later import Later
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.turns import in_turns
from barnabas.services.group_coordinators import GroupCoordinators
from barnabas.services.led_shares import begin_task
from barnabas.services.served import ServedTopics
from barnabas.services.share_states import ShareStateRouter

if TYPE_CHECKING:
    from barnabas.core.groups import records
    from barnabas.core.groups.decision import GroupDecision
    from barnabas.core.groups.records import StateTopic
    from barnabas.core.groups.share import decisions, messages, persisted, state
    from barnabas.core.groups.share import describe as description
    from barnabas.core.groups.share.describe import DescribedShareGroup
    from barnabas.core.groups.share.messages import ShareHeartbeat, ShareHeartbeatReply
    from barnabas.core.groups.share.state import ShareGroup
    from barnabas.runtime.group_coordinator import GroupCoordinator
else:  # loaded with the first share group
    decisions = Later("barnabas.core.groups.share.decisions")
    description = Later("barnabas.core.groups.share.describe")
    messages = Later("barnabas.core.groups.share.messages")
    persisted = Later("barnabas.core.groups.share.persisted")
    state = Later("barnabas.core.groups.share.state")
    records = Later("barnabas.core.groups.records")


log = get_logger("barnabas.shares")

_P = TypeVar("_P")

INITIALIZE_WAIT_S: Final = 3.0  # less than any client waits for an answer
AT_ONCE: Final = 50  # states that are asked for at the same time
UNKNOWN: Final = -1


class DescribedOffset(NamedTuple):
    """Where a group reads a partition."""

    topic: str
    topic_id: UUID
    partition: int
    start_offset: int = UNKNOWN
    leader_epoch: int = 0
    lag: int = UNKNOWN
    error: BarnabasError | None = None


class ShareGroups:
    """The verbs."""

    def __init__(
        self,
        coordinators: GroupCoordinators,
        states: ShareStateRouter,
        *,
        served: ServedTopics,
    ) -> None:
        self._coordinators = coordinators
        self._states = states
        self._served = served
        self._initializing: dict[tuple[GroupCoordinator, str], asyncio.Task[None]] = {}

    # Members

    async def heartbeat(self, request: ShareHeartbeat) -> ShareHeartbeatReply:
        """ShareGroupHeartbeat."""
        coordinator = await self._coordinators.of(request.group)
        reply = await coordinator.share_heartbeat(request)
        if not reply.initialize:
            return reply
        task = self._begin_initializing(coordinator, request.group, reply.initialize)
        if task is None or request.member_epoch != messages.JOIN_EPOCH:
            return reply
        await asyncio.wait([task], timeout=INITIALIZE_WAIT_S)
        if not task.done():
            return reply
        # What is ready by now can be assigned at once.
        again = msgspec.structs.replace(request, member_epoch=reply.member_epoch)
        return await coordinator.share_heartbeat(again)

    def _begin_initializing(
        self, coordinator: GroupCoordinator, group: str, wanted: Sequence[StateTopic]
    ) -> asyncio.Task[None] | None:
        """The task that makes states; None if the node is stopping."""
        key = (coordinator, group)
        task = self._initializing.get(key)
        if task is None:
            task = begin_task(self._coordinators.tasks, self._initialize(coordinator, group, wanted))
            if task is not None:
                self._initializing[key] = task
                task.add_done_callback(lambda _: self._initializing.pop(key, None))
        return task

    async def _initialize(self, coordinator: GroupCoordinator, group: str, wanted: Sequence[StateTopic]) -> None:
        try:
            found = coordinator.groups.share.get(group)
            epoch = 0 if found is None else found.epoch
            outcomes = await self._initialize_all(group, epoch, dict.fromkeys(_places(wanted), persisted.NO_OFFSET))
            done = [place for place, error in outcomes.items() if error is None]
            for error in {str(error) for error in outcomes.values() if error is not None}:
                log.warning("the state of partitions of share group '%s' cannot be made for now: %s", group, error)
            await self._note_initialized(coordinator, group, wanted, done)
        except BarnabasError as refusal:
            log.warning("the state of share group '%s' cannot be made for now: %s", group, refusal)

    async def _initialize_all(
        self, group: str, epoch: int, offsets: Mapping[tuple[UUID, int], int]
    ) -> dict[tuple[UUID, int], BarnabasError | None]:
        outcomes: dict[tuple[UUID, int], BarnabasError | None] = {}

        async def make(place: tuple[UUID, int]) -> None:
            try:
                await self._states.initialize(
                    persisted.ShareKey(group, *place), state_epoch=epoch, start_offset=offsets[place]
                )
                outcomes[place] = None
            except BarnabasError as error:
                outcomes[place] = error.with_traceback(None)

        await _for_all(list(offsets), make)
        return outcomes

    async def _note_initialized(
        self,
        coordinator: GroupCoordinator,
        group: str,
        wanted: Iterable[StateTopic],
        done: Sequence[tuple[UUID, int]],
    ) -> None:
        names = {topic.topic_id: topic.name for topic in wanted}
        ready = _topics(names, done)

        def decide() -> GroupDecision[None]:
            found = coordinator.groups.share.get(group)
            if found is None:
                return Decision([], None)
            return decisions.decide_initialized(found, ready, topics=coordinator.topics)

        if ready:
            await coordinator.commit(decide, is_own=True)

    # Looking

    async def describe(self, group: str) -> DescribedShareGroup:
        """ShareGroupDescribe; refused if it is not a share group."""
        coordinator = await self._named(group)
        return await coordinator.read(lambda: description.describe_share_group(_find(coordinator, group)))

    async def describe_offsets(self, group: str, wanted: Mapping[str, Sequence[int]] | None) -> list[DescribedOffset]:
        """DescribeShareGroupOffsets: of these partitions, or of all that the group reads."""
        coordinator = await self._named(group)
        known = await coordinator.read(lambda: dict(_find(coordinator, group).initialized))
        places: list[tuple[str, UUID, int]] = []
        if wanted is None:
            places = [(topic.name, topic_id, index) for topic_id, topic in known.items() for index in topic.partitions]
        else:
            for name, indexes in wanted.items():
                topic = self._served.by_name.get(name)
                places += [(name, UUID(int=0) if topic is None else topic.topic_id, index) for index in indexes]
        found: dict[tuple[str, UUID, int], DescribedOffset] = {}

        async def look(place: tuple[str, UUID, int]) -> None:
            found[place] = await self._describe_offset(group, *place)

        await _for_all(places, look)
        return [found[place] for place in places]

    async def _describe_offset(self, group: str, name: str, topic_id: UUID, partition: int) -> DescribedOffset:
        place = (name, topic_id, partition)
        topic = self._served.by_name.get(name)
        if topic is None or topic.topic_id != topic_id or partition not in topic.partitions:
            return DescribedOffset(*place, error=UnknownTopicOrPartition(f"{name}-{partition} does not exist"))
        try:
            state = await self._states.summarize(persisted.ShareKey(group, topic_id, partition))
            if state is None or state.start_offset == persisted.NO_OFFSET:
                return DescribedOffset(*place)
            lag = UNKNOWN
            if state.complete_count >= 0:
                end_offset = await self._find_end(TopicPartition(name, partition))
                lag = max(end_offset - state.start_offset - state.complete_count, 0)
        except BarnabasError as error:
            return DescribedOffset(*place, error=error.with_traceback(None))
        return DescribedOffset(*place, state.start_offset, max(state.leader_epoch, 0), lag)

    async def _find_end(self, name: TopicPartition) -> int:
        """The end of a partition, wherever it is led."""
        partition = self._served.get_partition(*name)
        return partition.high_watermark if partition.is_led else await self._states.find_end(name)

    # Administration

    async def alter_offsets(
        self, group: str, wanted: Mapping[str, Mapping[int, int]]
    ) -> dict[tuple[str, int], BarnabasError | None]:
        """AlterShareGroupOffsets: where a group without members reads from now on."""
        coordinator = await self._named(group)
        results: dict[tuple[str, int], BarnabasError | None] = {}
        offsets: dict[tuple[UUID, int], int] = {}
        names: dict[UUID, str] = {}
        for name, partitions in wanted.items():
            topic = self._served.by_name.get(name)
            for index, offset in partitions.items():
                if topic is None or index not in topic.partitions:
                    results[name, index] = UnknownTopicOrPartition(f"{name}-{index} does not exist")
                else:
                    names[topic.topic_id] = name
                    offsets[topic.topic_id, index] = offset
        states = _topics(names, offsets)

        def decide() -> GroupDecision[None]:
            found = coordinator.groups.share.get(group)
            if found is None and coordinator.groups.type_of(group) is not None:
                raise GroupIdNotFound(f"Group {group} is not a share group.")
            _check_empty(found, group)
            return decisions.decide_initializing(found or state.ShareGroup(group), states, topics=coordinator.topics)

        if not offsets:
            _check_empty(coordinator.groups.share.get(group), group)
            return results
        await coordinator.commit(decide)
        # A higher state epoch, so that leaders that still have the old state cannot write it.
        epoch = await coordinator.commit(lambda: _raise_epoch(coordinator, group))
        outcomes = await self._initialize_all(group, epoch, offsets)
        await self._note_initialized(
            coordinator, group, states, [place for place, error in outcomes.items() if error is None]
        )
        return results | {(names[topic_id], index): error for (topic_id, index), error in outcomes.items()}

    async def delete_offsets(self, group: str, topics: Sequence[str]) -> dict[str, BarnabasError | None]:
        """DeleteShareGroupOffsets: a group without members forgets topics."""
        coordinator = await self._named(group)
        results: dict[str, BarnabasError | None] = {}
        ids: dict[UUID, str] = {}
        for name in topics:
            topic = self._served.by_name.get(name)
            if topic is None:
                results[name] = UnknownTopicOrPartition(f"topic '{name}' does not exist")
            else:
                ids[topic.topic_id] = name

        def decide() -> GroupDecision[list[StateTopic]]:
            found = _find(coordinator, group)
            _check_empty(found, group)
            return decisions.decide_deleting(found, ids)

        deleting = await coordinator.commit(decide)
        results |= await self._delete_states(coordinator, group, deleting)
        for name in ids.values():
            if name not in results:
                results[name] = UnknownTopicOrPartition("There is no offset information to delete.")
        return results

    async def prepare_deletion(self, group: str) -> None:
        """Delete all states of a group that is about to be deleted; nothing if it is not a share group."""
        coordinator = await self._coordinators.of(group)
        if group not in coordinator.groups.share:
            return

        def decide() -> GroupDecision[list[StateTopic]]:
            found = _find(coordinator, group)
            _check_empty(found, group)
            return decisions.decide_deleting(found, {*found.initialized, *found.initializing})

        deleting = await coordinator.commit(decide)
        for error in (await self._delete_states(coordinator, group, deleting)).values():
            if error is not None:
                raise error

    async def _delete_states(
        self, coordinator: GroupCoordinator, group: str, deleting: Sequence[StateTopic]
    ) -> dict[str, BarnabasError | None]:
        outcomes: dict[str, BarnabasError | None] = {topic.name: None for topic in deleting}
        names = {topic.topic_id: topic.name for topic in deleting}

        async def delete(place: tuple[UUID, int]) -> None:
            try:
                await self._states.delete(persisted.ShareKey(group, *place))
            except BarnabasError as error:
                outcomes[names[place[0]]] = error.with_traceback(None)

        await _for_all(_places(deleting), delete)
        gone = [topic.topic_id for topic in deleting if outcomes[topic.name] is None]

        def decide() -> GroupDecision[None]:
            found = coordinator.groups.share.get(group)
            return Decision([], None) if found is None else decisions.decide_deleted(found, gone)

        if gone:
            await coordinator.commit(decide)
        return outcomes

    async def _named(self, group: str) -> GroupCoordinator:
        if not group:
            raise InvalidGroupId("the group id must not be empty")
        return await self._coordinators.of(group)


async def _for_all(places: Sequence[_P], do: Callable[[_P], Awaitable[None]]) -> None:
    """Do something for all of these, several at the same time."""
    for first in range(0, len(places), AT_ONCE):
        async with asyncio.TaskGroup() as tasks:
            async for place in in_turns(places[first : first + AT_ONCE]):
                tasks.create_task(_do(do, place))


async def _do(do: Callable[[_P], Awaitable[None]], place: _P) -> None:
    await do(place)


def _find(coordinator: GroupCoordinator, group: str) -> ShareGroup:
    found = coordinator.groups.share.get(group)
    if found is None:
        is_there = coordinator.groups.type_of(group) is not None or group in coordinator.soft.live
        raise GroupIdNotFound(f"Group {group} {'is not a share group' if is_there else 'not found'}.")
    return found


def _check_empty(found: ShareGroup | None, group: str) -> None:
    if found is not None and found.members:
        raise NonEmptyGroup(f"group '{group}' has members")


def _raise_epoch(coordinator: GroupCoordinator, group: str) -> GroupDecision[int]:
    draft = decisions.ShareDraft(_find(coordinator, group), topics=coordinator.topics)
    draft.bump_epoch()
    return draft.decide(draft.state.epoch)


def _places(topics: Iterable[StateTopic]) -> list[tuple[UUID, int]]:
    return [(topic.topic_id, index) for topic in topics for index in topic.partitions]


def _topics(names: Mapping[UUID, str], places: Iterable[tuple[UUID, int]]) -> list[StateTopic]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, index in places:
        by_topic.setdefault(topic_id, []).append(index)
    return [records.StateTopic(topic_id, names[topic_id], tuple(sorted(found))) for topic_id, found in by_topic.items()]
