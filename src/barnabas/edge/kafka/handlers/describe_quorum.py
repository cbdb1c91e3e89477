"""DescribeQuorum, versions 0 to 2: who votes on the metadata of the cluster.

Differs from Kafka: there is one voter, this node, until Raft is there; its directory has no id, and the listener it is
found at is that of clients.
"""

from typing import Any

from barnabas.core.errors import UnknownTopicOrPartition
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.runtime.metadata_log import METADATA_PARTITION
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    wanted = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if wanted != [METADATA_PARTITION]:
        return {"topics": [_unknown(topic) for topic in request.topics], **DONE}
    topic, partition = METADATA_PARTITION
    return {
        "topics": [{"topic_name": topic, "partitions": [{"partition_index": partition, **_quorum(broker)}]}],
        "nodes": [_node(broker)],
        **DONE,
    }


def _unknown(topic: Any) -> Values:
    error = UnknownTopicOrPartition(f"only {METADATA_PARTITION} has a quorum, and must be asked for alone")
    return {
        "topic_name": topic.topic_name,
        "partitions": [{"partition_index": each.partition_index, **refused(error)} for each in topic.partitions],
    }


def _quorum(broker: Broker) -> Values:
    metadata = broker.metadata
    now_ms = broker.clock.now_ms()
    voter = {
        "replica_id": metadata.leader_id,
        "log_end_offset": metadata.end_offset,
        "last_fetch_timestamp": now_ms,
        "last_caught_up_timestamp": now_ms,
    }
    return {
        "leader_id": metadata.leader_id,
        "leader_epoch": metadata.epoch,
        "high_watermark": metadata.high_watermark,
        "current_voters": [voter],
        "observers": (),
        **DONE,
    }


def _node(broker: Broker) -> Values:
    listener = {"name": broker.config.listeners[0].name, "host": broker.host, "port": broker.port}
    return {"node_id": broker.metadata.leader_id, "listeners": [listener]}
