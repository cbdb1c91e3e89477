"""Moving replicas: begun, changed, cancelled, completed."""

from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import (
    BarnabasError,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from barnabas.core.metadata import Image, NewTopic
from barnabas.core.metadata.brokers import Heartbeat, fence, heartbeat
from barnabas.core.metadata.elections import balance
from barnabas.core.metadata.image import PartitionState
from barnabas.core.metadata.isr import IsrChange, alter_partitions
from barnabas.core.metadata.reassignments import Reassignment, Target, alter, alter_all, list_reassignments
from barnabas.core.metadata.records import NO_LEADER
from tests.unit.core.metadata.builders import image_of, take

TOPIC = UUID(int=1)


def image_with(replicas: tuple[int, ...] = (0, 1, 2), *, minimum: int = 1) -> Image:
    return image_of(6, [NewTopic("a", assignments={0: replicas}, configs={"min.insync.replicas": str(minimum)})])


def state_of(image: Image) -> PartitionState:
    return image.get_topic("a").get_partition(0)


def catch_up(image: Image, *isr: int) -> None:
    """The leader has this ISR committed."""
    state = state_of(image)
    change = IsrChange(TOPIC, 0, state.leader_epoch, state.partition_epoch, tuple((node, -1) for node in isr))
    take(image, alter_partitions(image, state.leader, broker_epoch=0, changes=[change]))


def told(image: Image) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    state = state_of(image)
    return state.replicas, state.adding, state.removing


def test_a_move_adds_first_and_removes_when_the_new_ones_are_in_sync() -> None:
    image = image_with()

    take(image, alter(image, "a", 0, (3, 4, 0)))
    assert told(image) == ((3, 4, 0, 1, 2), (3, 4), (1, 2))
    assert (state_of(image).leader, state_of(image).leader_epoch) == (0, 0)
    catch_up(image, 0, 1, 2, 3)
    assert told(image)[1] == (3, 4)
    catch_up(image, 0, 3, 4)

    assert told(image) == ((3, 4, 0), (), ())
    assert (state_of(image).isr, state_of(image).leader, state_of(image).leader_epoch) == ((0, 3, 4), 0, 1)
    assert list(list_reassignments(image)) == []


def test_a_leader_that_is_removed_hands_over() -> None:
    image = image_with()
    take(image, alter(image, "a", 0, (3, 1, 2)))

    catch_up(image, 0, 1, 2, 3)

    assert (state_of(image).leader, state_of(image).isr) == (3, (1, 2, 3))


def test_another_order_is_there_at_once_and_the_leader_stays_until_it_is_balanced() -> None:
    image = image_with()

    take(image, alter(image, "a", 0, (2, 1, 0)))

    assert told(image) == ((2, 1, 0), (), ())
    assert (state_of(image).leader, state_of(image).leader_epoch) == (0, 0)
    take(image, balance(image))
    assert state_of(image).leader == 2


def test_fewer_replicas_need_all_of_them_in_sync() -> None:
    image = image_with()
    catch_up(image, 0, 2)

    take(image, alter(image, "a", 0, (0, 1)))
    assert told(image) == ((0, 1, 2), (), (2,))
    catch_up(image, 0, 1, 2)

    assert told(image) == ((0, 1), (), ())
    assert state_of(image).leader_epoch == 1


def test_one_replica_grows_to_three() -> None:
    image = image_with((0,), minimum=2)

    take(image, alter(image, "a", 0, (0, 1, 2)))
    catch_up(image, 0, 1, 2)

    assert told(image) == ((0, 1, 2), (), ())
    assert (state_of(image).isr, state_of(image).elr, state_of(image).leader_epoch) == ((0, 1, 2), (), 0)


def test_a_move_is_cancelled() -> None:
    image = image_with()
    take(image, alter(image, "a", 0, (3, 4, 0)))
    catch_up(image, 0, 1, 2, 3)

    take(image, alter(image, "a", 0, None))

    assert told(image) == ((0, 1, 2), (), ())
    assert state_of(image).isr == (0, 1, 2)
    with pytest.raises(NoReassignmentInProgress):
        alter(image, "a", 0, None)


def test_a_move_is_cancelled_though_an_added_replica_leads() -> None:
    image = image_with()
    take(image, alter(image, "a", 0, (3, 4, 0)))
    catch_up(image, 0, 1, 2, 3)
    image.apply(msgspec.structs.replace(state_of(image), leader=3))

    take(image, alter(image, "a", 0, None))

    assert (state_of(image).leader, state_of(image).isr) == (0, (0, 1, 2))


def test_a_move_whose_old_replicas_are_all_out_of_sync_cannot_be_cancelled() -> None:
    image = image_with()
    take(image, alter(image, "a", 0, (3, 4, 5)))
    image.apply(msgspec.structs.replace(state_of(image), leader=3, isr=(3,)))

    with pytest.raises(InvalidReplicaAssignment, match="cannot be cancelled"):
        alter(image, "a", 0, None)
    with pytest.raises(InvalidReplicaAssignment, match="in-sync"):
        alter(image, "a", 0, (0, 1, 2))


def test_a_new_target_replaces_the_one_under_way() -> None:
    image = image_with()
    take(image, alter(image, "a", 0, (3, 4, 0)))
    catch_up(image, 0, 1, 2, 3)

    take(image, alter(image, "a", 0, (5, 3, 0)))

    assert told(image) == ((5, 3, 0, 1, 2), (5, 3), (1, 2))
    assert state_of(image).isr == (0, 1, 2, 3)


def test_many_are_moved_in_one_commit_each_for_itself_and_once() -> None:
    image = image_of(4, [NewTopic("a", assignments={0: (0, 1), 1: (1, 2)})])

    decision = alter_all(
        image, [Target("a", 0, (0, 3)), Target("a", 1, None), Target("a", 0, (2, 3)), Target("no", 0, (0,))]
    )

    assert [type(each) for each in decision.reply[1:]] == [
        NoReassignmentInProgress,
        InvalidRequest,
        UnknownTopicOrPartition,
    ]
    take(image, decision)
    assert told(image) == ((0, 3, 1), (3,), (1,))


def test_moves_are_listed() -> None:
    image = image_with()
    take(image, alter(image, "a", 0, (3, 1, 2)))
    moving = Reassignment("a", 0, (3, 1, 2, 0), (3,), (0,))

    assert list(list_reassignments(image)) == [moving]
    assert list(list_reassignments(image, {"a": [0, 9], "b": [0]})) == [moving]
    assert list(list_reassignments(image, {"a": []})) == []


@pytest.mark.parametrize(
    ("topic", "target", "refusal"),
    [
        ("b", (0,), UnknownTopicOrPartition),
        ("a", (), InvalidReplicaAssignment),
        ("a", (0, 0), InvalidReplicaAssignment),
        ("a", (0, 9), InvalidReplicaAssignment),
        ("a", (0, 1), InvalidReplicationFactor),
    ],
)
def test_a_wrong_target_is_refused(topic: str, target: tuple[int, ...], refusal: type[BarnabasError]) -> None:
    with pytest.raises(refusal):
        alter(image_with(), topic, 0, target, may_change_factor=False)


def test_the_factor_is_that_of_before_the_move() -> None:
    image = image_with()
    take(image, alter(image, "a", 0, (3, 4, 0)))

    assert alter(image, "a", 0, (5, 4, 3), may_change_factor=False).records
    with pytest.raises(InvalidReplicationFactor, match=r"3 replica\(s\)"):
        alter(image, "a", 0, (3, 4, 0, 1, 2), may_change_factor=False)


def test_the_eligible_are_within_the_replicas() -> None:
    image = image_with(minimum=3)
    take(image, fence(image, 2))
    assert state_of(image).elr == (2,)

    take(image, alter(image, "a", 0, (0, 1, 3)))
    assert state_of(image).elr == (2,)
    catch_up(image, 0, 1, 3)

    assert (told(image), state_of(image).elr) == (((0, 1, 3), (), ()), ())


# Whatever happens

_steps = st.lists(
    st.one_of(
        st.tuples(st.just("fence"), st.integers(0, 5)),
        st.tuples(st.just("let in"), st.integers(0, 5)),
        st.tuples(st.just("isr"), st.sets(st.integers(0, 5), min_size=1)),
        st.tuples(st.just("move"), st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)),
        st.tuples(st.just("cancel"), st.none()),
        st.tuples(st.just("balance"), st.none()),
    ),
    max_size=30,
)


