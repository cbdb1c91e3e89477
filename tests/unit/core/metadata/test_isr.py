"""AlterPartition: who may change an ISR, to what, and what comes of it."""

from uuid import UUID

import msgspec
import pytest

from barnabas.core.errors import (
    BarnabasError,
    EligibleLeadersNotAvailable,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotController,
    StaleBrokerEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata import Image, NewTopic
from barnabas.core.metadata.image import PartitionState
from barnabas.core.metadata.isr import IsrChange, alter_partitions
from barnabas.core.metadata.reassignments import alter
from barnabas.core.metadata.records import RECOVERED, RECOVERING, TOPIC_RESOURCE, ConfigRecord
from tests.unit.core.metadata.builders import image_of, take

TOPIC = UUID(int=1)


def image_with(**changes: object) -> Image:
    """A partition on nodes 0 to 2 of four, led by 0 in leader epoch 4; each broker has epoch 10 + its id."""
    image = image_of(4, [NewTopic("a", assignments={0: (0, 1, 2)}, configs={"min.insync.replicas": "2"})])
    for node_id, node in list(image.nodes.items()):
        image.apply(msgspec.structs.replace(node, epoch=10 + node_id))
    state = image.get_topic("a").get_partition(0)
    image.apply(msgspec.structs.replace(state, **{"leader_epoch": 4, "partition_epoch": 6, **changes}))
    return image


def change(*isr: int | tuple[int, int], **changes: object) -> IsrChange:
    members = tuple(each if isinstance(each, tuple) else (each, 10 + each) for each in isr)
    return msgspec.structs.replace(IsrChange(TOPIC, 0, 4, 6, members), **changes)


def ask(image: Image, wanted: IsrChange, *, node_id: int = 0) -> PartitionState | BarnabasError:
    decision = alter_partitions(image, node_id, broker_epoch=10 + node_id, changes=[wanted])
    take(image, decision)
    return decision.reply[0]


def altered(image: Image, wanted: IsrChange) -> PartitionState:
    reply = ask(image, wanted)
    assert isinstance(reply, PartitionState)
    assert reply == image.get_topic("a").get_partition(0)
    return reply


def test_the_leader_shrinks_the_isr_without_a_new_leader_epoch() -> None:
    state = altered(image_with(), change(0, 1))

    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((0, 1), 0, 4, 7)
    assert state.elr == ()


def test_below_the_minimum_those_who_leave_stay_eligible_until_enough_are_back() -> None:
    image = image_with()

    assert altered(image, change(0)).elr == (1, 2)
    state = altered(image, change(0, 1, partition_epoch=7))
    assert (state.isr, state.elr) == ((0, 1), ())


def test_what_is_there_already_writes_nothing() -> None:
    image = image_with()

    decision = alter_partitions(image, 0, broker_epoch=10, changes=[change(0, 1, 2)])

    assert decision.records == []
    assert decision.reply == [image.get_topic("a").get_partition(0)]


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        (change(0, 1, leader_epoch=5), NotController),
        (change(0, 1, partition_epoch=7), NotController),
        (change(0, 1, leader_epoch=3), FencedLeaderEpoch),
        (change(0, 1, partition_epoch=5), InvalidUpdateVersion),
        (change(0, 1, topic_id=UUID(int=9)), UnknownTopicId),
        (change(0, 1, partition=9), UnknownTopicOrPartition),
        (change(), InvalidRequest),
        (change(0, 0), InvalidRequest),
        (change(0, 3), InvalidRequest),
        (change(1, 2), InvalidRequest),
        (change(0, 1, recovery_state=RECOVERING), InvalidRequest),
        (change(0, recovery_state=RECOVERING), InvalidRequest),
        (change(0, recovery_state=2), InvalidRequest),
        (change(0, (1, 10)), IneligibleReplica),
        (change(0, (1, 12)), IneligibleReplica),
    ],
)
def test_a_wrong_request_is_refused_and_changes_nothing(wanted: IsrChange, refusal: type[BarnabasError]) -> None:
    image = image_with()
    before = image.get_topic("a").get_partition(0)

    assert type(ask(image, wanted)) is refusal
    assert image.get_topic("a").get_partition(0) == before


