"""Groups of committed offsets alone: there from the first commit until they are deleted or expire."""

from uuid import UUID

import pytest

from barnabas.core.errors import GroupIdNotFound, UnknownMemberId
from barnabas.core.groups import offsets
from barnabas.core.groups.classic.messages import LeavingMember
from barnabas.core.groups.classic.state import ClassicState
from barnabas.core.groups.encoding import decode, encode_key, encode_value
from barnabas.core.groups.groups import Groups, GroupType
from barnabas.core.groups.listing import DescribedGroup, ListedGroup, delete_group, describe_group, list_groups
from barnabas.core.groups.offsets import NewOffset, delete_topic
from barnabas.core.groups.records import ConsumerGroupRecord, GroupEntry, GroupTombstone, OffsetRecord
from barnabas.core.groups.settings import OffsetsConfig
from tests.unit.core.groups.classic.driver import GROUP, Coordinator

RETENTION_MS = OffsetsConfig().retention_ms
PRODUCER = 7
GONE = UUID(int=5)
LISTED = [ListedGroup(GROUP, "", "Empty", GroupType.CLASSIC)]


def listed(coordinator: Coordinator) -> list[ListedGroup]:
    return list_groups(coordinator.groups, coordinator.soft)


def delete_offset(coordinator: Coordinator, topic: str = "t") -> None:
    decision = offsets.delete(coordinator.groups, coordinator.soft, GROUP, [(topic, 0)])
    assert decision.reply == (None,)
    coordinator.take(decision)


def expire(coordinator: Coordinator) -> int:
    groups, soft, config = coordinator.groups, coordinator.soft, OffsetsConfig()
    return coordinator.take(offsets.expire(groups, soft, GROUP, config=config, now_ms=coordinator.now_ms))


def without_offsets() -> Coordinator:
    coordinator = Coordinator()
    coordinator.commit()
    delete_offset(coordinator)
    assert not coordinator.groups.offsets
    return coordinator


def test_a_group_stays_when_its_offsets_are_deleted() -> None:
    coordinator = without_offsets()
    assert listed(coordinator) == LISTED
    assert describe_group(coordinator.groups, coordinator.soft, GROUP) == DescribedGroup(GROUP, ClassicState.EMPTY)
    delete_offset(coordinator)  # nothing is there, and that is no error
    with pytest.raises(UnknownMemberId):
        coordinator.commit(generation=1, member_id="m")
    coordinator.commit()
    assert listed(coordinator) == LISTED


def test_a_group_stays_when_its_topics_are_deleted() -> None:
    coordinator = Coordinator()
    coordinator.commit(NewOffset("t", 0, 5, topic_id=GONE))
    assert coordinator.take(delete_topic(coordinator.groups, "t", GONE)) == 1
    assert listed(coordinator) == LISTED


def test_a_group_without_offsets_can_be_deleted() -> None:
    coordinator = without_offsets()
    coordinator.take(delete_group(coordinator.groups, coordinator.soft, GROUP))
    assert listed(coordinator) == []
    with pytest.raises(GroupIdNotFound):
        delete_group(coordinator.groups, coordinator.soft, GROUP)
    with pytest.raises(GroupIdNotFound):
        offsets.delete(coordinator.groups, coordinator.soft, GROUP, [("t", 0)])


def test_a_group_without_offsets_goes_when_offsets_are_next_expired() -> None:
    coordinator = without_offsets()
    assert GROUP in coordinator.groups.names()
    assert expire(coordinator) == 0
    assert listed(coordinator) == []


def test_a_group_goes_with_the_last_offset_that_expires() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    coordinator.pass_ms(RETENTION_MS - 1)
    assert expire(coordinator) == 0
    assert listed(coordinator) == LISTED
    coordinator.pass_ms(1)
    assert expire(coordinator) == 1
    assert listed(coordinator) == []


def test_offsets_expire_by_their_commits_though_somebody_was_given_an_id_to_join_with() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    coordinator.pass_ms(RETENTION_MS - 1)
    coordinator.join()
    assert expire(coordinator) == 0
    coordinator.now_ms += 1
    assert expire(coordinator) == 1


def test_a_group_is_there_while_its_first_offsets_are_pending_and_when_they_are_aborted() -> None:
    coordinator = Coordinator()
    coordinator.groups.apply_pending(PRODUCER, OffsetRecord(GROUP, "t", 0, 5))
    assert listed(coordinator) == LISTED
    assert expire(coordinator) == 0
    assert listed(coordinator) == LISTED
    coordinator.groups.end_transaction(PRODUCER, is_commit=False)
    assert listed(coordinator) == LISTED
    assert expire(coordinator) == 0
    assert listed(coordinator) == []


def test_pending_offsets_are_deleted_too() -> None:
    coordinator = Coordinator()
    coordinator.groups.apply_pending(PRODUCER, OffsetRecord(GROUP, "t", 0, 5))
    delete_offset(coordinator)
    coordinator.groups.end_transaction(PRODUCER, is_commit=True)
    assert not coordinator.groups.offsets


def test_a_group_that_gets_members_is_no_longer_simple() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    coordinator.left(LeavingMember(coordinator.stable_group(1)[0]))
    delete_offset(coordinator)
    assert listed(coordinator) == [ListedGroup(GROUP, "consumer", "Empty", GroupType.CLASSIC)]
    assert expire(coordinator) == 0
    assert listed(coordinator) == []


@pytest.mark.parametrize("is_first", [True, False])
def test_a_consumer_group_leaves_no_simple_one_behind(is_first: bool) -> None:
    """Compaction may leave its offsets before the records of the group, or after."""
    groups = Groups()
    entries: list[GroupEntry] = [ConsumerGroupRecord(GROUP, 1), OffsetRecord(GROUP, "t", 0, 5)]
    for entry in entries if is_first else reversed(entries):
        groups.apply(entry)
    for tombstone in (*groups.tombstones_of_offsets(GROUP), *groups.tombstones_of_group(GROUP)):
        groups.apply(tombstone)
    assert groups.names() == []


def test_after_a_restart_a_group_is_there_by_its_offsets() -> None:
    coordinator = Coordinator()
    coordinator.commit()
    again = Groups()
    for record in coordinator.groups.to_records():
        again.apply(decode(encode_key(record), encode_value(record)))
    assert list_groups(again, coordinator.soft) == LISTED
    again.apply(GroupTombstone(OffsetRecord, (GROUP, "t", 0)))
    assert list_groups(again, coordinator.soft) == LISTED
