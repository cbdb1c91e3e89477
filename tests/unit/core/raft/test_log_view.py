"""The log as Raft sees it: epochs, what is on disk, truncation, snapshots."""

import pytest

from barnabas.core.raft.log_view import EpochEnd, EpochStart, LogView, SnapshotId


def make_log(*batches: tuple[int, int]) -> LogView:
    """A log of batches, each an end offset and an epoch."""
    log = LogView()
    for end_offset, epoch in batches:
        log.append(end_offset, epoch)
    return log


def test_each_epoch_starts_where_the_one_before_ended() -> None:
    log = make_log((3, 1), (5, 1), (9, 4))
    assert log.epochs == (EpochStart(1, 0), EpochStart(4, 5))
    assert [log.epoch_at(offset) for offset in (0, 4, 5, 8)] == [1, 1, 4, 4]
    assert log.last_epoch == 4


def test_the_end_of_an_epoch_is_the_start_of_the_next_or_the_end_of_the_log() -> None:
    log = make_log((3, 1), (5, 2), (9, 4))
    assert log.end_of(1) == EpochEnd(1, 3)
    assert log.end_of(3) == EpochEnd(2, 5)
    assert log.end_of(4) == EpochEnd(4, 9)
    assert log.end_of(7) == EpochEnd(4, 9)
    assert log.end_of(0) == EpochEnd(0, 0)


def test_an_empty_log_has_epoch_zero() -> None:
    assert LogView().last_epoch == 0
    assert LogView().end_of(3) == EpochEnd(0, 0)


def test_what_is_appended_is_not_on_disk_before_it_is_synced() -> None:
    log = make_log((3, 1))
    assert log.durable_end == 0
    assert log.flushed(3, 1)
    assert not log.flushed(2, 1)
    assert log.durable_end == 3


def test_a_sync_of_records_that_were_truncated_since_does_not_count() -> None:
    log = make_log((3, 1), (5, 2))
    log.truncate_to(3)
    log.append(5, 3)
    assert not log.flushed(5, 2)
    assert log.flushed(5, 3)


def test_a_sync_beyond_the_end_does_not_count() -> None:
    log = make_log((5, 2))
    log.truncate_to(3)
    assert not log.flushed(5, 2)


def test_truncating_forgets_epochs_and_what_was_on_disk() -> None:
    log = make_log((3, 1), (5, 2))
    log.flushed(5, 2)
    log.truncate_to(3)
    assert (log.end_offset, log.durable_end, log.last_epoch) == (3, 3, 1)


def test_a_log_that_a_snapshot_replaced_has_the_epoch_of_the_snapshot() -> None:
    log = make_log((3, 1))
    log.reset(SnapshotId(10, 4))
    assert (log.start_offset, log.end_offset, log.durable_end, log.last_epoch) == (10, 10, 10, 4)
    assert log.end_of(4) == EpochEnd(4, 10)
    log.append(12, 5)
    log.truncate_to(10)
    assert log.last_epoch == 4


def test_a_log_begins_later_once_a_snapshot_holds_what_was_before() -> None:
    log = make_log((3, 1), (6, 2), (9, 3))
    log.keep([SnapshotId(6, 2)], start_offset=6)
    assert log.end_of(2) == EpochEnd(2, 6)
    assert log.end_of(3) == EpochEnd(3, 9)
    assert log.first_snapshot == log.last_snapshot == SnapshotId(6, 2)
    assert log.durable_end == 6


def test_snapshots_that_end_before_the_log_begins_are_forgotten() -> None:
    log = make_log((9, 1))
    log.keep([SnapshotId(0, 0), SnapshotId(5, 1), SnapshotId(9, 1)], start_offset=5)
    assert log.first_snapshot == SnapshotId(5, 1)
    assert log.has_snapshot(SnapshotId(9, 1))
    assert not log.has_snapshot(SnapshotId(0, 0))


def test_a_log_does_not_go_back_to_an_older_epoch() -> None:
    log = make_log((3, 2))
    with pytest.raises(AssertionError):
        log.append(4, 1)
