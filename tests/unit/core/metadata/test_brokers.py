"""Decisions about brokers: registering, being fenced and let in, leaving."""

from typing import TypeVar
from uuid import UUID

import msgspec
import pytest

from barnabas.core.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    EligibleLeadersNotAvailable,
    InconsistentClusterId,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from barnabas.core.metadata import Image, MetadataDecision, NewTopic, create_topic
from barnabas.core.metadata.brokers import Heartbeat, Registration, fence, heartbeat, register, unregister
from barnabas.core.metadata.elections import elect_preferred, elect_unclean
from barnabas.core.metadata.records import NO_LEADER, ClusterRecord, Endpoint, FeatureRecord, PartitionRecord
from tests.unit.core.metadata.builders import apply_all, image_of

T = TypeVar("T")


def take(image: Image, decision: MetadataDecision[T]) -> T:
    apply_all(image, decision.records)
    return decision.reply


def registration(node_id: int = 3, *, incarnation: int = 1, directory: int = 1, **changes: object) -> Registration:
    made = Registration(
        node_id=node_id,
        incarnation=UUID(int=incarnation),
        directory_id=UUID(int=directory),
        endpoints=(Endpoint("PLAINTEXT", "h", 9092),),
    )
    return msgspec.structs.replace(made, **changes)


def beat(node_id: int = 3, *, epoch: int, offset: int = 1000, **wants: bool) -> Heartbeat:
    return Heartbeat(node_id=node_id, epoch=epoch, metadata_offset=offset, **wants)


def join(image: Image, node_id: int = 3, *, epoch: int = 50) -> None:
    """Have a broker registered and let in."""
    take(image, register(image, registration(node_id), epoch=epoch, has_session=False))
    take(image, heartbeat(image, beat(node_id, epoch=epoch), is_known_to_leave=False))


def state_of(image: Image, topic: str = "a", partition: int = 0) -> PartitionRecord:
    return image.get_topic(topic).get_partition(partition)


def test_a_broker_is_born_fenced_and_let_in_once_it_knows_its_own_registration() -> None:
    image = image_of(3, [])

    assert take(image, register(image, registration(), epoch=50, has_session=False)) == 50
    assert image.nodes[3].is_fenced
    behind = take(image, heartbeat(image, beat(epoch=50, offset=49), is_known_to_leave=False))
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    there = take(image, heartbeat(image, beat(epoch=50, offset=50), is_known_to_leave=False))

    assert (there.is_caught_up, there.is_fenced, there.should_shut_down) == (True, False, False)
    assert image.is_active(3)


def test_a_broker_in_the_process_of_the_controller_is_let_in_at_once() -> None:
    image = Image()

    take(image, register(image, registration(), epoch=0, has_session=False, is_local=True))

    assert image.is_active(3)


def test_a_broker_that_wants_to_stay_fenced_does() -> None:
    image = image_of(3, [])
    take(image, register(image, registration(), epoch=50, has_session=False))

    reply = take(image, heartbeat(image, beat(epoch=50, wants_fence=True), is_known_to_leave=False))

    assert reply.is_fenced
    assert image.nodes[3].is_fenced


def test_the_same_incarnation_may_register_again_and_keeps_its_epoch() -> None:
    image = image_of(3, [])
    join(image)

    assert register(image, registration(), epoch=70, has_session=True) == ([], 50)
    assert (
        take(
            image,
            register(image, registration(endpoints=(Endpoint("PLAINTEXT", "h", 9999),)), epoch=70, has_session=True),
        )
        == 50
    )
    assert (image.nodes[3].port, image.nodes[3].is_fenced) == (9999, False)


def test_another_broker_of_the_same_id_is_refused_while_the_first_is_heard_of() -> None:
    image = image_of(3, [])
    join(image)

    with pytest.raises(DuplicateBrokerRegistration, match="h:9092"):
        register(image, registration(incarnation=2, directory=2), epoch=70, has_session=True)
    assert take(image, register(image, registration(incarnation=2, directory=2), epoch=70, has_session=False)) == 70


def test_a_broker_that_was_killed_need_not_wait_for_its_old_session() -> None:
    image = image_of(3, [])
    join(image)

    assert take(image, register(image, registration(incarnation=2), epoch=70, has_session=True)) == 70
    assert image.nodes[3].is_fenced


def test_a_broker_without_a_listener_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no listener"):
        register(image_of(3, []), registration(endpoints=()), epoch=50, has_session=False)


def test_what_a_former_incarnation_says_is_refused() -> None:
    image = image_of(3, [])
    join(image)
    take(image, register(image, registration(incarnation=2), epoch=70, has_session=True))

    with pytest.raises(StaleBrokerEpoch, match="70"):
        heartbeat(image, beat(epoch=50), is_known_to_leave=False)
    with pytest.raises(BrokerIdNotRegistered):
        heartbeat(image, beat(9, epoch=50), is_known_to_leave=False)


def test_a_broker_that_does_not_know_a_level_in_use_is_refused() -> None:
    image = image_of(3, [])
    image.apply(FeatureRecord("metadata.version", 31))

    with pytest.raises(UnsupportedVersion, match=r"level 31 of metadata\.version"):
        register(image, registration(features=(("metadata.version", 7, 30),)), epoch=50, has_session=False)
    known = registration(features=(("metadata.version", 7, 31),))
    assert take(image, register(image, known, epoch=50, has_session=False)) == 50


