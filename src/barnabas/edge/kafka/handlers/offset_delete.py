"""OffsetDelete, version 0: delete committed offsets of topics that the group does not read. As Kafka does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError, TopicAuthorizationFailed, UnknownTopicOrPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import OFFSET_DELETE

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import offset_delete as message

Key = tuple[str, int]
_UNSEEN: Final = TopicAuthorizationFailed("not allowed: read on this topic")
_UNKNOWN: Final = UnknownTopicOrPartition("there is no such partition")


@serves(OFFSET_DELETE, 0, 0)
async def handle(broker: Broker, request: message.OffsetDeleteRequest, asked: Asked) -> message.OffsetDeleteResponse:
    """See the module."""
    known: dict[Key, None] = {}
    unseen: set[str] = set()
    wanted = ((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    async for key in in_turns(wanted):
        if not broker.access.allows_topic(asked.session, Operation.READ, key[0]):
            unseen.add(key[0])
        elif _is_served(broker, *key):
            known[key] = None
    try:
        broker.access.authorize(asked.session, Operation.DELETE, group(request.group_id))
        errors = await broker.groups.delete_offsets(request.group_id, list(known))
    except BarnabasError as error:
        return {"error_code": error.kafka_code}
    outcomes: dict[Key, BarnabasError | None] = dict(zip(known, errors, strict=True))
    for topic in request.topics:
        if topic.name in unseen:
            outcomes.update(dict.fromkeys(((topic.name, each.partition_index) for each in topic.partitions), _UNSEEN))

    def tell(
        topic: message.OffsetDeleteRequestTopic, each: message.OffsetDeleteRequestPartition
    ) -> message.OffsetDeleteResponsePartition:
        return _tell(outcomes, topic.name, each)

    told = await over_partitions(request.topics, lambda topic: topic.partitions, tell)
    topics: list[message.OffsetDeleteResponseTopic] = [
        {"name": topic.name, "partitions": partitions} for topic, partitions in told
    ]
    return {"error_code": 0, "topics": topics}


def _tell(
    outcomes: Mapping[Key, BarnabasError | None], topic: str, wanted: message.OffsetDeleteRequestPartition
) -> message.OffsetDeleteResponsePartition:
    outcome = outcomes.get((topic, wanted.partition_index), _UNKNOWN)
    return {
        "partition_index": wanted.partition_index,
        "error_code": 0 if outcome is None else outcome.kafka_code,
    }


def _is_served(broker: Broker, topic: str, partition: int) -> bool:
    served = broker.served.by_name.get(topic)
    return served is not None and partition in served.partitions
