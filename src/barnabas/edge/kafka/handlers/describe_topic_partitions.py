"""DescribeTopicPartitions, version 0: topics and their partitions in pages, sorted by name.

A partition whose leader this node is, cut off from the others, has no leader in the answer: nobody knows who leads
it, and this node takes no records (decision 25). Metadata names another node, for clients to ask there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import topic as topic_of
from barnabas.core.errors import BarnabasError, InvalidRequest, TopicAuthorizationFailed, UnknownTopicOrPartition
from barnabas.core.metadata.image import PartitionState, Topic
from barnabas.core.metadata.names import check_topic_name, is_internal
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.edge.kafka.handlers.alive import alive_ids
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_TOPIC_PARTITIONS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_topic_partitions as message

MAX_PARTITIONS: Final = 2000
"""The most partitions in one answer: Kafka's default of max.request.partition.size.limit."""

_NO_LEADER: Final = -1


@serves(DESCRIBE_TOPIC_PARTITIONS, 0, 0)
async def handle(
    broker: Broker, request: message.DescribeTopicPartitionsRequest, asked: Asked
) -> message.DescribeTopicPartitionsResponse:
    """See the module."""
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    is_all = not request.topics
    names = set(broker.image.topics) if is_all else {topic.name for topic in request.topics}
    hidden = await _hidden(broker, asked, names, is_named=not is_all)
    if is_all:
        names -= hidden
    if cursor is not None and (cursor.partition_index < 0 or (not is_all and first not in names)):
        code = InvalidRequest.kafka_code
        return {"topics": [_refused(topic.name, code) async for topic in in_turns(request.topics)]}
    left = max(min(MAX_PARTITIONS, request.response_partition_limit), 1)
    topics: list[message.DescribeTopicPartitionsResponseTopic] = []
    async for name in in_turns(sorted(name for name in names if name >= first)):
        if left == 0:
            return _page(topics, next_cursor={"topic_name": name, "partition_index": 0})
        topic = broker.image.topics.get(name)
        if name in hidden:
            topics.append(_refused(name, TopicAuthorizationFailed.kafka_code))
            continue
        allowed = operations.allowed_on(broker.access, asked.session, topic_of(name))
        if topic is None:
            topics.append(_refused(name, _code_of(name), allowed=allowed))
            continue
        start = cursor.partition_index if cursor is not None and name == first else 0
        end = min(len(topic.partitions), start + left)
        topics.append(_topic(broker, topic, range(start, end), allowed=allowed))
        if end < len(topic.partitions):
            return _page(topics, next_cursor={"topic_name": name, "partition_index": end})
        left -= max(end - start, 0)
    return _page(topics, next_cursor=None)


async def _hidden(broker: Broker, asked: Asked, names: set[str], *, is_named: bool) -> set[str]:
    """The topics that the client may not see."""
    if broker.access.is_open:
        return set()
    allows = broker.access.allows_topic if is_named else broker.access.sees_topic
    return {name async for name in in_turns(sorted(names)) if not allows(asked.session, Operation.DESCRIBE, name)}


def _page(
    topics: list[message.DescribeTopicPartitionsResponseTopic], *, next_cursor: message.CursorAnswer | None
) -> message.DescribeTopicPartitionsResponse:
    return {"topics": topics, "next_cursor": next_cursor}


def _code_of(name: str) -> int:
    try:
        check_topic_name(name)
    except BarnabasError as error:
        return error.kafka_code
    return UnknownTopicOrPartition.kafka_code


def _refused(
    name: str, error_code: int, *, allowed: int = operations.NOT_ASKED
) -> message.DescribeTopicPartitionsResponseTopic:
    return {
        "error_code": error_code,
        "name": name,
        "is_internal": is_internal(name),
        "topic_authorized_operations": allowed,
    }


def _topic(
    broker: Broker, topic: Topic, indexes: range, *, allowed: int
) -> message.DescribeTopicPartitionsResponseTopic:
    alive, cut_off = alive_ids(broker.image), broker.logs.replicas.cut_off
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": is_internal(topic.name),
        "partitions": [
            _partition(alive, topic.partitions[index], is_cut_off=(topic.name, index) in cut_off) for index in indexes
        ],
        "topic_authorized_operations": allowed,
    }


def _partition(
    alive: frozenset[int], state: PartitionState, *, is_cut_off: bool
) -> message.DescribeTopicPartitionsResponsePartition:
    return {
        "error_code": 0,
        "partition_index": state.partition,
        "leader_id": state.leader if state.leader in alive and not is_cut_off else _NO_LEADER,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": state.isr,
        "eligible_leader_replicas": state.elr,
        "last_known_elr": state.last_known_elr,
        "offline_replicas": [node for node in state.replicas if node not in alive],
    }