def test_who_is_fenced_hands_over_what_it_leads_and_leaves_the_in_sync_replicas() -> None:
    image = image_of(3, [NewTopic("a", assignments={0: (0, 1, 2), 1: (1, 0, 2)})])
    before = [state_of(image, partition=partition) for partition in (0, 1)]

    take(image, fence(image, 0))

    led, followed = (state_of(image, partition=partition) for partition in (0, 1))
    assert (led.leader, led.isr, led.leader_epoch) == (1, (1, 2), before[0].leader_epoch + 1)
    assert (followed.leader, followed.isr, followed.leader_epoch) == (1, (1, 2), before[1].leader_epoch)
    assert led.partition_epoch == before[0].partition_epoch + 1
    assert fence(image, 0).records == []


def test_the_last_in_sync_replica_stays_and_leads_again_when_it_is_back() -> None:
    image = image_of(4, [NewTopic("a", assignments={0: (3,)})])
    epoch = state_of(image).leader_epoch

    take(image, fence(image, 3))
    assert (state_of(image).leader, state_of(image).isr) == (NO_LEADER, (3,))
    assert state_of(image).leader_epoch == epoch + 1

    take(image, heartbeat(image, beat(epoch=0), is_known_to_leave=False))
    assert (state_of(image).leader, state_of(image).leader_epoch) == (3, epoch + 2)


def test_only_active_brokers_are_elected() -> None:
    image = image_of(3, [NewTopic("a", assignments={0: (0, 1, 2)})])
    image.apply(msgspec.structs.replace(image.nodes[1], is_leaving=True))

    take(image, fence(image, 0))

    assert state_of(image).leader == 2


def test_who_leaves_hands_over_first_and_goes_when_everybody_knows() -> None:
    image = image_of(3, [NewTopic("a", assignments={0: (0, 1, 2)})])
    leave = beat(0, epoch=0, wants_shutdown=True)

    first = take(image, heartbeat(image, leave, is_known_to_leave=False))
    assert not first.should_shut_down
    assert (state_of(image).leader, state_of(image).isr) == (1, (1, 2))
    assert not image.is_active(0)
    second = take(image, heartbeat(image, leave, is_known_to_leave=False))
    assert not second.should_shut_down
    third = take(image, heartbeat(image, leave, is_known_to_leave=True))
    assert third.should_shut_down


def test_a_fenced_broker_may_go_at_once() -> None:
    image = image_of(3, [])
    take(image, register(image, registration(), epoch=50, has_session=False))

    reply = take(image, heartbeat(image, beat(epoch=50, wants_shutdown=True), is_known_to_leave=False))

    assert reply.should_shut_down


def test_only_a_broker_that_is_gone_is_unregistered() -> None:
    image = image_of(3, [NewTopic("a", assignments={0: (0, 1, 2)})])

    with pytest.raises(InvalidRequest, match="running"):
        unregister(image, 0, has_session=True)
    with pytest.raises(BrokerIdNotRegistered):
        unregister(image, 9, has_session=False)
    take(image, unregister(image, 0, has_session=False))

    assert 0 not in image.nodes
    assert (state_of(image).leader, state_of(image).replicas) == (1, (0, 1, 2))


@pytest.mark.parametrize("change", [{"is_fenced": True}, {"is_leaving": True}])
def test_k19522_k14296_who_is_fenced_or_leaves_is_not_elected_on_request_and_gets_no_replicas(
    change: dict[str, bool],
) -> None:
    image = image_of(2, [NewTopic("a", assignments={0: (0, 1)}), NewTopic("b", assignments={0: (0,)})])
    image.apply(msgspec.structs.replace(state_of(image), leader=1))
    image.apply(msgspec.structs.replace(state_of(image, "b"), leader=NO_LEADER))
    image.apply(msgspec.structs.replace(image.nodes[0], **change))

    with pytest.raises(PreferredLeaderNotAvailable):
        elect_preferred(image, "a", 0)
    with pytest.raises(EligibleLeadersNotAvailable):
        elect_unclean(image, "b", 0)
    with pytest.raises(InvalidReplicationFactor, match="1 of them active"):
        create_topic(image, NewTopic("c", 1, 2), topic_id=UUID(int=9))
    with pytest.raises(InvalidReplicaAssignment, match="fenced or in controlled shutdown"):
        create_topic(image, NewTopic("c", assignments={0: (0,)}), topic_id=UUID(int=9))
    take(image, create_topic(image, NewTopic("c", 5, 1), topic_id=UUID(int=9)))
    take(image, create_topic(image, NewTopic("d", assignments={0: (0, 1)}), topic_id=UUID(int=10)))
    assert {state.leader for state in image.get_topic("c").partitions.values()} == {1}
    assert (state_of(image, "d").leader, state_of(image, "d").isr) == (1, (1,))


@pytest.mark.parametrize(("previous_epoch", "added"), [(50, 0), (None, 1), (49, 1)])
def test_after_an_unclean_stop_a_broker_beside_the_controller_leads_under_new_epochs(
    previous_epoch: int | None, added: int
) -> None:
    image = image_of(3, [])
    join(image)
    take(image, create_topic(image, NewTopic("a", assignments={0: (3,)}), topic_id=UUID(int=1)))
    again = registration(incarnation=2, previous_epoch=previous_epoch)

    take(image, register(image, again, epoch=70, has_session=True, is_local=True))

    assert (state_of(image).leader, state_of(image).leader_epoch) == (3, added)
    assert (image.nodes[3].epoch, image.nodes[3].is_fenced) == (70, False)


def test_a_broker_of_another_cluster_is_refused() -> None:
    image = image_of(3, [])
    image.apply(ClusterRecord("this"))

    with pytest.raises(InconsistentClusterId, match=r"cluster that.*cluster this"):
        register(image, registration(cluster_id="that"), epoch=50, has_session=False)
    assert take(image, register(image, registration(cluster_id="this"), epoch=50, has_session=False)) == 50
