"""Strangers on the listeners for controllers: one node and a cluster, and what nobody there may bring about.

A stranger knows what any node tells: the cluster, the voters and their data directories, the epoch. Whatever extreme
values his requests have, they are answered, the leader stays, and every node starts again afterwards.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

import pytest

import barnabas
from barnabas.core.errors import InconsistentClusterId, InvalidRequest
from barnabas.core.raft.epochs import MAX_STEP
from barnabas.runtime.raft_driver.wire_requests import METADATA_TOPIC_ID, TOPIC
from barnabas.testing.cluster.directory import ClusterDirectory
from barnabas.wire.apis import (
    ADD_RAFT_VOTER,
    ALLOCATE_PRODUCER_IDS,
    BEGIN_QUORUM_EPOCH,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    DESCRIBE_QUORUM,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    REMOVE_RAFT_VOTER,
    UNREGISTER_BROKER,
    UPDATE_RAFT_VOTER,
    VOTE,
    Api,
)
from tests.support.served import versions_of
from tests.system.running import Client, running

LISTENERS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller_listener_names": "CONTROLLER",
}
LAST: Final = 2**31 - 1
LAST_OFFSET: Final = 2**63 - 1
BAD_HOSTS: Final = ("\x00", "a" * 300, "..")
"""No system can look them up."""
NOBODY: Final = UUID(int=77)
VERSIONS: Final = {"k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1}}


class Quorum(NamedTuple):
    """What a node says of it."""

    leader_id: int
    epoch: int
    voters: dict[int, UUID]


def quorum_at(port: int) -> Quorum:
    """As the leader says, whom any node asks."""
    with Client(port) as client:
        about = {"topic_name": TOPIC, "partitions": [{"partition_index": 0}]}
        answer = client.ask(DESCRIBE_QUORUM, 2, topics=[about])
    (partition,) = answer.topics[0].partitions
    assert partition.error_code.value == 0
    voters = {each.replica_id: each.replica_directory_id for each in partition.current_voters}
    return Quorum(partition.leader_id, partition.leader_epoch, voters)


class Stranger:
    """Asks the controllers' listener of one node. `voter`: whom the requests are for."""

    def __init__(self, port: int, *, cluster_id: str | None, voter: int = -1, directory: UUID | None = None) -> None:
        self._port = port
        self._cluster_id = cluster_id
        self._voter = voter
        self._directory = directory

    def without_cluster(self) -> "Stranger":
        """One who knows all but the cluster."""
        return Stranger(self._port, cluster_id=None, voter=self._voter, directory=self._directory)

    def ask(self, api: Api, version: int, **values: Any) -> Any:
        """The answer, which there must be."""
        with Client(self._port) as client:
            return client.ask(api, version, **values)

    def vote(self, epoch: int, **values: Any) -> Any:
        partition = {
            "replica_epoch": epoch,
            "replica_id": 99,
            "replica_directory_id": NOBODY,
            "voter_directory_id": self._directory,
            "last_offset_epoch": min(max(epoch - 1, 0), LAST - 1),
            "last_offset": LAST_OFFSET,
            **values,
        }
        return self._about(VOTE, 2, partition, voter_id=self._voter)

    def begin_epoch(self, epoch: int, *, leader: int = 99, host: str = "127.0.0.1") -> Any:
        partition = {"leader_id": leader, "leader_epoch": epoch, "voter_directory_id": self._directory}
        at = [{"name": "CONTROLLER", "host": host, "port": 1}]
        return self._about(BEGIN_QUORUM_EPOCH, 1, partition, voter_id=self._voter, leader_endpoints=at)

    def end_epoch(self, epoch: int, *, leader: int = 99) -> Any:
        partition = {"leader_id": leader, "leader_epoch": epoch, "preferred_candidates": [{"candidate_id": LAST}] * 50}
        return self._about(END_QUORUM_EPOCH, 1, partition)

    def _about(self, api: Api, version: int, partition: dict[str, Any], **values: Any) -> Any:
        topic = {"topic_name": TOPIC, "partitions": [{"partition_index": 0, **partition}]}
        return self.ask(api, version, cluster_id=self._cluster_id, topics=[topic], **values)

    def fetch(self, epoch: int, offset: int, last_epoch: int, *, replica: int = 99) -> Any:
        partition = {
            "partition": 0,
            "current_leader_epoch": epoch,
            "fetch_offset": offset,
            "last_fetched_epoch": last_epoch,
            "partition_max_bytes": LAST,
            "high_watermark": offset,
        }
        topic = {"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}
        state = {"replica_id": replica, "replica_epoch": LAST_OFFSET}
        return self.ask(FETCH, 18, cluster_id=self._cluster_id, replica_state=state, max_wait=0, topics=[topic])

    def fetch_snapshot(self, epoch: int, end_offset: int, position: int) -> Any:
        snapshot = {"end_offset": end_offset, "epoch": epoch}
        partition = {"partition": 0, "current_leader_epoch": epoch, "snapshot_id": snapshot, "position": position}
        topic = {"name": TOPIC, "partitions": [partition]}
        return self.ask(FETCH_SNAPSHOT, 1, cluster_id=self._cluster_id, replica_id=99, max_bytes=LAST, topics=[topic])

    def try_elections(self, epochs: Sequence[int]) -> None:
        """Raise the epoch, in every message that has one."""
        for epoch in epochs:
            self.vote(epoch)
            self.vote(epoch, pre_vote=True)
            self.vote(epoch, replica_id=-LAST, last_offset=-1, last_offset_epoch=-1)
            self.begin_epoch(epoch)
            self.begin_epoch(epoch, leader=LAST)
            self.end_epoch(epoch)

    def try_reading(self, epochs: Sequence[int]) -> None:
        for epoch in epochs:
            for offset in (0, 1, -1, LAST_OFFSET, -LAST_OFFSET - 1):
                self.fetch(epoch, offset, min(epoch, 1))
                self.fetch(epoch, offset, LAST, replica=-1)
                self.fetch_snapshot(epoch, offset, offset)

    def try_administration(self) -> None:
        """The rest: brokers that there are not, and voters."""
        here = [{"name": "CONTROLLER", "host": "\x00", "port": 65535}]
        for number in (LAST, -LAST - 1, -1):
            voter = {"cluster_id": self._cluster_id, "voter_id": number, "voter_directory_id": NOBODY}
            self.ask(ADD_RAFT_VOTER, 1, **voter, timeout=LAST, listeners=here)
            self.ask(ADD_RAFT_VOTER, 0, **voter, timeout=-LAST, listeners=here * 100)
            self.ask(REMOVE_RAFT_VOTER, 0, **voter)
            self.ask(UPDATE_RAFT_VOTER, 0, **voter, current_leader_epoch=number, listeners=here, **VERSIONS)
            broker = {"broker_id": number, "broker_epoch": LAST_OFFSET if number > 0 else -LAST_OFFSET - 1}
            self.ask(BROKER_HEARTBEAT, 1, **broker, current_metadata_offset=LAST_OFFSET, want_shut_down=True)
            self.ask(ALLOCATE_PRODUCER_IDS, 0, **broker)
            self.ask(UNREGISTER_BROKER, 0, broker_id=number)
            self.ask(
                BROKER_REGISTRATION,
                4,
                broker_id=number,
                cluster_id=self._cluster_id or "",
                incarnation_id=NOBODY,
                listeners=[{"name": "PLAINTEXT", "host": "\x00", "port": 1}],
                log_dirs=[NOBODY],
                features=[{"name": "metadata.version", "min_supported_version": -1, "max_supported_version": 32767}],
                previous_broker_epoch=broker["broker_epoch"],
            )
        for version in versions_of(DESCRIBE_QUORUM):
            other = {"topic_name": "\x00" * 200, "partitions": [{"partition_index": LAST}] * 100}
            self.ask(DESCRIBE_QUORUM, version, topics=[other])


IMPOSSIBLE_EPOCHS: Final = (LAST, LAST - 1, LAST - MAX_STEP, 2**30, -1, -LAST - 1)


def test_nobody_takes_the_lead_from_a_node_that_is_alone(tmp_path: Path) -> None:
    with running(tmp_path, **LISTENERS) as node:
        controllers = node.node.addresses["CONTROLLER"][1]
        before = quorum_at(controllers)
        (voter, directory) = next(iter(before.voters.items()))
        assert node.node.broker is not None
        assert node.node.broker.quorum is not None
        known = node.node.broker.quorum.cluster_id
        for cluster_id in (None, "another", known):
            stranger = Stranger(controllers, cluster_id=cluster_id, voter=voter, directory=directory)
            next_ones = [before.epoch + step for step in (0, 1, 2, MAX_STEP, MAX_STEP + 1)]
            stranger.try_elections([*IMPOSSIBLE_EPOCHS, *next_ones])
            stranger.try_reading([LAST, -1, *next_ones])
            stranger.try_administration()
        assert quorum_at(controllers) == before
        node.check()
    with running(tmp_path, **LISTENERS) as node:
        node.check()


def test_a_request_of_the_quorum_must_name_its_cluster(tmp_path: Path) -> None:
    with running(tmp_path, **LISTENERS) as node:
        stranger = Stranger(node.node.addresses["CONTROLLER"][1], cluster_id=None)
        answers = [
            stranger.vote(LAST),
            stranger.begin_epoch(LAST),
            stranger.end_epoch(LAST),
            stranger.fetch(1, 0, 0),
            stranger.fetch_snapshot(1, 0, 0),
            stranger.ask(UPDATE_RAFT_VOTER, 0, voter_id=1, voter_directory_id=NOBODY, **VERSIONS),
        ]
    assert [answer.error_code.value for answer in answers] == [InconsistentClusterId.kafka_code] * 6


class Attacked(NamedTuple):
    """A cluster, and a stranger for each of its nodes."""

    cluster: barnabas.TestCluster
    strangers: list[Stranger]

    def quorum(self) -> Quorum:
        return quorum_at(int(self.cluster.nodes[0].bootstrap.rpartition(":")[2]))

    def check(self) -> None:
        for node in self.cluster.nodes:
            assert node.is_running
            assert "Traceback" not in node.log
        bus, topic = self.cluster.bus, str(uuid4())
        bus.create_topic(topic)
        bus.send(topic, b"v").result(60)
        assert [message.value for message in bus.consume(topic, until_end=True)] == [b"v"]


@pytest.fixture(scope="module")
def attacked() -> Iterator[Attacked]:
    with barnabas.cluster(nodes=3) as cluster:
        state = ClusterDirectory(cluster.directory).read()
        voters = quorum_at(state.nodes[0].port).voters
        strangers = [
            Stranger(
                each.controller_port, cluster_id=state.cluster_id, voter=each.node_id, directory=voters[each.node_id]
            )
            for each in state.nodes
        ]
        yield Attacked(cluster, strangers)


@pytest.mark.xdist_group("cluster_fixture")
def test_a_cluster_keeps_its_leader_whatever_strangers_ask_for(attacked: Attacked) -> None:
    before = attacked.quorum()
    for stranger in attacked.strangers:
        stranger.try_elections([*IMPOSSIBLE_EPOCHS, before.epoch + MAX_STEP + 1])
        answer = stranger.vote(before.epoch + MAX_STEP + 1)
        assert answer.topics[0].partitions[0].error_code.value == InvalidRequest.kafka_code
        stranger.try_reading([LAST, -1, before.epoch])
        stranger.try_administration()
        unknowing = stranger.without_cluster()
        unknowing.try_elections([*IMPOSSIBLE_EPOCHS, *range(before.epoch, before.epoch + 5)])
    assert attacked.quorum() == before
    attacked.check()


@pytest.mark.xdist_group("cluster_fixture")
def test_a_cluster_that_was_told_of_a_false_leader_elects_its_own_and_starts_again(attacked: Attacked) -> None:
    epoch = attacked.quorum().epoch
    for stranger, host in zip(attacked.strangers, BAD_HOSTS, strict=True):
        stranger.begin_epoch(epoch + 1, host=host)
    attacked.cluster.wait_ready()
    assert attacked.quorum().epoch > epoch
    node = attacked.cluster.controller
    node.kill()
    node.start()
    attacked.check()
