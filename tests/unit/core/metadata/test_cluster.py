"""Decisions about the cluster, its nodes and who leads a partition."""

import msgspec
import pytest

from barnabas.core.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata import (
    Image,
    NewTopic,
    allocate_producer_ids,
    elect_preferred,
    elect_unclean,
    form_cluster,
    set_feature,
)
from barnabas.core.metadata.records import NO_LEADER
from tests.unit.core.metadata.builders import image_of, take


def image_with(*, leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (0, 1, 2)) -> Image:
    image = image_of(3, [NewTopic("a", assignments={0: (0, 1, 2)})])
    state = image.get_topic("a").get_partition(0)
    image.apply(msgspec.structs.replace(state, leader=leader, isr=isr, replicas=replicas, leader_epoch=5))
    return image


def test_a_cluster_is_named_once() -> None:
    image = Image()

    take(image, form_cluster(image, "first"))
    again = form_cluster(image, "second")

    assert again == ([], "first")
    assert image.cluster_id == "first"


def test_producer_ids_are_given_out_once() -> None:
    image = Image()

    given_out = []
    for count in (1000, 1, 1000):
        decision = allocate_producer_ids(image, count)
        take(image, decision)
        given_out += list(decision.reply)

    assert given_out == list(range(2001))
    with pytest.raises(InvalidRequest):
        allocate_producer_ids(image, 0)


def test_a_feature_is_set_to_a_level() -> None:
    image = Image()

    take(image, set_feature(image, "metadata.version", 25))

    assert image.features == {"metadata.version": 25}
    assert set_feature(image, "metadata.version", 25) == ([], 25)


def test_the_preferred_leader_takes_over() -> None:
    image = image_with(leader=1, isr=(1, 0))

    take(image, elect_preferred(image, "a", 0))

    state = image.get_topic("a").get_partition(0)
    assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (0, (1, 0), 6, 1)


def test_no_election_is_held_for_the_leader_there_is() -> None:
    with pytest.raises(ElectionNotNeeded) as refusal:
        elect_preferred(image_with(leader=0, isr=(0,)), "a", 0)
    with pytest.raises(ElectionNotNeeded):
        elect_unclean(image_with(leader=1, isr=(1,)), "a", 0)

    assert refusal.value.kafka_code == 84


def test_a_preferred_leader_out_of_sync_does_not_lead() -> None:
    with pytest.raises(PreferredLeaderNotAvailable):
        elect_preferred(image_with(leader=1, isr=(1, 2)), "a", 0)


def test_an_unclean_election_takes_a_replica_in_sync_first() -> None:
    image = image_with(leader=NO_LEADER, isr=(2, 1))

    elected = elect_unclean(image, "a", 0).reply

    assert (elected.leader, elected.isr) == (1, (2, 1))


def test_an_unclean_election_takes_what_there_is() -> None:
    elected = elect_unclean(image_with(leader=NO_LEADER, isr=(9,), replicas=(9, 2, 1)), "a", 0).reply

    assert (elected.leader, elected.isr, elected.leader_epoch) == (2, (2,), 6)
    with pytest.raises(EligibleLeadersNotAvailable):
        elect_unclean(image_with(leader=NO_LEADER, isr=(9,), replicas=(9, 8)), "a", 0)


def test_an_election_needs_a_partition() -> None:
    image = image_with(leader=0, isr=(0,))

    for topic, partition in (("b", 0), ("a", 1)):
        with pytest.raises(UnknownTopicOrPartition):
            elect_preferred(image, topic, partition)
