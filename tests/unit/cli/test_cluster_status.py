"""What `barnabas cluster status` says of a quorum."""

from uuid import UUID

import pytest

from barnabas.cli.cluster.status import ClusterStatus, describe, print_status
from barnabas.client.cluster_admin import BrokerInfo, ClusterInfo, PartitionPlace, QuorumInfo, QuorumReplicaInfo
from barnabas.core.errors import BarnabasError, NotController
from barnabas.core.model import TopicPartition
from barnabas.core.uuids import id_text
from barnabas.testing.cluster.removing import check_majority

OLD, NEW = UUID(int=20), UUID(int=21)
NOW = 1_000_000


def voter(
    node_id: int, *, last_fetch_ms: int = NOW, directory_id: UUID | None = None, lag: int = 0
) -> QuorumReplicaInfo:
    return QuorumReplicaInfo(node_id, directory_id or UUID(int=node_id), lag, True, last_fetch_ms)


def observer(node_id: int, directory_id: UUID, *, last_fetch_ms: int) -> QuorumReplicaInfo:
    return QuorumReplicaInfo(node_id, directory_id, 0, False, last_fetch_ms)


class FakeAdmin:
    """Three brokers, node 1 of which leads a quorum of these replicas."""

    def __init__(self, *replicas: QuorumReplicaInfo) -> None:
        self._replicas = replicas
        self.partitions: tuple[PartitionPlace, ...] = ()

    def describe(self) -> ClusterInfo:
        brokers = [BrokerInfo(node_id, f"host{node_id}", 9092, None, False) for node_id in (1, 2, 3)]
        return ClusterInfo("cluster", 1, brokers, self.partitions)

    def quorum(self) -> QuorumInfo:
        return QuorumInfo(1, 7, 100, self._replicas)


def with_new_disk(*, joined: bool = False) -> FakeAdmin:
    """Node 2 has lost its disk; its new directory observes, or has taken the place of the old one."""
    if joined:
        replicas = [voter(2, directory_id=NEW), observer(2, OLD, last_fetch_ms=NOW - 60_000)]
    else:
        replicas = [voter(2, directory_id=OLD, lag=90, last_fetch_ms=-1), observer(2, NEW, last_fetch_ms=NOW)]
    return FakeAdmin(voter(1, last_fetch_ms=-1), *replicas, voter(3))


def shown(status: ClusterStatus, node_id: int, capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    print_status(status)
    said = capsys.readouterr()
    rows = [line.split("\t") for line in said.out.splitlines()]
    return next(row for row in rows if row[0] == str(node_id)), said.err


def test_a_voter_whose_disk_was_formatted_anew_is_shown_as_an_observer(capsys: pytest.CaptureFixture[str]) -> None:
    status = describe(with_new_disk(), "host1:9092", {})

    row, warnings = shown(status, 2, capsys)

    assert row[5:7] == ["observer (voter lost)", "0"]
    assert "node 2 has a new data directory, and its vote is with the old one" in warnings
    assert f"--controller-id 2 --controller-directory-id {id_text(OLD)}" in warnings
    in_json = next(node for node in status.as_json()["nodes"] if node["node_id"] == 2)
    assert (in_json["quorum"], in_json["lost_voter_directory_id"]) == ("observer", id_text(OLD))
    assert "controller.quorum.auto.join.enable" in in_json["problem"]


def test_a_new_directory_that_has_become_a_voter_is_shown_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    status = describe(with_new_disk(joined=True), "host1:9092", {})

    row, warnings = shown(status, 2, capsys)

    assert row[5] == "voter"
    assert warnings == ""
    assert [node["problem"] for node in status.as_json()["nodes"]] == [None, None, None]


def test_a_voter_that_is_gone_does_not_count_when_another_is_removed() -> None:
    admin = with_new_disk()

    with pytest.raises(BarnabasError, match="2 of its 2 other voters must run, and 1 do"):
        check_majority(3, admin.quorum(), {1, 2, 3})

    check_majority(2, admin.quorum(), {1, 2, 3})
    check_majority(3, with_new_disk(joined=True).quorum(), {1, 2, 3})


class WithoutQuorum(FakeAdmin):
    """A node answers, and no controller does."""

    def quorum(self) -> QuorumInfo:
        raise NotController("nobody leads")


def test_without_a_quorum_no_node_is_called_active(capsys: pytest.CaptureFixture[str]) -> None:
    status = describe(WithoutQuorum(), "host1:9092", {})

    row, warnings = shown(status, 2, capsys)

    assert row[3:8] == ["broker,?", "unknown (was active)", "-", "-", "unknown (was 0)"]
    assert "nobody knows which nodes run" in warnings
    in_json = next(node for node in status.as_json()["nodes"] if node["node_id"] == 2)
    assert (in_json["is_fenced"], in_json["last_known_is_fenced"]) == (None, False)
    assert (in_json["partitions_led"], in_json["last_known_partitions_led"]) == (None, 0)
    assert in_json["state"] == "unknown (was active)"


def test_a_removed_node_that_fetches_no_more_is_not_shown() -> None:
    gone, present = observer(4, NEW, last_fetch_ms=NOW - 20_000), observer(5, NEW, last_fetch_ms=NOW - 500)

    status = describe(FakeAdmin(voter(1), voter(2), voter(3), gone, present), "host1:9092", {})

    assert [node.node_id for node in status.nodes] == [1, 2, 3, 5]


def test_partitions_that_lack_replicas_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    admin = FakeAdmin(voter(1, last_fetch_ms=-1), voter(2), voter(3))
    admin.partitions = (
        PartitionPlace(TopicPartition("orders", 0), 1, (1, 2, 3), (1, 2, 3)),
        PartitionPlace(TopicPartition("orders", 1), 2, (2, 3, 1), (2, 3)),
        PartitionPlace(TopicPartition("orders", 2), None, (1, 2), ()),
    )

    status = describe(admin, "host1:9092", {})

    _, warnings = shown(status, 1, capsys)
    assert status.as_json()["under_replicated"] == 2
    assert "2 partitions lack replicas in sync" in warnings
    assert "1 partition has no leader" in warnings
