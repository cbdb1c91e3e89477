"""Consumers and producers of librdkafka where leaders move, and where a replica is closer than the leader."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

import barnabas
from barnabas.client import PartitionInfo
from barnabas.client.replica_admin import ReplicaAdmin
from barnabas.client.settings import Consistency, Settings
from barnabas.core import model

pytestmark = pytest.mark.xdist_group("closest_replicas")

WAIT_S = 60
RACKS = ["a", "b", "c"]


@pytest.fixture
def racks() -> Iterator[barnabas.TestCluster]:
    """Three nodes, each in a rack of its own, and consumers are sent to the replica in theirs."""
    with barnabas.cluster(settings={"replica.selector.class": "RackAwareReplicaSelector"}, racks=RACKS) as running:
        running.bus.create_topic("orders", partitions=1, replication_factor=3)
        yield running


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def partition_of(cluster: barnabas.TestCluster) -> PartitionInfo:
    return cluster.bus.describe_topic("orders").partitions[0]


class Reader:
    """A consumer of the topic, which notes every error that reaches its application."""

    def __init__(self, cluster: barnabas.TestCluster, **settings: str) -> None:
        self.errors: list[KafkaError] = []
        self.stats: dict[str, Any] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "log_level": 0,
                "group.id": "readers",
                "auto.offset.reset": "error",
                "statistics.interval.ms": 100,
                "stats_cb": self._note_stats,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._consumer.assign([TopicPartition("orders", 0, 0)])

    def _note_stats(self, text: str) -> None:
        self.stats = json.loads(text)

    @property
    def reads_from(self) -> int:
        """The node that it fetches from."""
        return int(self.stats["topics"]["orders"]["partitions"]["0"]["broker"]) if self.stats.get("topics") else -1

    def read(self, count: int) -> list[bytes | None]:
        values: list[bytes | None] = []
        deadline = time.monotonic() + WAIT_S
        while len(values) < count:
            assert time.monotonic() < deadline, (len(values), count, self.errors)
            self._take(self._consumer.poll(0.1), values)
        return values

    def _take(self, message: Message | None, values: list[bytes | None]) -> None:
        if message is None:
            return
        error = message.error()
        if error is None:
            values.append(message.value())
        else:
            self.errors.append(error)

    def wait_until_at(self, node_id: int) -> None:
        def is_there() -> bool:
            assert self._consumer.poll(0.1) is None
            return self.reads_from == node_id

        wait_for(is_there)

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def reading(cluster: barnabas.TestCluster, **settings: str) -> Iterator[Reader]:
    reader = Reader(cluster, **settings)
    try:
        yield reader
    finally:
        reader.close()


class Writer:
    """A producer with default settings, which notes what became of every record."""

    def __init__(self, cluster: barnabas.TestCluster) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self.errors: list[KafkaError] = []
        self._count = 0

    def write(self, count: int) -> list[bytes]:
        values = [str(self._count + number).encode() for number in range(count)]
        self._count += count
        for value in values:
            self._producer.produce("orders", value, on_delivery=self._note)
        assert self._producer.flush(WAIT_S) == 0
        return values

    def _note(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.errors.append(error)


def send_through(writer: Writer, reader: Reader) -> None:
    written = writer.write(10)
    assert reader.read(10) == written


def move_back(cluster: barnabas.TestCluster, leader: int) -> None:
    """Have a node lead again that has just been started: the one that leads meanwhile goes on running."""
    wait_for(lambda: leader in partition_of(cluster).in_sync)
    admin = ReplicaAdmin(Settings(cluster.bootstrap), WAIT_S)
    admin.elect_preferred([model.TopicPartition("orders", 0)])
    wait_for(lambda: partition_of(cluster).leader == leader)


def test_clients_go_on_by_themselves_when_the_leader_changes(racks: barnabas.TestCluster) -> None:
    writer, leader = Writer(racks), partition_of(racks).replicas[0]
    with reading(racks) as reader:
        send_through(writer, reader)
        racks.nodes[leader - 1].stop()
        assert partition_of(racks).leader != leader
        send_through(writer, reader)
        racks.nodes[leader - 1].start()
        move_back(racks, leader)
        send_through(writer, reader)
        assert (reader.errors, writer.errors) == ([], [])


def test_a_consumer_reads_from_the_replica_in_its_rack_and_without_it_from_the_leader(
    racks: barnabas.TestCluster,
) -> None:
    writer, info = Writer(racks), partition_of(racks)
    leader, closest = info.replicas[0], info.replicas[1]
    with reading(racks, client_rack=RACKS[closest - 1]) as reader:
        send_through(writer, reader)
        reader.wait_until_at(closest)
        send_through(writer, reader)
        racks.nodes[closest - 1].kill()
        wait_for(lambda: closest not in partition_of(racks).in_sync)
        send_through(writer, reader)
        reader.wait_until_at(leader)
        racks.nodes[closest - 1].start()
        wait_for(lambda: closest in partition_of(racks).in_sync)
        send_through(writer, reader)
        reader.wait_until_at(closest)
        racks.nodes[leader - 1].kill()
        wait_for(lambda: partition_of(racks).leader not in (leader, -1, None))
        send_through(writer, reader)
        assert (reader.errors, writer.errors) == ([], [])


def test_the_bus_reads_from_the_closest_replica_and_misses_nothing_before_the_end(
    racks: barnabas.TestCluster,
) -> None:
    writer, info = Writer(racks), partition_of(racks)
    rack = RACKS[info.replicas[1] - 1]
    with barnabas.Bus(racks.bootstrap, config={"client.rack": rack}) as bus:
        written: list[bytes] = []
        chosen: tuple[Consistency, ...] = ("any", "committed", "leader", "any")
        for consistency in chosen:
            written += writer.write(10)
            assert [each.value for each in bus.consume("orders", until_end=True, consistency=consistency)] == written
            assert [each.value for each in bus.merge("orders", consistency=consistency)] == written


def test_a_leader_is_confirmed_by_those_in_sync_only(racks: barnabas.TestCluster) -> None:
    writer, follower = Writer(racks), partition_of(racks).replicas[2]
    written = writer.write(10)
    racks.nodes[follower - 1].kill()
    with barnabas.Bus(racks.bootstrap) as bus:  # once it is fenced the others are enough
        read = [each.value for each in bus.consume("orders", until_end=True, consistency="leader")]
    assert read == written
    wait_for(lambda: follower not in partition_of(racks).in_sync)  # whichever node is asked has heard of it
