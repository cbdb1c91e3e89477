"""A cluster in people's own tests: the fixture, the context manager, and that nothing of it is left behind."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import barnabas
from barnabas.core.errors import BarnabasError
from barnabas.testing.cluster.processes import ProcessKey

pytestmark = pytest.mark.xdist_group("cluster_fixture")

# Says what there is, and waits to be killed with one node paused.
OWNER = """
import json, sys
import barnabas

with barnabas.cluster(nodes=2) as cluster:
    cluster.nodes[1].pause()
    print(json.dumps([str(cluster.directory), [node.pid for node in cluster.nodes]]), flush=True)
    sys.stdin.read()
"""


@pytest.mark.barnabas_cluster(num_partitions=4)
def test_records_survive_nodes_that_come_and_go(cluster: barnabas.TestCluster) -> None:
    assert [node.node_id for node in cluster.nodes] == [1, 2, 3]
    bus = cluster.bus
    bus.create_topic("orders")
    values = [b"%d" % number for number in range(20)]
    places = [bus.send("orders", value, key=value).result(60) for value in values]
    assert len({place.partition for place in places}) > 1

    cluster.controller.kill()
    cluster.controller.stop()
    stopped = [node for node in cluster.nodes if not node.is_running]
    assert len(stopped) == 2
    for node in stopped:
        node.start()  # the first one has no majority to join yet
    cluster.wait_ready()

    assert sorted(message.value or b"" for message in bus.consume("orders", until_end=True)) == sorted(values)


def test_all_processes_and_files_are_gone_when_their_owner_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        path, pids = json.loads(owner.stdout.readline())
        processes = [ProcessKey.of(pid) for pid in pids]
        assert None not in processes
        assert Path(path).is_dir()

        owner.send_signal(signal.SIGKILL)

    assert all(process is None or process.wait_gone(timeout_s=30) for process in processes)
    deadline = time.monotonic() + 30
    while Path(path).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_cluster_without_nodes_is_refused() -> None:
    with pytest.raises(BarnabasError, match="at least one node"), barnabas.cluster(nodes=0):
        pass


def test_a_setting_that_no_node_can_start_with_is_refused() -> None:
    with pytest.raises(BarnabasError, match=r"num\.partitions"), barnabas.cluster(settings={"num.partitions": "many"}):
        pass
