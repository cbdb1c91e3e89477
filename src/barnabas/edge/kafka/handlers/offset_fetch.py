"""OffsetFetch, versions 1 to 10: how far a group has read. Many groups from version 8 on, topic ids from 10 on.

No topics (null) are all that the group has committed for. Version 1 has no error but those of partitions, so what
refuses the whole is said of each. Every answer waits until the offsets it has are durable, whether `require_stable` is
asked for or not; with it, an offset that an open transaction may change is refused, and the client comes back.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from barnabas.core.errors import BarnabasError, UnknownTopicId
from barnabas.core.groups.offsets import FetchedOffset, WantedOffset
from barnabas.core.groups.records import NO_TOPIC_ID
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

_GROUP_ERROR_FROM: Final = 2
_PER_TURN: Final = 50
_BATCHED_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    must_be_stable = getattr(request, "require_stable", False)
    if asked.version < _BATCHED_FROM:
        fetched = await _fetch(broker, request.group_id, request.topics, asked.version, must_be_stable=must_be_stable)
        return {"throttle_time": 0, **fetched}
    groups = [
        {
            "group_id": group.group_id,
            **await _fetch(
                broker,
                group.group_id,
                group.topics,
                asked.version,
                member_id=getattr(group, "member_id", None),
                epoch=getattr(group, "member_epoch", -1),
                must_be_stable=must_be_stable,
            ),
        }
        async for group in in_turns(request.groups, per_turn=_PER_TURN, letters=lambda group: len(group.group_id))
    ]
    return {"throttle_time": 0, "groups": groups}


async def _fetch(
    broker: Broker,
    group: str,
    topics: Any,
    version: int,
    *,
    member_id: str | None = None,
    epoch: int = -1,
    must_be_stable: bool,
) -> Values:
    # Once, for what it comes to may change while the offsets are waited for.
    named = [_name(broker, topic, version) async for topic in in_turns(topics or ())]
    wanted = None
    if topics is not None:
        wanted = [want async for want in in_turns(want for topic in named for want in topic.wanted())]
    try:
        fetched = await broker.groups.fetch_offsets(
            group, wanted, member_id=member_id, epoch=epoch, must_be_stable=must_be_stable
        )
    except BarnabasError as error:
        if version >= _GROUP_ERROR_FROM:
            return {"error_code": error.kafka_code, "topics": ()}
        refused = _refused(error.kafka_code)
        return {"topics": [topic.answer(await topic.each(refused)) async for topic in in_turns(named)]}
    if topics is None:
        return {"error_code": 0, "topics": await _all_topics(broker, fetched, version)}
    rest = iter(fetched)
    unknown = _refused(UnknownTopicId.kafka_code)

    def found(_: int) -> Values:
        return _partition(next(rest))

    answers = [
        topic.answer(await topic.each(unknown if topic.name is None else found)) async for topic in in_turns(named)
    ]
    return {"error_code": 0, "topics": answers}


class _Named(NamedTuple):
    """A topic in a version that names it by its name, or by its id alone. No name: no topic has that id."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[int]
    by_id: bool

    def wanted(self) -> Iterator[WantedOffset]:
        if self.name is not None:
            for index in self.partitions:
                yield WantedOffset(self.name, index, self.topic_id or NO_TOPIC_ID)

    async def each(self, tell: Callable[[int], Values]) -> list[Values]:
        return [tell(index) async for index in in_turns(self.partitions)]

    def answer(self, partitions: list[Values]) -> Values:
        named: Values = {"topic_id": self.topic_id} if self.by_id else {"name": self.name}
        return {**named, "partitions": partitions}


def _name(broker: Broker, topic: Any, version: int) -> _Named:
    if version >= _TOPIC_IDS_FROM:
        served = None if topic.topic_id is None else broker.served.by_id.get(topic.topic_id)
        return _Named(None if served is None else served.name, topic.topic_id, topic.partition_indexes, by_id=True)
    # An offset that was committed for an earlier topic of the name is not one of this topic.
    served = broker.served.by_name.get(topic.name)
    return _Named(topic.name, None if served is None else served.topic_id, topic.partition_indexes, by_id=False)


async def _all_topics(broker: Broker, fetched: Sequence[FetchedOffset], version: int) -> list[Values]:
    by_topic: dict[str, list[Values]] = {}
    async for offset in in_turns(fetched):
        by_topic.setdefault(offset.topic, []).append(_partition(offset))
    if version < _TOPIC_IDS_FROM:
        return [{"name": name, "partitions": partitions} for name, partitions in by_topic.items()]
    return [
        {"topic_id": broker.served.by_name[name].topic_id, "partitions": partitions}
        for name, partitions in by_topic.items()
        if name in broker.served.by_name
    ]


def _partition(offset: FetchedOffset) -> Values:
    return {
        "partition_index": offset.partition,
        "committed_offset": offset.offset,
        "committed_leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "error_code": 0 if offset.error is None else offset.error.kafka_code,
    }


def _refused(error_code: int) -> Callable[[int], Values]:
    return lambda index: {
        "partition_index": index,
        "committed_offset": -1,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": error_code,
    }
