"""Any node serves any client: a node that leads nothing, has no coordinator and is not the controller is asked.

Three nodes are processes; the fourth, with gRPC, is a broker in this process, and joins them.
"""

from collections.abc import Iterator

import grpc
import pytest

import barnabas
from barnabas.testing.cluster.fixture import TestCluster
from barnabas.testing.cluster.ports import find_free
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.v1 import bus_pb2
from tests.conformance.grpc.clients import TIMEOUT_S, Client, Consumer, produce_stream, wait_until

QUICK_HEARTBEATS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    with barnabas.cluster(nodes=3, settings=QUICK_HEARTBEATS) as running:
        yield running


@pytest.fixture(scope="module")
def broker(cluster: TestCluster) -> Iterator[EmbeddedBroker]:
    """The fourth node: a broker only. Topics that exist by then have no replicas on it."""
    cluster.bus.create_topic("elsewhere", partitions=6, replication_factor=3)
    cluster.bus.create_topic("outlived", replication_factor=3)
    cluster.bus.send("elsewhere", b"", partition=0).result(20)
    list(cluster.bus.consume("elsewhere", group="makes-the-topic-of-groups", until_end=True))
    first = settings_of(cluster)
    settings = {
        **QUICK_HEARTBEATS,
        "process.roles": "broker",
        "node.id": "14",
        "cluster.id": first["cluster.id"],
        "listeners": f"PLAINTEXT://127.0.0.1:{find_free(1)[0]}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": first["controller.quorum.bootstrap.servers"],
        "grpc.listener": "127.0.0.1:0",
    }
    with barnabas.embedded(settings) as running:
        yield running


def settings_of(cluster: TestCluster) -> dict[str, str]:
    """The settings of the first node, and the id of its cluster."""
    directory = cluster.directory
    lines = [*directory.rglob("*.properties")]
    found: dict[str, str] = {}
    for path in lines:
        for line in path.read_text().splitlines():
            name, _, value = line.partition("=")
            found.setdefault(name, value)
    return found


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[Client]:
    with grpc.insecure_channel(broker.grpc) as channel:
        yield Client(channel)


def test_what_others_lead_is_written_and_read(client: Client, cluster: TestCluster) -> None:
    keys = [b"%d" % number for number in range(60)]
    records = [bus_pb2.NewRecord(key=key, value=key) for key in keys]
    response = client.stub.Produce(bus_pb2.ProduceRequest(topic="elsewhere", records=records), timeout=TIMEOUT_S)
    assert not any(each.HasField("error") for each in response.outcomes)
    assert len({each.partition for each in response.outcomes}) == 6
    first = response.outcomes[0]
    for consistency in bus_pb2.Consistency.values():
        request = bus_pb2.GetRequest(
            topic="elsewhere", partition=first.partition, offset=first.offset, consistency=consistency
        )
        assert client.stub.Get(request, timeout=TIMEOUT_S).record.value == b"0"
    assert sorted(each.value for each in client.read_all("elsewhere"))[1:] == sorted(keys)
    read = [message.value or b"" for message in cluster.bus.consume("elsewhere", until_end=True)]
    assert sorted(read)[1:] == sorted(keys)


def test_topics_are_created_and_deleted_by_the_controller(client: Client, cluster: TestCluster) -> None:
    request = bus_pb2.CreateTopicRequest(name="made-here", partitions=4, replication_factor=3)
    assert client.stub.CreateTopic(request, timeout=TIMEOUT_S).partitions == 4
    described = client.stub.DescribeTopic(bus_pb2.DescribeTopicRequest(name="made-here"), timeout=TIMEOUT_S)
    assert [each.end_offset for each in described.partitions] == [0, 0, 0, 0]
    assert "made-here" in [each.name for each in cluster.bus.list_topics()]
    client.stub.DeleteTopic(bus_pb2.DeleteTopicRequest(name="made-here"), timeout=TIMEOUT_S)
    wait_until(lambda: "made-here" not in [each.name for each in cluster.bus.list_topics()])


def test_a_group_that_others_coordinate_has_an_ordinary_member(client: Client, cluster: TestCluster) -> None:
    for number in range(4):  # of several groups most are coordinated elsewhere
        group = f"remote-{number}"
        options = bus_pb2.ConsumeOptions(
            topics=[bus_pb2.TopicSelection(topic="elsewhere")], group=group, commit_interval_ms=10
        )
        consumer = Consumer(client, options)
        assert len(consumer.next("assigned").positions) == 6
        consumer.acknowledge(consumer.next("records"))
        (position,) = consumer.next("committed").positions
        (lag,) = (each for each in cluster.bus.describe_group(group).partitions if each.partition == position.partition)
        assert lag.offset == position.offset
        consumer.finish()
        wait_until(lambda group=group: not cluster.bus.describe_group(group).members)  # type: ignore[misc]


def test_a_stream_outlives_a_leader(client: Client, cluster: TestCluster) -> None:
    batches = [[bus_pb2.NewRecord(value=b"%d" % number)] for number in range(60)]
    responses = produce_stream(client, bus_pb2.ProduceStreamOptions(topic="outlived", timeout_ms=25_000), batches)
    told = [next(responses) for _ in range(20)]
    leader = cluster.bus.describe_topic("outlived").partitions[0].leader
    (victim,) = (node for node in cluster.nodes if node.node_id == leader)
    victim.kill()
    told += list(responses)
    assert not any(outcome.HasField("error") for each in told for outcome in each.outcomes)
    assert [each.value for each in client.read_all("outlived")] == [b"%d" % number for number in range(60)]
    victim.start()
