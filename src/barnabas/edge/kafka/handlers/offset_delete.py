"""OffsetDelete, version 0: forget committed offsets of topics that the group does not read. As Kafka does it."""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.core.errors import BarnabasError, UnknownTopicOrPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.walking import over_partitions
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

Key = tuple[str, int]
_UNKNOWN: Final = UnknownTopicOrPartition("there is no such partition")


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - there is one version
    """See the module."""
    known: dict[Key, None] = {}
    wanted = ((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    async for key in in_turns(wanted):
        if _is_served(broker, *key):
            known[key] = None
    try:
        errors = await broker.groups.delete_offsets(request.group_id, list(known))
    except BarnabasError as error:
        return {"error_code": error.kafka_code, "throttle_time": 0}
    outcomes = dict(zip(known, errors, strict=True))
    told = await over_partitions(
        request.topics, lambda topic: topic.partitions, lambda topic, each: _tell(outcomes, topic.name, each)
    )
    topics = [{"name": topic.name, "partitions": partitions} for topic, partitions in told]
    return {"error_code": 0, "throttle_time": 0, "topics": topics}


def _tell(outcomes: Mapping[Key, BarnabasError | None], topic: str, wanted: Any) -> Values:
    outcome = outcomes.get((topic, wanted.partition_index), _UNKNOWN)
    return {
        "partition_index": wanted.partition_index,
        "error_code": 0 if outcome is None else outcome.kafka_code,
    }


def _is_served(broker: Broker, topic: str, partition: int) -> bool:
    served = broker.served.by_name.get(topic)
    return served is not None and partition in served.partitions
