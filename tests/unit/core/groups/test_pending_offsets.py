"""Offsets that are committed in transactions: pending until the end, and the last written counts."""

import pytest

from barnabas.core.errors import UnstableOffsetCommit
from barnabas.core.groups.classic.state import ClassicSoft
from barnabas.core.groups.groups import Groups, GroupType
from barnabas.core.groups.offsets import WantedOffset, delete_topic, expire, fetch
from barnabas.core.groups.records import NO_TOPIC_ID, GroupTombstone, OffsetRecord
from barnabas.core.groups.settings import OffsetsConfig

GROUP = "g"


def offset(value: int, partition: int = 0) -> OffsetRecord:
    return OffsetRecord(GROUP, "t", partition, value)


def committed(groups: Groups, partition: int = 0) -> int:
    found = groups.find_offset(GROUP, "t", partition)
    return -1 if found is None else found.offset


def test_a_pending_offset_counts_once_its_transaction_is_committed() -> None:
    groups = Groups()
    groups.apply(offset(1))
    groups.apply_pending(7, offset(5))
    assert committed(groups) == 1
    groups.end_transaction(7, is_commit=True)
    assert committed(groups) == 5
    assert not groups.pending


def test_a_pending_offset_is_dropped_with_its_transaction() -> None:
    groups = Groups()
    groups.apply_pending(7, offset(5))
    groups.end_transaction(7, is_commit=False)
    assert committed(groups) == -1
    assert not groups.pending
    assert groups.type_of(GROUP) is GroupType.CLASSIC  # until it expires, as in Kafka


def test_the_end_of_a_transaction_that_wrote_nothing_here_changes_nothing() -> None:
    groups = Groups()
    groups.apply_pending(7, offset(5))
    groups.end_transaction(8, is_commit=True)
    assert groups.pending_of(GROUP) == {("t", 0)}


def test_within_a_transaction_the_last_offset_counts() -> None:
    groups = Groups()
    groups.apply_pending(7, offset(5))
    groups.apply_pending(7, offset(6))
    groups.end_transaction(7, is_commit=True)
    assert committed(groups) == 6


def test_a_plain_commit_after_it_in_the_log_wins_over_a_pending_one() -> None:
    groups = Groups()
    groups.apply_pending(7, offset(5))
    groups.apply(offset(9))
    groups.end_transaction(7, is_commit=True)
    assert committed(groups) == 9


@pytest.mark.parametrize("order", [(7, 8), (8, 7)])
def test_of_two_transactions_the_one_that_wrote_last_wins_whichever_ends_first(order: tuple[int, int]) -> None:
    groups = Groups()
    groups.apply_pending(7, offset(5))
    groups.apply_pending(8, offset(6))
    for producer_id in order:
        groups.end_transaction(producer_id, is_commit=True)
    assert committed(groups) == 6


def test_an_aborted_transaction_supersedes_nothing() -> None:
    groups = Groups()
    groups.apply_pending(7, offset(5))
    groups.apply_pending(8, offset(6))
    groups.end_transaction(8, is_commit=False)
    groups.end_transaction(7, is_commit=True)
    assert committed(groups) == 5


def test_a_tombstone_after_it_wins_over_a_pending_one() -> None:
    groups = Groups()
    groups.apply_pending(7, offset(5))
    groups.apply(GroupTombstone(OffsetRecord, (GROUP, "t", 0)))
    groups.end_transaction(7, is_commit=True)
    assert committed(groups) == -1


def test_whoever_wants_stable_offsets_is_told_to_come_back() -> None:
    groups = Groups()
    for partition in (0, 1):
        groups.apply(offset(3, partition))
    groups.apply_pending(7, offset(5, 1))
    found = fetch(groups, GROUP, must_be_stable=True)
    assert [each.offset for each in found] == [3, -1]
    assert isinstance(found[1].error, UnstableOffsetCommit)
    assert [each.offset for each in fetch(groups, GROUP)] == [3, 3]
    wanted = fetch(groups, GROUP, [WantedOffset("t", 1)], must_be_stable=True)
    assert isinstance(wanted[0].error, UnstableOffsetCommit)


def test_an_offset_that_was_never_committed_is_unstable_too() -> None:
    groups = Groups()
    groups.apply_pending(7, offset(5))
    [found] = fetch(groups, GROUP, [WantedOffset("t", 0)], must_be_stable=True)
    assert isinstance(found.error, UnstableOffsetCommit)


def test_nothing_expires_while_a_transaction_is_about_to_replace_it() -> None:
    groups = Groups()
    config = OffsetsConfig(retention_ms=10)
    groups.apply(OffsetRecord(GROUP, "t", 0, 3, commit_time_ms=0))
    groups.apply_pending(7, offset(5))
    assert expire(groups, ClassicSoft(), GROUP, config=config, now_ms=1000).reply == 0
    groups.end_transaction(7, is_commit=False)
    assert expire(groups, ClassicSoft(), GROUP, config=config, now_ms=1000).reply == 1


def test_a_group_that_has_nothing_but_pending_offsets_is_there() -> None:
    groups = Groups()
    groups.apply_pending(7, offset(5))
    assert groups.type_of(GROUP) is GroupType.CLASSIC


def test_deleting_a_group_or_a_topic_takes_pending_offsets_with_it() -> None:
    for remove in (
        lambda groups: list(groups.tombstones_of_offsets(GROUP)),
        lambda groups: delete_topic(groups, "t", NO_TOPIC_ID).records,
    ):
        groups = Groups()
        groups.apply(offset(1, 0))
        groups.apply_pending(7, offset(5, 0))
        groups.apply_pending(7, offset(5, 1))
        for tombstone in remove(groups):
            groups.apply(tombstone)
        groups.end_transaction(7, is_commit=True)
        assert not groups.offsets
