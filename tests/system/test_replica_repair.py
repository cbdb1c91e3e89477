"""A bad disk under one of three replicas, with real processes: damaged bytes are repaired from the others."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import barnabas
from barnabas.client import PartitionInfo
from barnabas.core.records.batch import MAGIC_AT, iter_batches

pytestmark = pytest.mark.xdist_group("replica_repair")

WAIT_S = 120  # a node reads its logs a minute after its start
COUNT = 60
DAMAGED = 30
VALUES = [b"order %d" % number for number in range(COUNT)]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def partition_of(cluster: barnabas.TestCluster) -> PartitionInfo:
    return cluster.bus.describe_topic("orders").partitions[0]


def file_of(cluster: barnabas.TestCluster, node_id: int) -> Path:
    (path,) = cluster.directory.glob(f"*{node_id}/**/orders-0/00000000000000000000.log")
    return path


def fill(cluster: barnabas.TestCluster) -> PartitionInfo:
    """Batches of one record each, on all replicas."""
    cluster.bus.create_topic("orders", partitions=1, replication_factor=3)
    for value in VALUES:
        cluster.bus.send("orders", value).result()
    wait_for(lambda: len({file_of(cluster, node_id).read_bytes() for node_id in (1, 2, 3)}) == 1)
    return partition_of(cluster)


def flip(path: Path, byte_of_batch: int) -> bytes:
    """Flip a bit of the batch in the middle; returns what was there."""
    data = path.read_bytes()
    position = [position for position, _ in iter_batches(data)][DAMAGED] + byte_of_batch
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes([data[position] ^ 4]))
    assert path.read_bytes() != data
    return data


def read_all(cluster: barnabas.TestCluster) -> list[bytes | None]:
    found = cluster.bus.consume("orders", until_end=True)
    return [record.value for record in found]


def test_a_leader_whose_batch_cannot_be_read_gets_it_back_from_a_follower(cluster: barnabas.TestCluster) -> None:
    leader = fill(cluster).leader
    assert leader is not None
    whole = flip(file_of(cluster, leader), MAGIC_AT)

    def is_read() -> bool:
        try:
            cluster.bus.get("orders", 0, DAMAGED)
        except barnabas.BarnabasError:
            return False
        return True

    wait_for(is_read)
    assert read_all(cluster) == VALUES
    wait_for(lambda: file_of(cluster, leader).read_bytes() == whole)
    log = cluster.nodes[leader - 1].log
    assert f"orders-0 is damaged from offset {DAMAGED} on" in log
    assert f"orders-0 is repaired from another replica: offsets {DAMAGED} to {DAMAGED}" in log
    assert partition_of(cluster).leader == leader
    assert sorted(partition_of(cluster).in_sync) == [1, 2, 3]


@pytest.mark.parametrize("is_leader", [False, True], ids=["a follower", "the leader"])
def test_a_replica_that_is_damaged_while_its_node_is_down_is_whole_again(
    cluster: barnabas.TestCluster, *, is_leader: bool
) -> None:
    before = fill(cluster)
    node_id = next(node for node in before.replicas if (node == before.leader) == is_leader)
    node = cluster.nodes[node_id - 1]
    node.kill()
    whole = flip(file_of(cluster, node_id), 70)

    node.start()

    wait_for(lambda: sorted(partition_of(cluster).in_sync) == [1, 2, 3])
    wait_for(lambda: file_of(cluster, node_id).read_bytes() == whole)
    assert read_all(cluster) == VALUES
    assert "orders-0 could not be opened here" in node.log


def test_a_leader_that_sends_damage_to_a_replica_that_comes_back_is_repaired_from_the_third(
    cluster: barnabas.TestCluster,
) -> None:
    before = fill(cluster)
    assert before.leader is not None
    node_id = next(node for node in before.replicas if node != before.leader)
    node = cluster.nodes[node_id - 1]
    node.kill()
    flip(file_of(cluster, node_id), 70)
    whole = flip(file_of(cluster, before.leader), 70)

    node.start()

    wait_for(lambda: sorted(partition_of(cluster).in_sync) == [1, 2, 3])
    assert file_of(cluster, node_id).read_bytes() == file_of(cluster, before.leader).read_bytes() == whole
    assert read_all(cluster) == VALUES
    assert "orders-0 is repaired from another replica" in cluster.nodes[before.leader - 1].log


def test_a_follower_that_is_damaged_while_it_runs_is_repaired_by_the_scrub(cluster: barnabas.TestCluster) -> None:
    before = fill(cluster)
    node_id = next(node for node in before.replicas if node != before.leader)
    whole = flip(file_of(cluster, node_id), 70)

    wait_for(lambda: "orders-0 is repaired from another replica" in cluster.nodes[node_id - 1].log)

    assert file_of(cluster, node_id).read_bytes() == whole
    assert sorted(partition_of(cluster).in_sync) == [1, 2, 3]


def test_a_leader_whose_directory_vanishes_ends_and_another_takes_writes(cluster: barnabas.TestCluster) -> None:
    before = fill(cluster)
    assert before.leader is not None
    node = cluster.nodes[before.leader - 1]
    data_dir = file_of(cluster, before.leader).parent.parent

    data_dir.rename(data_dir.with_name("gone"))

    wait_for(lambda: not node.is_running)
    cluster.bus.send("orders", b"one more").result()
    assert read_all(cluster) == [*VALUES, b"one more"]
    assert partition_of(cluster).leader not in (None, before.leader)
    assert node.log.rstrip().splitlines()[-1].endswith("does not exist")