def _step(image: Image, name: str, what: Any) -> None:
    state = state_of(image)
    if name == "fence":
        take(image, fence(image, what))
    elif name == "let in":
        beat = Heartbeat(node_id=what, epoch=0, metadata_offset=1 << 40)
        take(image, heartbeat(image, beat, is_known_to_leave=False))
    elif name == "isr" and state.leader != NO_LEADER:
        catch_up(image, *sorted({*(what & set(state.replicas)), state.leader}))
    elif name == "move":
        take(image, alter(image, "a", 0, what))
    elif name == "cancel":
        take(image, alter(image, "a", 0, None))
    else:
        take(image, balance(image))


@settings(max_examples=300, deadline=None)
@given(_steps, st.integers(1, 3))
def test_a_partition_is_always_consistent(steps: list[tuple[str, Any]], minimum: int) -> None:
    image = image_with(minimum=minimum)
    for name, what in steps:
        before = state_of(image)
        try:
            _step(image, name, what)
        except BarnabasError:
            assert state_of(image) == before
        state = state_of(image)
        assert not set(state.isr) & set(state.elr)
        assert {*state.isr, *state.elr, *state.last_known_elr, *state.adding, *state.removing} <= set(state.replicas)
        assert not set(state.adding) & set(state.removing)
        assert len(set(state.replicas)) == len(state.replicas)
        assert state.isr or state.elr, "nobody has everything"
        assert state.leader == NO_LEADER or (state.leader in state.isr and image.is_active(state.leader))
        assert state.leader != NO_LEADER or not any(map(image.is_active, state.isr or state.elr))
        assert not state.elr or len(state.isr) < min(minimum, len(state.replicas))
        assert state.leader_epoch >= before.leader_epoch
        assert state.partition_epoch == before.partition_epoch + (state != before)
        if state.leader != before.leader:
            assert state.leader_epoch > before.leader_epoch
