"""DescribeQuorum, versions 0 to 2: who votes on the metadata of the cluster.

Differs from Kafka: there is one voter, this node, until Raft is there; its directory has no id, and the listeners it is
found at are those of clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, UnknownTopicOrPartition
from barnabas.core.metadata.image import Node
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.quorum import Quorum, QuorumReplica
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_QUORUM

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_quorum as message


@serves(DESCRIBE_QUORUM, 0, 2, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.DescribeQuorumRequest, asked: Asked
) -> message.DescribeQuorumResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.DESCRIBE, CLUSTER)
    except BarnabasError as error:
        return {**refused(error)}
    wanted = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if wanted != [METADATA_PARTITION]:
        return {"topics": [_unknown(topic) for topic in request.topics], **DONE}
    topic, partition = METADATA_PARTITION
    quorum = broker.metadata.quorum
    return {
        "topics": [{"topic_name": topic, "partitions": [{"partition_index": partition, **_quorum(quorum)}]}],
        "nodes": [_node(node) for voter in quorum.voters if (node := broker.image.nodes.get(voter.replica_id))],
        **DONE,
    }


def _unknown(topic: message.TopicData) -> message.TopicDataAnswer:
    error = UnknownTopicOrPartition(f"only {METADATA_PARTITION} has a quorum, and must be asked for alone")
    return {
        "topic_name": topic.topic_name,
        "partitions": [{"partition_index": each.partition_index, **refused(error)} for each in topic.partitions],
    }


def _quorum(quorum: Quorum) -> message.PartitionDataAnswer:
    return {
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "current_voters": [_replica(voter) for voter in quorum.voters],
        "observers": [_replica(observer) for observer in quorum.observers],
        **DONE,
    }


def _replica(replica: QuorumReplica) -> message.ReplicaState:
    return {
        "replica_id": replica.replica_id,
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": replica.last_fetch_ms,
        "last_caught_up_timestamp": replica.last_caught_up_ms,
    }


def _node(node: Node) -> message.Node:
    listeners: list[message.Listener] = [
        {"name": each.listener, "host": each.host, "port": each.port} for each in node.endpoints
    ]
    return {"node_id": node.node_id, "listeners": listeners}