def test_the_codes_are_kafkas() -> None:
    codes = {each.kafka_code for each in (IneligibleReplica, NewLeaderElected, InvalidUpdateVersion, FencedLeaderEpoch)}

    assert codes == {107, 108, 95, 74}


def test_only_the_leader_may_ask() -> None:
    assert isinstance(ask(image_with(), change(0, 1), node_id=1), InvalidRequest)


def test_a_broker_that_has_registered_again_or_never_is_refused_as_a_whole() -> None:
    with pytest.raises(StaleBrokerEpoch):
        alter_partitions(image_with(), 0, broker_epoch=9, changes=[change(0, 1)])
    with pytest.raises(StaleBrokerEpoch, match="not registered"):
        alter_partitions(image_with(), 9, broker_epoch=9, changes=[change(0, 1)])


@pytest.mark.parametrize("of", [{"is_fenced": True}, {"is_leaving": True}])
def test_who_is_fenced_or_leaving_does_not_get_in(of: dict[str, bool]) -> None:
    image = image_with(isr=(0,))
    image.apply(msgspec.structs.replace(image.nodes[1], **of))

    assert isinstance(ask(image, change(0, 1)), IneligibleReplica)


def test_an_unchecked_broker_epoch_is_not_checked() -> None:
    assert altered(image_with(isr=(0,)), change(0, (1, -1))).isr == (0, 1)


def test_a_recovering_partition_grows_once_its_leader_has_recovered() -> None:
    image = image_with(isr=(0,), recovery_state=RECOVERING)

    assert isinstance(ask(image, change(0, 1, recovery_state=RECOVERING)), InvalidRequest)
    state = altered(image, change(0, 1))
    assert (state.isr, state.recovery_state) == ((0, 1), RECOVERED)


def test_a_partition_is_decided_once_in_a_request() -> None:
    image = image_with()

    first, second = alter_partitions(image, 0, broker_epoch=10, changes=[change(0, 1), change(0)]).reply

    assert isinstance(first, PartitionState)
    assert isinstance(second, InvalidRequest)


def test_the_change_that_completes_a_reassignment_may_depose_who_asked() -> None:
    image = image_with()
    take(image, alter(image, "a", 0, (1, 2, 3)))

    reply = ask(image, change(0, 1, 2, 3, partition_epoch=7))

    state = image.get_topic("a").get_partition(0)
    assert isinstance(reply, NewLeaderElected)
    assert (state.replicas, state.isr, state.leader, state.leader_epoch) == ((1, 2, 3), (1, 2, 3), 1, 5)


def test_a_leader_that_cannot_open_its_log_is_replaced_and_counts_for_nothing() -> None:
    image = image_with()

    assert isinstance(ask(image, change(0, 1, 2, resigns=True)), NewLeaderElected)

    state = image.get_topic("a").get_partition(0)
    assert (state.leader, state.leader_epoch, state.isr, state.elr) == (1, 5, (1, 2), ())


def test_one_that_is_eligible_takes_over_from_a_leader_that_cannot_open_its_log() -> None:
    image = image_with(isr=(0,), elr=(2,))

    assert isinstance(ask(image, change(0, resigns=True)), NewLeaderElected)

    state = image.get_topic("a").get_partition(0)
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (2, (2,), (), ())


@pytest.mark.parametrize("unclean", ["true", "false"])
def test_a_leader_stays_if_nobody_else_has_everything_whatever_else_the_topic_allows(unclean: str) -> None:
    image = image_with(isr=(0,), elr=())
    image.apply(ConfigRecord(TOPIC_RESOURCE, "a", "unclean.leader.election.enable", unclean))

    assert isinstance(ask(image, change(0, resigns=True)), EligibleLeadersNotAvailable)

    assert image.get_topic("a").get_partition(0).leader == 0


def test_only_the_leader_of_this_epoch_resigns() -> None:
    assert isinstance(ask(image_with(), change(0, 1, 2, resigns=True), node_id=1), InvalidRequest)
    assert isinstance(ask(image_with(), change(0, 1, 2, resigns=True, leader_epoch=3)), FencedLeaderEpoch)
