"""DescribeCluster and DescribeQuorum."""

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_CLUSTER, DESCRIBE_QUORUM
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.support import NODE_ID, ask, run


def test_the_cluster_is_described() -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, DESCRIBE_CLUSTER, 2, include_cluster_authorized_operations=True)
        assert (answer.error_code.value, answer.cluster_id) == (0, broker.image.cluster_id)
        assert (answer.controller_id, answer.endpoint_type) == (NODE_ID, 1)
        (node,) = answer.brokers
        assert (node.broker_id, node.host, node.port, node.rack) == (NODE_ID, "broker.test", 9092, "a")
        assert not node.is_fenced
        assert answer.cluster_authorized_operations == 8096

    run(scenario)


@pytest.mark.parametrize(("endpoint_type", "code"), [(2, 114), (0, 115), (3, 115)])
def test_only_brokers_can_be_asked_for(endpoint_type: int, code: int) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, DESCRIBE_CLUSTER, 1, endpoint_type=endpoint_type)
        assert (answer.error_code.value, answer.brokers) == (code, ())
        assert answer.error_message

    run(scenario)


def test_the_quorum_is_this_node() -> None:
    async def scenario(broker: Broker) -> None:
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        answer = await ask(broker, DESCRIBE_QUORUM, 2, topics=topics)
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code.value, partition.leader_id) == (0, NODE_ID)
        assert partition.leader_epoch == broker.metadata.quorum.leader_epoch
        assert partition.high_watermark == broker.metadata.quorum.high_watermark
        (voter,) = partition.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (NODE_ID, broker.metadata.applied_offset)
        assert voter.last_caught_up_timestamp == NOW_MS
        assert partition.observers == ()
        (node,) = answer.nodes
        assert [(each.name, each.host, each.port) for each in node.listeners] == [
            ("PLAINTEXT", "broker.test", 9092),
            ("OUTSIDE", "outside.test", 9192),
        ]

    run(scenario)


@pytest.mark.parametrize(("topic", "partition"), [("a", 0), ("__cluster_metadata", 1)])
def test_nothing_else_has_a_quorum(topic: str, partition: int) -> None:
    async def scenario(broker: Broker) -> None:
        topics = [{"topic_name": topic, "partitions": [{"partition_index": partition}]}]
        for version in (0, 2):
            answer = await ask(broker, DESCRIBE_QUORUM, version, topics=topics)
            assert answer.error_code.value == 0
            assert answer.topics[0].partitions[0].error_code.value == 3

    run(scenario)
