"""DescribeTopicPartitions, version 0: topics and their partitions in pages, sorted by name.

No replica leaves the in-sync ones while there is one node, so no other is ever eligible to lead.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError, InvalidRequest, UnknownTopicOrPartition
from barnabas.core.metadata.image import Image, PartitionState, Topic
from barnabas.core.metadata.names import check_topic_name, is_internal
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

MAX_PARTITIONS: Final = 2000
"""Of one answer, whatever is asked for: Kafka's default of max.request.partition.size.limit."""

_NO_LEADER: Final = -1


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - there is one version
    """See the module."""
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    is_all = not request.topics
    names = broker.image.topics if is_all else {topic.name for topic in request.topics}
    if cursor is not None and (cursor.partition_index < 0 or (not is_all and first not in names)):
        code = InvalidRequest.kafka_code
        return {"throttle_time": 0, "topics": [_refused(topic.name, code) async for topic in in_turns(request.topics)]}
    left = max(min(MAX_PARTITIONS, request.response_partition_limit), 1)
    topics: list[Values] = []
    async for name in in_turns(sorted(name for name in names if name >= first)):
        if left == 0:
            return _page(topics, next_cursor={"topic_name": name, "partition_index": 0})
        topic = broker.image.topics.get(name)
        if topic is None:
            topics.append(_refused(name, _code_of(name)))
            continue
        start = cursor.partition_index if cursor is not None and name == first else 0
        end = min(len(topic.partitions), start + left)
        topics.append(_topic(broker.image, topic, range(start, end)))
        if end < len(topic.partitions):
            return _page(topics, next_cursor={"topic_name": name, "partition_index": end})
        left -= max(end - start, 0)
    return _page(topics, next_cursor=None)


def _page(topics: list[Values], *, next_cursor: Values | None) -> Values:
    return {"throttle_time": 0, "topics": topics, "next_cursor": next_cursor}


def _code_of(name: str) -> int:
    try:
        check_topic_name(name)
    except BarnabasError as error:
        return error.kafka_code
    return UnknownTopicOrPartition.kafka_code


def _refused(name: str, error_code: int) -> Values:
    return {
        "error_code": error_code,
        "name": name,
        "is_internal": is_internal(name),
        "topic_authorized_operations": operations.OF_TOPIC,
    }


def _topic(image: Image, topic: Topic, indexes: range) -> Values:
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": is_internal(topic.name),
        "partitions": [_partition(image, topic.partitions[index]) for index in indexes],
        "topic_authorized_operations": operations.OF_TOPIC,
    }


def _partition(image: Image, state: PartitionState) -> Values:
    return {
        "error_code": 0,
        "partition_index": state.partition,
        "leader_id": state.leader if state.leader in image.nodes else _NO_LEADER,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": state.isr,
        "eligible_leader_replicas": (),
        "last_known_elr": (),
        "offline_replicas": [node for node in state.replicas if node not in image.nodes],
    }
