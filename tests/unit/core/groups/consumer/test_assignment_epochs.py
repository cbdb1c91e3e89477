"""Commits of a member of a consumer group in an older epoch (KIP-1251): right for what it has had ever since."""

import msgspec
import pytest

from barnabas.core.errors import BarnabasError, IllegalGeneration, StaleMemberEpoch
from barnabas.core.groups import offsets
from barnabas.core.groups.classic.state import ClassicSoft
from barnabas.core.groups.consumer.assignment_epochs import held_since
from barnabas.core.groups.consumer.messages import STATIC_LEAVE_EPOCH
from barnabas.core.groups.consumer.state import MemberState
from barnabas.core.groups.encoding import decode, encode_key, encode_value
from barnabas.core.groups.offsets import CommitRequest, NewOffset
from barnabas.core.groups.records import ConsumerCurrentMemberRecord
from barnabas.core.groups.settings import OffsetsConfig
from tests.unit.core.groups.consumer.world import GROUP, ClassicClient, Client, World, held, topic_id, topics


def commit(world: World, client: Client, epoch: int, *partitions: int, is_transactional: bool = False) -> None:
    """Refused as a whole, or taken for all."""
    request = CommitRequest(
        group=GROUP,
        offsets=[NewOffset("orders", number, 7, topic_id=topic_id("orders")) for number in partitions],
        generation=epoch,
        member_id=client.member_id,
        is_transactional=is_transactional,
    )
    decision = offsets.commit(world.groups, ClassicSoft(), request, config=OffsetsConfig(), now_ms=world.now_ms)
    assert decision.reply == (None,) * len(partitions)


def partitions_of(client: Client) -> list[int]:
    return sorted(partition for _, partition in client.owned)


def settled(world: World, *clients: Client) -> World:
    """Everybody has what it is to have."""
    for _ in range(4):
        for client in clients:
            client.beat()
    assert all(world.group.is_reconciled(client.member_id) for client in clients)
    return world


def two_members() -> tuple[World, Client, Client]:
    """The first had all four partitions in epoch 1, and keeps two of them in epoch 2; the second has the others."""
    world = World(topics(orders=4))
    first, second = Client(world, "first", ("orders",)), Client(world, "second", ("orders",))
    settled(world, first)
    settled(world, first, second)
    return world, first, second


def test_an_older_epoch_does_for_what_the_member_had_then_and_has_still() -> None:
    world, first, second = two_members()
    assert (first.epoch, second.epoch, len(first.owned)) == (2, 2, 2)
    for epoch in (1, 2):
        commit(world, first, epoch, *partitions_of(first))
        commit(world, first, epoch, *partitions_of(first), is_transactional=True)


def test_an_older_epoch_does_not_do_for_what_the_member_has_given_up() -> None:
    world, first, second = two_members()
    (mine, *_), (others, *_) = partitions_of(first), partitions_of(second)
    with pytest.raises(StaleMemberEpoch, match="does not have"):
        commit(world, first, 1, mine, others)
    commit(world, first, 2, mine, others)  # as ever: in its own epoch it is not asked


def test_an_older_epoch_does_not_do_for_what_came_later() -> None:
    world, first, second = two_members()
    came = set(partitions_of(second))
    kept = partitions_of(first)
    world.beat("second", -1)
    settled(world, first)
    assert first.epoch == 3
    commit(world, first, 1, *kept)
    for epoch in (1, 2):
        with pytest.raises(StaleMemberEpoch, match="since epoch 3"):
            commit(world, first, epoch, min(came))
    commit(world, first, 3, *came)


def test_what_was_given_up_and_came_back_is_had_since_then() -> None:
    world, first, second = two_members()
    lost = partitions_of(second)
    world.beat("second", -1)
    settled(world, first)
    assert {since for (_, number), since in held_since(world.group.current_of("first")).items() if number in lost} == {
        3
    }


@pytest.mark.parametrize("epoch", [0, 3, 9])
def test_an_epoch_that_never_was_refuses(epoch: int) -> None:
    world, first, _ = two_members()
    with pytest.raises(StaleMemberEpoch):
        commit(world, first, epoch, *partitions_of(first))


def test_what_is_still_to_be_revoked_can_be_committed() -> None:
    world = World(topics(orders=4))
    first, second = Client(world, "first", ("orders",)), Client(world, "second", ("orders",))
    settled(world, first)
    world.set_topics(topics(orders=4, other=1))
    first.subscription = ("orders", "other")
    first.beat()
    assert first.epoch == 2
    first.is_slow = True
    second.beat()
    first.beat()
    current = world.group.current_of("first")
    assert (current.state, first.epoch) == (MemberState.UNREVOKED_PARTITIONS, 2)
    assert current.pending_revocation
    commit(world, first, 1, 0, 1, 2, 3)


def test_a_classic_member_hears_of_its_generation() -> None:
    world = World(topics(orders=4))
    second, first = Client(world, "second", ("orders",)), ClassicClient(world, "first", ("orders",))
    settled(world, second)
    settled(world, second, first)
    third = Client(world, "third", ("orders",))
    before = first.epoch
    settled(world, second, first, third)
    assert first.epoch > before
    commit(world, first, before, *partitions_of(first))
    lost = partitions_of(third)
    with pytest.raises(IllegalGeneration):
        commit(world, first, before, lost[0])


def test_a_static_member_that_comes_back_has_what_it_had_from_the_start() -> None:
    world = World(topics(orders=2))
    first = Client(world, "first", ("orders",), instance_id="i")
    settled(world, first)
    world.beat("first", STATIC_LEAVE_EPOCH, instance_id="i")
    with pytest.raises(StaleMemberEpoch):
        commit(world, first, 1, 0)
    again = Client(world, "again", ("orders",), instance_id="i")
    settled(world, again)
    assert set(held_since(world.group.current_of("again")).values()) == {0}
    commit(world, again, again.epoch, 0, 1)


def test_a_topic_that_is_no_longer_wanted_takes_its_epochs_along() -> None:
    world = World(topics(orders=2, other=2))
    first = Client(world, "first", ("other",))
    settled(world, first)
    first.subscription = ("orders", "other")
    settled(world, first)
    first.subscription = ("orders",)
    settled(world, first)
    assert held_since(world.group.current_of("first")) == {(topic_id("orders"), number): 2 for number in range(2)}


def test_a_record_says_since_when_only_where_that_is_not_its_own_epoch() -> None:
    world, *_ = two_members()
    current = world.group.current_of("first")
    assert (current.assigned_epochs, current.pending_epochs) == (((1, 1),), ())
    assert world.group.current_of("second").assigned_epochs == ()
    value = encode_value(current)
    assert value is not None
    assert decode(encode_key(current), value) == current
    assert world.replay() == world.groups


def test_a_record_from_before_epochs_were_kept_has_all_since_its_own() -> None:
    record = ConsumerCurrentMemberRecord(GROUP, "m", 5, 4, 0, held(orders=(0,)), held(orders=(1,)))
    assert set(held_since(record).values()) == {5}
    assert set(held_since(msgspec.structs.replace(record, epoch=STATIC_LEAVE_EPOCH)).values()) == {0}


def test_a_refusal_is_of_the_whole() -> None:
    world, first, second = two_members()
    with pytest.raises(BarnabasError):
        commit(world, first, 1, *partitions_of(second))
    assert not world.groups.offsets_of(GROUP)
