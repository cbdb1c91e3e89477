"""A node whose data directory is restored from a backup, in a cluster that has gone on since the backup was made."""

import shutil
import time
from collections.abc import Callable

import pytest

import barnabas

pytestmark = pytest.mark.xdist_group("older_copy")

WAIT_S = 60


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_restored_backup_does_not_lead_what_another_replica_has_more_of() -> None:
    with barnabas.cluster(nodes=3) as cluster:
        bus = cluster.bus
        # Flushed before it is acknowledged: so the other replica is eligible after its kill, whoever led last.
        config = {"min.insync.replicas": "2", "flush.policy": "fsync"}
        bus.create_topic("t", partitions=1, replication_factor=2, config=config)

        def in_sync() -> int:
            return len(bus.describe_topic("t").partitions[0].in_sync)

        bus.send("t", b"before").result(WAIT_S)
        nodes = {node.node_id: node for node in cluster.nodes}
        restored, other = (nodes[each] for each in bus.describe_topic("t").partitions[0].replicas)
        data = cluster.directory / f"node-{restored.node_id}" / "data"
        backup = cluster.directory / "backup"

        restored.stop()
        shutil.copytree(data, backup)
        restored.start()
        wait_for(lambda: in_sync() == 2)
        bus.send("t", b"after").result(WAIT_S)
        restored.kill()  # it is an eligible leader replica now, and so is the other one
        other.kill()
        shutil.rmtree(data)
        shutil.move(backup, data)
        restored.start()  # first: it would be elected
        other.start()
        wait_for(lambda: in_sync() == 2)

        assert [message.value for message in bus.consume("t", until_end=True)] == [b"before", b"after"]
        assert any("older copy" in node.log for node in cluster.nodes)
