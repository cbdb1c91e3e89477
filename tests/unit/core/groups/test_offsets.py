"""Committed offsets: who may commit, what is fetched, deleted and expires."""

from uuid import UUID

import pytest

from barnabas.core.errors import (
    BarnabasError,
    FencedInstanceId,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from barnabas.core.groups import offsets
from barnabas.core.groups.classic.messages import LeavingMember, Protocol
from barnabas.core.groups.decision import SESSION, Effects, TimerKey
from barnabas.core.groups.listing import delete_group
from barnabas.core.groups.offset_access import check_commit, check_fetch
from barnabas.core.groups.offsets import CommitRequest, FetchedOffset, NewOffset, WantedOffset, delete_topic, fetch
from barnabas.core.groups.records import (
    ClassicMemberMetadata,
    ConsumerCurrentMemberRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    GroupEntry,
)
from barnabas.core.groups.settings import OffsetsConfig
from tests.unit.core.groups.classic.driver import GROUP, SESSION_MS, Coordinator, replay, subscription

ID, OTHER_ID = UUID(int=1), UUID(int=2)
RETENTION_MS = 1_000_000


def consumers(coordinator: Coordinator, *, epoch: int = 4, classic: ClassicMemberMetadata | None = None) -> None:
    """A consumer group (KIP-848) with a member."""
    records: list[GroupEntry] = [
        ConsumerGroupRecord(GROUP, epoch),
        ConsumerMemberRecord(GROUP, "m", topics=("t",), classic=classic),
        ConsumerCurrentMemberRecord(GROUP, "m", epoch, epoch - 1),
    ]
    for record in records:
        coordinator.groups.apply(record)


def fetched(coordinator: Coordinator, *partitions: int) -> list[int]:
    wanted = [WantedOffset("t", partition) for partition in partitions]
    return [found.offset for found in fetch(coordinator.groups, GROUP, wanted)]


def expire(coordinator: Coordinator) -> int:
    config = OffsetsConfig(retention_ms=RETENTION_MS)
    return coordinator.take(
        offsets.expire(coordinator.groups, coordinator.soft, GROUP, config=config, now_ms=coordinator.now_ms)
    )


# Commit


def test_a_consumer_outside_of_any_group_protocol_commits() -> None:
    coordinator = Coordinator()
    new = NewOffset("t", 1, 7, 3, "note", ID)
    assert coordinator.commit(NewOffset("t", 0, 5), new) == (None, None)
    assert fetch(coordinator.groups, GROUP) == [
        FetchedOffset("t", 0, 5),
        FetchedOffset("t", 1, 7, 3, "note"),
    ]
    assert replay(coordinator.log) == coordinator.groups


def test_a_member_commits_in_its_generation() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    assert coordinator.commit(generation=1, member_id=ids[1]) == (None,)
    assert fetched(coordinator, 0) == [7]


def test_a_commit_keeps_the_session() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    for _ in range(3):
        coordinator.pass_ms(SESSION_MS - 1)
        coordinator.commit(generation=1, member_id=ids[0])
    assert coordinator.timers[TimerKey(SESSION, GROUP, ids[0])] == coordinator.now_ms + SESSION_MS


@pytest.mark.parametrize(
    ("generation", "member_id", "instance_id", "refusal"),
    [
        (2, "m1", None, IllegalGeneration),
        (-1, "m1", None, IllegalGeneration),
        (1, "nobody", None, UnknownMemberId),
        (1, "m1", "i1", FencedInstanceId),
        (1, "m1", "i9", UnknownMemberId),
        (-1, "", None, UnknownMemberId),
    ],
)
def test_a_group_with_members_takes_commits_of_theirs_alone(
    generation: int, member_id: str, instance_id: str | None, refusal: type[BarnabasError]
) -> None:
    coordinator = Coordinator()
    coordinator.stable_group(2, static=True)
    with pytest.raises(refusal):
        coordinator.commit(generation=generation, member_id=member_id, instance_id=instance_id)
    assert not coordinator.groups.offsets


def test_a_commit_while_members_join_is_taken_for_the_generation_before() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(2)
    coordinator.join(ids[0])
    assert coordinator.commit(generation=1, member_id=ids[1]) == (None,)


def test_a_commit_while_assignments_are_made_is_refused() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    coordinator.join(ids[0])
    with pytest.raises(RebalanceInProgress):
        coordinator.commit(generation=2, member_id=ids[0])


def test_a_generation_of_a_group_that_is_not_there_is_refused() -> None:
    coordinator = Coordinator()
    with pytest.raises(GroupIdNotFound):
        coordinator.commit(generation=1, member_id="m")
    coordinator.commit()
    with pytest.raises(UnknownMemberId):
        coordinator.commit(generation=1, member_id="m")


def test_an_administrator_commits_for_a_group_that_became_empty() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    coordinator.left(LeavingMember(ids[0]))
    assert coordinator.commit(NewOffset("t", 0, 1)) == (None,)
    with pytest.raises(UnknownMemberId):
        coordinator.commit(generation=1, member_id=ids[0])
    assert not coordinator.soft.live


def test_an_administrator_does_not_commit_for_a_group_that_is_about_to_have_members() -> None:
    coordinator = Coordinator()
    coordinator.join(version=3)
    with pytest.raises(UnknownMemberId):
        coordinator.commit()


def test_metadata_over_the_limit_is_refused_for_its_partition_alone() -> None:
    coordinator = Coordinator(offsets_config=OffsetsConfig(metadata_max_chars=3))
    errors = coordinator.commit(NewOffset("t", 0, 5, metadata="1234"), NewOffset("t", 1, 6, metadata="äöü"))
    assert isinstance(errors[0], OffsetMetadataTooLarge)
    assert errors[1] is None
    assert fetched(coordinator, 0, 1) == [-1, 6]


def test_a_transaction_commits_from_outside_of_a_group_with_members() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    coordinator.join(ids[0])
    groups, soft = coordinator.groups, coordinator.soft
    for generation, member_id in ((-1, ""), (2, ids[0])):
        check_commit(
            groups,
            soft,
            GROUP,
            generation=generation,
            member_id=member_id,
            instance_id=None,
            knows_epochs=True,
            effects=Effects(),
            is_transactional=True,
        )


def test_a_member_of_a_consumer_group_commits_in_its_epoch() -> None:
    coordinator = Coordinator()
    consumers(coordinator)
    assert coordinator.commit(generation=4, member_id="m") == (None,)
    for generation in (3, 5, -1):
        with pytest.raises(StaleMemberEpoch):
            coordinator.commit(generation=generation, member_id="m")
    with pytest.raises(UnknownMemberId):
        coordinator.commit()
    request = CommitRequest(group=GROUP, offsets=(), generation=4, member_id="m", knows_epochs=False)
    with pytest.raises(UnsupportedVersion):
        offsets.commit(coordinator.groups, coordinator.soft, request, config=OffsetsConfig(), now_ms=0)


def test_a_classic_member_of_a_consumer_group_commits_in_its_generation() -> None:
    coordinator = Coordinator()
    consumers(coordinator, classic=ClassicMemberMetadata(SESSION_MS, ()))
    assert coordinator.commit(generation=4, member_id="m") == (None,)
    with pytest.raises(IllegalGeneration):
        coordinator.commit(generation=3, member_id="m")


# Fetch


def test_what_was_not_committed_is_fetched_as_nothing() -> None:
    coordinator = Coordinator()
    coordinator.commit(NewOffset("t", 0, 5))
    wanted = [WantedOffset("t", 1), WantedOffset("u", 0)]
    assert fetch(coordinator.groups, GROUP, wanted) == [FetchedOffset("t", 1), FetchedOffset("u", 0)]
    assert fetch(coordinator.groups, "none") == []


def test_what_was_committed_for_an_earlier_topic_of_the_name_is_not_fetched() -> None:
    coordinator = Coordinator()
    coordinator.commit(NewOffset("t", 0, 5, topic_id=ID))
    found = fetch(coordinator.groups, GROUP, [WantedOffset("t", 0, topic_id) for topic_id in (ID, OTHER_ID)])
    assert [offset.offset for offset in found] == [5, -1]


def test_a_fetch_by_a_member_of_a_consumer_group_is_checked() -> None:
    coordinator = Coordinator()
    check_fetch(coordinator.groups, GROUP, member_id="m", epoch=4)
    consumers(coordinator)
    check_fetch(coordinator.groups, GROUP, member_id="m", epoch=4)
    check_fetch(coordinator.groups, GROUP, member_id=None, epoch=-1)
    with pytest.raises(StaleMemberEpoch):
        check_fetch(coordinator.groups, GROUP, member_id="m", epoch=3)
    with pytest.raises(UnknownMemberId):
        check_fetch(coordinator.groups, GROUP, member_id="nobody", epoch=4)


# Delete


def test_offsets_of_a_topic_that_nobody_reads_are_deleted() -> None:
    coordinator = Coordinator()
    coordinator.commit(NewOffset("t", 0, 5), NewOffset("u", 0, 6), NewOffset("u", 1, 7))
    coordinator.stable_group(1)
    decision = offsets.delete(
        coordinator.groups, coordinator.soft, GROUP, [("t", 0), ("u", 0), ("u", 1), ("u", 9), ("none", 0)]
    )
    errors = coordinator.take(decision)
    assert isinstance(errors[0], GroupSubscribedToTopic)
    assert errors[1:] == (None, None, None, None)
    assert len(decision.records) == 2
    assert fetch(coordinator.groups, GROUP) == [FetchedOffset("t", 0, 5)]


def test_a_group_whose_topics_cannot_be_read_reads_everything() -> None:
    coordinator = Coordinator()
    coordinator.join(version=3, protocols=(Protocol("range", b"?"),))
    errors = offsets.delete(coordinator.groups, coordinator.soft, GROUP, [("t", 0)]).reply
    assert isinstance(errors[0], GroupSubscribedToTopic)


def test_offsets_of_members_that_are_no_consumers_stay() -> None:
    coordinator = Coordinator()
    coordinator.join(version=3, protocol_type="connect")
    with pytest.raises(NonEmptyGroup):
        offsets.delete(coordinator.groups, coordinator.soft, GROUP, [("t", 0)])


def test_offsets_of_an_empty_a_simple_and_a_consumer_group_are_deleted() -> None:
    coordinator = Coordinator()
    with pytest.raises(GroupIdNotFound):
        offsets.delete(coordinator.groups, coordinator.soft, GROUP, [("t", 0)])
    coordinator.commit()
    assert offsets.delete(coordinator.groups, coordinator.soft, GROUP, [("t", 0)]).reply == (None,)
    coordinator.left(LeavingMember(coordinator.stable_group(1)[0]))
    assert offsets.delete(coordinator.groups, coordinator.soft, GROUP, [("t", 0)]).reply == (None,)
    consumers(coordinator)
    errors = offsets.delete(coordinator.groups, coordinator.soft, GROUP, [("t", 0), ("u", 0)]).reply
    assert isinstance(errors[0], GroupSubscribedToTopic)
    assert errors[1] is None


def test_offsets_go_with_their_topic() -> None:
    coordinator = Coordinator()
    coordinator.commit(NewOffset("t", 0, 5, topic_id=ID), NewOffset("t", 1, 6), NewOffset("t", 2, 7, topic_id=OTHER_ID))
    coordinator.commit(NewOffset("u", 0, 5, topic_id=ID), group="other")
    assert coordinator.take(delete_topic(coordinator.groups, "t", ID)) == 2
    assert fetched(coordinator, 0, 1, 2) == [-1, -1, 7]
    assert replay(coordinator.log) == coordinator.groups


# Expiry


def test_an_offset_of_a_simple_group_expires_by_its_commit() -> None:
    coordinator = Coordinator()
    coordinator.commit(NewOffset("t", 0, 5))
    coordinator.pass_ms(RETENTION_MS // 2)
    coordinator.commit(NewOffset("t", 1, 6))
    coordinator.pass_ms(RETENTION_MS // 2 - 1)
    assert expire(coordinator) == 0
    coordinator.pass_ms(1)
    assert expire(coordinator) == 1
    assert fetched(coordinator, 0, 1) == [-1, 6]
    coordinator.pass_ms(RETENTION_MS // 2)
    assert expire(coordinator) == 1
    assert coordinator.groups.type_of(GROUP) is None


def test_offsets_of_a_group_expire_from_when_it_became_empty() -> None:
    coordinator = Coordinator()
    ids = coordinator.stable_group(1)
    coordinator.commit(generation=1, member_id=ids[0])
    for _ in range(2 * RETENTION_MS // SESSION_MS):
        coordinator.pass_ms(SESSION_MS - 1)
        coordinator.heartbeat(ids[0], 1)
    assert expire(coordinator) == 0
    coordinator.left(LeavingMember(ids[0]))
    coordinator.pass_ms(RETENTION_MS - 1)
    assert expire(coordinator) == 0
    coordinator.pass_ms(1)
    assert expire(coordinator) == 1
    assert coordinator.groups.type_of(GROUP) is None
    assert replay(coordinator.log) == coordinator.groups


def test_topics_that_a_stable_group_no_longer_reads_expire() -> None:
    coordinator = Coordinator()
    coordinator.commit(NewOffset("t", 0, 5), NewOffset("u", 0, 6))
    coordinator.pass_ms(RETENTION_MS)
    coordinator.stable_group(1)
    assert expire(coordinator) == 1
    assert fetch(coordinator.groups, GROUP) == [FetchedOffset("t", 0, 5)]
    assert GROUP in coordinator.groups.classic


def test_nothing_expires_while_a_group_rebalances() -> None:
    coordinator = Coordinator()
    coordinator.commit(NewOffset("u", 0, 6))
    coordinator.join(coordinator.stable_group(2)[0])
    coordinator.now_ms += RETENTION_MS
    assert expire(coordinator) == 0


def test_an_offset_with_a_time_of_its_own_expires_then() -> None:
    coordinator = Coordinator()
    coordinator.commit(retention_ms=10)
    coordinator.pass_ms(9)
    assert expire(coordinator) == 0
    coordinator.pass_ms(1)
    assert expire(coordinator) == 1


def test_a_group_without_offsets_and_members_is_removed() -> None:
    coordinator = Coordinator()
    coordinator.left(LeavingMember(coordinator.stable_group(1)[0]))
    assert expire(coordinator) == 0
    assert coordinator.groups.type_of(GROUP) is None


def test_a_group_to_which_somebody_was_given_an_id_is_not_removed() -> None:
    coordinator = Coordinator()
    coordinator.left(LeavingMember(coordinator.stable_group(1)[0]))
    coordinator.join()
    expire(coordinator)
    assert GROUP in coordinator.groups.classic
    with pytest.raises(NonEmptyGroup):
        delete_group(coordinator.groups, coordinator.soft, GROUP)


def test_topics_that_consumers_no_longer_read_expire() -> None:
    coordinator = Coordinator()
    coordinator.commit(NewOffset("t", 0, 5), NewOffset("u", 0, 6))
    consumers(coordinator)
    coordinator.pass_ms(RETENTION_MS)
    assert expire(coordinator) == 1
    assert fetched(coordinator, 0) == [5]


def test_a_subscription_is_what_the_driver_writes() -> None:
    assert subscription("t") == b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
