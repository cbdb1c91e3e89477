"""OffsetDelete, version 0: forget committed offsets of topics that the group does not read. As Kafka does it."""

from typing import Any

from barnabas.core.errors import BarnabasError, UnknownTopicOrPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - there is one version
    """See the module."""
    wanted = [(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
    known = [key for key in wanted if _is_served(broker, *key)]
    try:
        errors = await broker.groups.delete_offsets(request.group_id, known)
    except BarnabasError as error:
        return {"error_code": error.kafka_code, "throttle_time": 0}
    codes = dict.fromkeys(wanted, UnknownTopicOrPartition.kafka_code)
    codes |= {key: 0 if error is None else error.kafka_code for key, error in zip(known, errors, strict=True)}
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": each.partition_index, "error_code": codes[topic.name, each.partition_index]}
                for each in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return {"error_code": 0, "throttle_time": 0, "topics": topics}


def _is_served(broker: Broker, topic: str, partition: int) -> bool:
    served = broker.served.by_name.get(topic)
    return served is not None and partition in served.partitions
