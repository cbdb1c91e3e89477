"""Generations and epochs: whoever is in an earlier one is refused, and where the numbers go on or begin again."""

import pytest

from barnabas.core.errors import IllegalGeneration
from barnabas.core.groups.classic import decisions as classic
from barnabas.core.groups.classic.messages import LeaveRequest, LeavingMember
from barnabas.core.groups.decision import SESSION, TimerKey
from barnabas.core.groups.records import ConsumerGroupRecord
from tests.unit.core.groups.classic.driver import GROUP, Coordinator, Ticket
from tests.unit.core.groups.consumer.world import GROUP as TOWN_GROUP
from tests.unit.core.groups.migration_town import Town

STALE = 1
AHEAD = 3


def second_generation(coordinator: Coordinator) -> list[str]:
    """Two members that have gone through two generations, the second one stable; the first member leads."""
    ids = coordinator.stable_group(2)
    tokens = [coordinator.join(member_id, version=3) for member_id in ids]
    assert {coordinator.joined(token).generation for token in tokens} == {2}
    coordinator.sync(ids[1], 2)
    coordinator.sync(ids[0], 2, dict.fromkeys(ids, b"second"))
    return ids


@pytest.mark.parametrize("generation", [STALE, AHEAD, -1])
def test_a_heartbeat_in_another_generation_is_refused_and_keeps_no_session(generation: int) -> None:
    coordinator = Coordinator()
    _, follower = second_generation(coordinator)
    ends_ms = coordinator.timers[TimerKey(SESSION, GROUP, follower)]
    coordinator.pass_ms(10)
    assert isinstance(coordinator.heartbeat(follower, generation), IllegalGeneration)
    assert coordinator.timers[TimerKey(SESSION, GROUP, follower)] == ends_ms
    assert coordinator.heartbeat(follower, 2) is None


@pytest.mark.parametrize("generation", [STALE, AHEAD, -1])
def test_a_sync_in_another_generation_is_refused_and_told_no_assignment(generation: int) -> None:
    coordinator = Coordinator()
    _, follower = second_generation(coordinator)
    assert isinstance(coordinator.answers[coordinator.sync(follower, generation)], IllegalGeneration)
    assert coordinator.synced(coordinator.sync(follower, 2)).assignment == b"second"


@pytest.mark.parametrize("generation", [STALE, AHEAD])
def test_a_leader_of_another_generation_assigns_nothing(generation: int) -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    for member_id in ids:
        coordinator.join(member_id, version=3)
    waiting = coordinator.sync(ids[1], 2)
    late = coordinator.sync(ids[0], generation, dict.fromkeys(ids, b"late"))
    assert isinstance(coordinator.answers[late], IllegalGeneration)
    assert waiting not in coordinator.answers


@pytest.mark.parametrize("generation", [STALE, AHEAD, -1])
def test_a_commit_in_another_generation_is_refused_and_moves_nothing(generation: int) -> None:
    coordinator = Coordinator()
    _, follower = second_generation(coordinator)
    with pytest.raises(IllegalGeneration):
        coordinator.commit(generation=generation, member_id=follower)
    assert not coordinator.groups.offsets
    assert coordinator.commit(generation=2, member_id=follower) == (None,)


# Kafka 4.3 removes an empty group of the other kind, epochs and all, before a member joins under its name.


def test_numbers_begin_again_when_a_classic_member_joins_an_emptied_consumer_group_as_in_kafka() -> None:
    coordinator = Coordinator()
    coordinator.groups.apply(ConsumerGroupRecord(GROUP, 7))
    token = coordinator.join(version=3)
    coordinator.pass_ms(3_000)
    assert coordinator.joined(token).generation == 1


def test_numbers_begin_again_when_a_consumer_joins_an_emptied_classic_group_as_in_kafka() -> None:
    town = Town()
    town.stable_classic_group(a=(0, 1, 2, 3))
    left = LeaveRequest(group=TOWN_GROUP, members=(LeavingMember("a"),))
    town.take_outcome(classic.leave(town.groups, town.soft, left, token=Ticket("leave"), now_ms=town.now_ms))
    emptied = town.groups.classic[TOWN_GROUP]
    assert (emptied.generation, emptied.members) == (2, ())
    assert town.join("n", "orders").member_epoch == 1


def test_numbers_go_on_when_a_group_with_members_is_converted() -> None:
    town = Town()
    town.stable_classic_group(a=(0, 1), b=(2, 3))
    generation = town.groups.classic[TOWN_GROUP].generation
    town.join("n", "orders")
    assert town.groups.consumer[TOWN_GROUP].epoch == generation + 1
