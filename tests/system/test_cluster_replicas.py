"""Topics of several replicas on real nodes: who leads when a node is killed, and moves from the command line."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import barnabas
from barnabas.cli.main import app
from barnabas.client import PartitionInfo

pytestmark = pytest.mark.xdist_group("cluster_replicas")

WAIT_S = 60


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def partition_of(cluster: barnabas.TestCluster) -> PartitionInfo:
    return cluster.bus.describe_topic("orders").partitions[0]


def run(cluster: barnabas.TestCluster, *arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--bootstrap", cluster.bootstrap])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_killed_leader_is_replaced_by_one_in_sync(cluster: barnabas.TestCluster) -> None:
    created = run(cluster, "topic", "create", "orders", "--partitions", "1", "--replicas", "3")
    assert "replication factor 3" in created
    before = partition_of(cluster)
    assert sorted(before.replicas) == sorted(before.in_sync) == [1, 2, 3]
    assert before.leader == before.replicas[0]

    cluster.nodes[before.leader - 1].kill()

    wait_for(lambda: partition_of(cluster).leader not in (before.leader, -1, None))
    after = partition_of(cluster)
    assert after.leader in before.replicas[1:]
    assert before.leader not in after.in_sync


def test_plans_are_shown_and_moves_are_cancelled(cluster: barnabas.TestCluster, tmp_path: Path) -> None:
    assert "nothing to move" in run(cluster, "cluster", "rebalance", "--dry-run")
    cluster.bus.create_topic("orders", partitions=1, replication_factor=1)
    (home,) = partition_of(cluster).replicas
    other = home % 3 + 1

    shown = run(cluster, "cluster", "decommission", str(home), "--dry-run")
    assert "orders-0" in shown
    assert "holds nothing" not in shown
    shown = run(cluster, "cluster", "reassign", "orders", "--replicas", "3", "--dry-run")
    assert "replicas to copy: 2" in shown
    plan = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [other]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    shown = run(cluster, "cluster", "reassign", str(tmp_path / "plan.json"), "--dry-run")
    assert "replicas to copy: 1" in shown

    assert "holds nothing any more" in run(cluster, "cluster", "decommission", str(other), "--yes")
    assert "moves cancelled: 0" in run(cluster, "cluster", "reassign", "--cancel")
