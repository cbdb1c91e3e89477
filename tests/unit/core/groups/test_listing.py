"""What an administrator sees of groups, and deletes."""

import pytest

from barnabas.core.errors import GroupIdNotFound, NonEmptyGroup
from barnabas.core.groups.classic.messages import LeavingMember
from barnabas.core.groups.classic.state import ClassicState
from barnabas.core.groups.groups import Groups, GroupType
from barnabas.core.groups.listing import (
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    delete_group,
    describe_group,
    list_groups,
)
from barnabas.core.groups.offsets import NewOffset
from barnabas.core.groups.records import ConsumerGroupRecord, ConsumerMemberRecord
from tests.unit.core.groups.classic.driver import GROUP, Coordinator, subscription


def test_groups_are_listed_as_they_are_now() -> None:
    coordinator = Coordinator()
    coordinator.stable_group(1)
    coordinator.commit(group="simple")
    coordinator.join(group="new", version=3)
    coordinator.groups.apply(ConsumerGroupRecord("consumers", 1))
    assert list_groups(coordinator.groups, coordinator.soft) == [
        ListedGroup("consumers", "consumer", "Empty", GroupType.CONSUMER),
        ListedGroup("g", "consumer", "Stable", GroupType.CLASSIC),
        ListedGroup("new", "consumer", "PreparingRebalance", GroupType.CLASSIC),
        ListedGroup("simple", "", "Empty", GroupType.CLASSIC),
    ]


def test_a_stable_group_is_described_with_what_its_members_read_and_have() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    member = DescribedMember(ids[0], None, "client", "/host", subscription("t"), ids[0].encode())
    assert describe_group(coordinator.groups, coordinator.soft, GROUP) == DescribedGroup(
        GROUP, ClassicState.STABLE, "consumer", "range", (member,)
    )
    coordinator.join(ids[0])
    described = describe_group(coordinator.groups, coordinator.soft, GROUP)
    assert described.state is ClassicState.COMPLETING_REBALANCE
    assert described.members == (DescribedMember(ids[0], None, "client", "/host"),)


def test_a_group_of_offsets_alone_is_described_as_empty() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    assert describe_group(coordinator.groups, coordinator.soft, GROUP) == DescribedGroup(GROUP, ClassicState.EMPTY)


def test_what_is_no_classic_group_is_not_described() -> None:
    coordinator = Coordinator()
    coordinator.groups.apply(ConsumerGroupRecord("consumers", 1))
    for group in (GROUP, "consumers"):
        with pytest.raises(GroupIdNotFound):
            describe_group(coordinator.groups, coordinator.soft, group)


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    coordinator.commit(generation=1, member_id=ids[0])
    with pytest.raises(NonEmptyGroup):
        delete_group(coordinator.groups, coordinator.soft, GROUP)
    coordinator.left(LeavingMember(ids[0]))
    coordinator.take(delete_group(coordinator.groups, coordinator.soft, GROUP))
    assert coordinator.groups == Groups()
    with pytest.raises(GroupIdNotFound):
        delete_group(coordinator.groups, coordinator.soft, GROUP)


def test_a_group_of_many_offsets_is_deleted_some_of_them_at_a_time_and_is_there_until_the_last() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    coordinator.commit(*[NewOffset("t", partition, 7) for partition in range(7)], generation=1, member_id=ids[0])
    coordinator.left(LeavingMember(ids[0]))

    left = []
    while not coordinator.take(delete_group(coordinator.groups, coordinator.soft, GROUP, limit=3)):
        assert coordinator.groups.type_of(GROUP) is GroupType.CLASSIC
        left.append(sum(map(len, coordinator.groups.offsets_of(GROUP).values())))

    assert left == [4, 1]
    assert coordinator.groups == Groups()


def test_a_group_that_is_about_to_have_members_is_not_deleted() -> None:
    coordinator = Coordinator()
    coordinator.join(version=3)
    with pytest.raises(NonEmptyGroup):
        delete_group(coordinator.groups, coordinator.soft, GROUP)


def test_a_consumer_group_is_deleted_when_it_has_no_members() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    coordinator.groups.apply(ConsumerGroupRecord(GROUP, 1))
    coordinator.groups.apply(ConsumerMemberRecord(GROUP, "m"))
    with pytest.raises(NonEmptyGroup):
        delete_group(coordinator.groups, coordinator.soft, GROUP)
    coordinator.groups.consumer[GROUP].members.clear()
    coordinator.take(delete_group(coordinator.groups, coordinator.soft, GROUP))
    assert coordinator.groups == Groups()
