"""Kafka's tools for clusters, and its verifiable clients, on three nodes."""

import json
from pathlib import Path

import pytest

from barnabas import TestCluster
from tests.conformance.java.tools import (
    CLUSTER,
    ELECTION,
    QUORUM,
    REASSIGNMENT,
    TOPICS,
    VERIFIABLE_CONSUMER,
    VERIFIABLE_PRODUCER,
    Tools,
)


@pytest.fixture(scope="module")
def topic(cluster_tools: Tools) -> str:
    """A topic on all nodes."""
    placed = ["--partitions", "3", "--replication-factor", "3"]
    cluster_tools.run(TOPICS, "--create", "--topic", "orders", *placed)
    return "orders"


def test_kafka_metadata_quorum_describes_the_quorum(cluster_tools: Tools) -> None:
    status = cluster_tools.run(QUORUM, "describe", "--status").out
    assert status.count('"directoryId"') == 3
    replication = cluster_tools.run(QUORUM, "describe", "--replication").cells
    assert sorted(row[0] for row in replication) == ["1", "2", "3"]
    assert sorted(row[-1] for row in replication) == ["Follower", "Follower", "Leader"]


def test_kafka_cluster_names_the_cluster_and_its_nodes(cluster_tools: Tools) -> None:
    assert "Cluster ID: " in cluster_tools.run(CLUSTER, "cluster-id").out
    rows = cluster_tools.run(CLUSTER, "list-endpoints").cells
    assert [(row[0], row[4]) for row in rows] == [("1", "unfenced"), ("2", "unfenced"), ("3", "unfenced")]


def test_partitions_are_moved_and_their_preferred_leaders_elected(
    cluster_tools: Tools, topic: str, tmp_path: Path
) -> None:
    moves = {0: [2, 1], 1: [3, 1], 2: [1, 2, 3]}
    parts = [{"topic": topic, "partition": number, "replicas": replicas} for number, replicas in moves.items()]
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": parts}))
    plan = ("--reassignment-json-file", str(tmp_path / "plan.json"))
    assert "Successfully started" in cluster_tools.run(REASSIGNMENT, "--execute", *plan, "--throttle", "50000000").out
    said = ""
    while "is still in progress" in said or not said:
        said = cluster_tools.run(REASSIGNMENT, "--verify", *plan).out
    for number in moves:
        assert f"Reassignment of partition {topic}-{number} is completed." in said
    cluster_tools.run(ELECTION, "--election-type", "preferred", "--all-topic-partitions")
    described = cluster_tools.run(TOPICS, "--describe", "--topic", topic).out
    for number, replicas in moves.items():
        listed = ",".join(map(str, replicas))
        assert f"Partition: {number}\tLeader: {replicas[0]}\tReplicas: {listed}" in described
    assert "throttled" not in described


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_verifiable_clients_find_every_record(
    cluster: TestCluster, cluster_tools: Tools, topic: str, protocol: str
) -> None:
    cluster.bus.create_topic(f"verified-{protocol}", partitions=3, replication_factor=3)
    sent = cluster_tools.run(VERIFIABLE_PRODUCER, "--topic", f"verified-{protocol}", "--max-messages", "1000")
    assert json.loads(sent.lines[-1])["acked"] == 1000
    how = ["--group-id", protocol, "--group-protocol", protocol, "--reset-policy", "earliest", "--max-messages", "1000"]
    read = cluster_tools.run(VERIFIABLE_CONSUMER, "--topic", f"verified-{protocol}", *how)
    events = [json.loads(line) for line in read.lines if line.startswith("{")]
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 1000
    assert all(event["success"] for event in events if event["name"] == "offsets_committed")
