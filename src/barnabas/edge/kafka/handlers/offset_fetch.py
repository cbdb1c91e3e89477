"""OffsetFetch, versions 1 to 10: the committed offsets of a group.

Many groups from version 8 on, topic ids from 10 on. Null topics mean all that the group has committed for. Version 1
has error codes of partitions only, so an error of the whole is repeated for each. Every answer waits until the offsets
it has are durable, whether `require_stable` is asked for or not; with it, an offset that an open transaction may change
is refused, and the client retries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import group as group_of
from barnabas.core.errors import BarnabasError, TopicAuthorizationFailed, UnknownTopicId
from barnabas.core.groups.offsets import FetchedOffset, WantedOffset
from barnabas.core.groups.records import NO_TOPIC_ID
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.letting_go import let_go_flat
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import OFFSET_FETCH

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    from barnabas.edge.kafka.messages import offset_fetch as message

    class _Fetched(TypedDict, total=False, closed=True):
        """The answer for one group."""

        topics: Sequence[message.OffsetFetchResponseTopics]
        error_code: int


_GROUP_ERROR_FROM: Final = 2
_PER_TURN: Final = 20
_BATCHED_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10


@serves(OFFSET_FETCH, 1, 10)
async def handle(broker: Broker, request: message.OffsetFetchRequest, asked: Asked) -> message.OffsetFetchResponse:
    """See the module."""
    must_be_stable = request.require_stable
    if asked.version < _BATCHED_FROM:
        topics = (
            None if request.topics is None else [_by_name(broker, topic) async for topic in in_turns(request.topics)]
        )
        return {**await _fetch(broker, request.group_id, topics, asked, must_be_stable=must_be_stable)}
    groups: list[message.OffsetFetchResponseGroup] = [
        {
            "group_id": group.group_id,
            **await _fetch(
                broker,
                group.group_id,
                await _named(broker, group, asked.version),
                asked,
                member_id=group.member_id,
                epoch=group.member_epoch,
                must_be_stable=must_be_stable,
            ),
        }
        async for group in in_turns(request.groups, per_turn=_PER_TURN, letters=lambda group: len(group.group_id))
    ]
    return {"groups": groups}


async def _fetch(
    broker: Broker,
    group: str,
    topics: list[_Named] | None,
    asked: Asked,
    *,
    member_id: str | None = None,
    epoch: int = -1,
    must_be_stable: bool,
) -> _Fetched:
    """The offsets of one group. Topics are looked up before: what a name stands for may change during a wait."""
    version, session, access = asked.version, asked.session, broker.access
    named = topics or ()
    wanted = None
    if topics is not None:
        wanted = [want async for want in in_turns(want for topic in named for want in topic.wanted())]
    try:
        access.authorize(session, Operation.DESCRIBE, group_of(group))
        fetched = await broker.groups.fetch_offsets(
            group, wanted, member_id=member_id, epoch=epoch, must_be_stable=must_be_stable
        )
    except BarnabasError as error:
        if version >= _GROUP_ERROR_FROM:
            return {"error_code": error.kafka_code, "topics": ()}
        refused = _refused(error.kafka_code)
        return {"topics": [topic.answer(await topic.each(refused)) async for topic in in_turns(named)]}
    if topics is None:
        seen = [each async for each in in_turns(fetched) if access.sees_topic(session, Operation.DESCRIBE, each.topic)]
        return {"error_code": 0, "topics": await _all_topics(broker, seen, version)}
    rest = iter(fetched)
    unknown, unseen = _refused(UnknownTopicId.kafka_code), _refused(TopicAuthorizationFailed.kafka_code)

    def found(_: int) -> message.OffsetFetchResponsePartitions:
        return _partition(next(rest))

    def hidden(index: int) -> message.OffsetFetchResponsePartitions:
        next(rest)  # in its place
        return unseen(index)

    def tell(name: str | None) -> Callable[[int], message.OffsetFetchResponsePartitions]:
        if name is None:
            return unknown
        return found if access.allows_topic(session, Operation.DESCRIBE, name) else hidden

    answers = [topic.answer(await topic.each(tell(topic.name))) async for topic in in_turns(named)]
    let_go_flat(wanted, fetched)
    return {"error_code": 0, "topics": answers}


class _Named(NamedTuple):
    """A topic in a version that has its name, or only its id. Without a name, no topic has that id."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[int]
    by_id: bool

    def wanted(self) -> Iterator[WantedOffset]:
        if self.name is not None:
            for index in self.partitions:
                yield WantedOffset(self.name, index, self.topic_id or NO_TOPIC_ID)

    async def each(
        self, tell: Callable[[int], message.OffsetFetchResponsePartitions]
    ) -> list[message.OffsetFetchResponsePartitions]:
        return [tell(index) async for index in in_turns(self.partitions)]

    def answer(self, partitions: list[message.OffsetFetchResponsePartitions]) -> message.OffsetFetchResponseTopics:
        if self.by_id:
            return {"topic_id": self.topic_id, "partitions": partitions}
        return {"name": self.name or "", "partitions": partitions}


async def _named(broker: Broker, group: message.OffsetFetchRequestGroup, version: int) -> list[_Named] | None:
    if group.topics is None:
        return None
    name = _by_id if version >= _TOPIC_IDS_FROM else _by_name
    return [name(broker, topic) async for topic in in_turns(group.topics)]


def _by_id(broker: Broker, topic: message.OffsetFetchRequestTopics) -> _Named:
    served = None if topic.topic_id is None else broker.served.by_id.get(topic.topic_id)
    return _Named(None if served is None else served.name, topic.topic_id, topic.partition_indexes, by_id=True)


def _by_name(broker: Broker, topic: message.OffsetFetchRequestTopic) -> _Named:
    # An offset that was committed for an earlier topic of the name is not one of this topic.
    served = broker.served.by_name.get(topic.name)
    return _Named(topic.name, None if served is None else served.topic_id, topic.partition_indexes, by_id=False)


async def _all_topics(
    broker: Broker, fetched: Sequence[FetchedOffset], version: int
) -> list[message.OffsetFetchResponseTopics]:
    by_topic: dict[str, list[message.OffsetFetchResponsePartitions]] = {}
    async for offset in in_turns(fetched):
        by_topic.setdefault(offset.topic, []).append(_partition(offset))
    if version < _TOPIC_IDS_FROM:
        return [{"name": name, "partitions": partitions} for name, partitions in by_topic.items()]
    return [
        {"topic_id": broker.served.by_name[name].topic_id, "partitions": partitions}
        for name, partitions in by_topic.items()
        if name in broker.served.by_name
    ]


def _partition(offset: FetchedOffset) -> message.OffsetFetchResponsePartitions:
    return {
        "partition_index": offset.partition,
        "committed_offset": offset.offset,
        "committed_leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "error_code": 0 if offset.error is None else offset.error.kafka_code,
    }


def _refused(error_code: int) -> Callable[[int], message.OffsetFetchResponsePartitions]:
    return lambda index: {
        "partition_index": index,
        "committed_offset": -1,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": error_code,
    }
