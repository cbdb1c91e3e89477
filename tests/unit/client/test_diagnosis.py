"""What a person is told of a cluster that does not answer."""

from barnabas.client.cluster_admin import BrokerInfo, ClusterInfo, QuorumInfo
from barnabas.client.diagnosis import find_wrong
from barnabas.client.errors import Unreachable
from barnabas.core.errors import NotController


class FakeAdmin:
    """Three brokers, one of which answers."""

    def __init__(self, *, has_controller: bool, is_there: bool = True) -> None:
        self._has_controller = has_controller
        self._is_there = is_there

    def describe(self) -> ClusterInfo:
        if not self._is_there:
            raise Unreachable("nobody is there")
        brokers = [BrokerInfo(node_id, f"host{node_id}", 9092, None, False) for node_id in (1, 2, 3)]
        return ClusterInfo("cluster", 1, brokers, ())

    def quorum(self) -> QuorumInfo:
        if not self._has_controller:
            raise NotController("nobody leads")
        return QuorumInfo(1, 7, 100, ())


def test_a_cluster_without_a_controller_is_called_that_and_who_is_silent_is_named() -> None:
    said = find_wrong(FakeAdmin(has_controller=False), lambda broker: broker.node_id == 2)
    assert said == (
        "the cluster has no active controller: more than half of its voters must run; no answer from nodes "
        "1 (host1:9092), 3 (host3:9092)"
    )


def test_a_silent_node_is_named_where_there_is_a_controller() -> None:
    said = find_wrong(FakeAdmin(has_controller=True), lambda broker: broker.node_id != 3)
    assert said == "the cluster has an active controller; no answer from node 3 (host3:9092)"


def test_nothing_is_said_where_nothing_is_found() -> None:
    assert find_wrong(FakeAdmin(has_controller=True), lambda _: True) is None
    assert find_wrong(FakeAdmin(has_controller=False, is_there=False), lambda _: True) is None
