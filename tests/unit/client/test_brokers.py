"""Connections to several brokers: which one is asked, and who is asked when one goes."""

import socket
from collections.abc import Iterator

import pytest

from barnabas.client import Bus
from barnabas.client.brokers import Brokers, CoordinatorKind
from barnabas.client.errors import Unreachable
from barnabas.client.settings import Settings
from barnabas.testing.embedded import EmbeddedBroker
from tests.support.moving_leaders import MovingLeaders


@pytest.fixture
def front(broker: EmbeddedBroker) -> Iterator[MovingLeaders]:
    with MovingLeaders(broker.bootstrap) as front:
        yield front


@pytest.fixture
def topic(real_bus: Bus, name: str) -> str:
    real_bus.create_topic(name, partitions=4)
    return name


def bootstrap_of(front: MovingLeaders, node_id: int) -> str:
    return f"127.0.0.1:{front.nodes[node_id].port}"


def test_every_partition_has_its_leader_or_none(front: MovingLeaders, topic: str) -> None:
    front.move(topic, 3, None)
    brokers = Brokers(Settings(front.bootstrap))

    found = brokers.metadata([topic])
    brokers.close()

    assert [each.node_id for each in found.brokers] == [1, 2, 3]
    assert {id_: each and each.node_id for id_, each in found.topics[topic].leaders.items()} == {
        0: 1,
        1: 2,
        2: 3,
        3: None,
    }


def test_a_topic_is_described_though_nobody_leads_one_of_its_partitions(front: MovingLeaders, topic: str) -> None:
    """A lookup of its offsets kept a core busy until its timeout, and ended as an error."""
    front.move(topic, 3, None)
    with Bus(front.bootstrap) as bus:
        found = bus.describe_topic(topic).partitions

    assert [each.problem for each in found[:3]] == [None, None, None]
    assert found[3].problem == f"{topic}-3 has no leader: none of its replicas that may lead is running"


def test_a_broker_that_went_is_replaced_by_one_that_was_heard_of(front: MovingLeaders, topic: str, name: str) -> None:
    brokers = Brokers(Settings(bootstrap_of(front, 2)))
    brokers.metadata([topic])

    front.stop_node(2)
    found = brokers.metadata([topic])
    code, coordinator = brokers.coordinator(name, CoordinatorKind.TRANSACTION)
    brokers.close()

    assert [each.node_id for each in found.brokers] == [1, 3]
    assert (code, coordinator.node_id) == (0, 1)


def test_when_all_are_gone_it_is_said(front: MovingLeaders, topic: str) -> None:
    brokers = Brokers(Settings(front.bootstrap))
    brokers.metadata([topic])
    for node_id in front.nodes:
        front.stop_node(node_id)

    with pytest.raises(Unreachable, match="cannot connect to"):
        brokers.metadata([topic])


def test_one_that_is_away_is_passed_over_at_first_contact(front: MovingLeaders, topic: str) -> None:
    front.stop_node(1)
    brokers = Brokers(Settings(front.bootstrap))

    assert topic in brokers.metadata(None).topics
    brokers.close()


def test_one_that_is_silent_is_passed_over_after_so_long(front: MovingLeaders, topic: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        bootstrap = f"127.0.0.1:{silent.getsockname()[1]},{front.bootstrap}"
        brokers = Brokers(Settings(bootstrap), answer_s=0.2).another()

        assert topic in brokers.metadata([topic]).topics
        brokers.close()


def test_a_topic_that_does_not_exist_is_made_only_when_told(front: MovingLeaders, name: str) -> None:
    brokers = Brokers(Settings(front.bootstrap))

    unknown = brokers.metadata([name]).topics[name]
    made = brokers.metadata([name], create=True).topics[name]
    brokers.close()

    assert (unknown.error_code, unknown.leaders) == (3, {})
    assert made.error_code == 0
