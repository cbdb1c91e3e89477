"""DescribeQuorum, versions 0 to 2: who votes on the metadata of the cluster.

Only the leader knows, any other node answers NOT_LEADER_OR_FOLLOWER. Differs from Kafka: a voter that does not say
where it listens for controllers is shown with its listeners for clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, UnknownTopicOrPartition
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.metadata.quorum import Quorum, QuorumReplica
from barnabas.core.raft.voters import Voter
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.quorum_requests import quorum_of
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
    try:
        described = _quorum(quorum_of(broker).describe())
        nodes = [node for voter in quorum_of(broker).voters.voters if (node := _node(broker, voter))]
    except BarnabasError as error:
        described, nodes = {**refused(error)}, []
    return {
        "topics": [{"topic_name": topic, "partitions": [{"partition_index": partition, **described}]}],
        "nodes": nodes,
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
        "replica_directory_id": replica.directory_id,
        "log_end_offset": replica.log_end_offset,
        "last_fetch_timestamp": replica.last_fetch_ms,
        "last_caught_up_timestamp": replica.last_caught_up_ms,
    }


def _node(broker: Broker, voter: Voter) -> message.Node | None:
    registered = broker.image.nodes.get(voter.key.node_id)
    endpoints = voter.endpoints or (registered.endpoints if registered is not None else ())
    if not endpoints:
        return None
    listeners: list[message.Listener] = [
        {"name": each.listener, "host": each.host, "port": each.port} for each in endpoints
    ]
    return {"node_id": voter.key.node_id, "listeners": listeners}
