"""What the five APIs of share coordinators have in common: they are for other nodes, and each partition has its own
outcome.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar
from uuid import UUID

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, InvalidRequest, UnknownTopicOrPartition
from barnabas.core.groups.records import NO_TOPIC_ID
from barnabas.core.groups.share.persisted import ShareKey
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker

P = TypeVar("P")
R = TypeVar("R")


async def for_each_state(
    broker: Broker,
    asked: Asked,
    group: str,
    topics: Iterable[Any],
    do: Callable[[ShareKey, Any], Awaitable[R]],
    refuse: Callable[[int, BarnabasError], R],
) -> list[tuple[UUID, list[R]]]:
    """The outcome of each partition of a request, by topic."""
    found: list[tuple[UUID, list[R]]] = []
    for topic in topics:
        outcomes: list[R] = []
        async for partition in in_turns(topic.partitions):
            key = ShareKey(group, topic.topic_id or NO_TOPIC_ID, partition.partition)
            try:
                broker.access.authorize(asked.session, Operation.CLUSTER_ACTION, CLUSTER)
                _check(broker, key)
                outcomes.append(await do(key, partition))
            except BarnabasError as error:
                outcomes.append(refuse(partition.partition, error))
        found.append((topic.topic_id or NO_TOPIC_ID, outcomes))
    return found


def _check(broker: Broker, key: ShareKey) -> None:
    if not key.group:
        raise InvalidRequest("the group id must not be empty")
    if key.partition < 0:
        raise InvalidRequest(f"partition {key.partition} does not exist")
    topic = broker.image.topics_by_id.get(key.topic_id)
    if topic is None or key.partition not in topic.partitions:
        raise UnknownTopicOrPartition(f"partition {key.partition} of topic {key.topic_id} does not exist")
