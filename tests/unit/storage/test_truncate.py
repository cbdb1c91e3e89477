"""Cutting a log at its end, at its front, and all of it: what is left, in memory and after a crash at any moment."""

import contextlib
from collections.abc import Callable

import pytest

from barnabas.core.errors import OffsetOutOfRange, OutOfOrderSequence, StorageError
from barnabas.storage.log import Log
from barnabas.storage.lookup import aborted_transactions
from barnabas.storage.truncate import delete_before, reset_to, truncate_to
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk
from tests.unit.storage.builders import (
    DATA,
    PARTITION,
    SMALL,
    abort,
    all_bytes,
    append,
    checkpoint,
    commit,
    fill,
    in_transaction,
    new_log,
    offsets,
    open_dir,
    overwrite,
    plain,
    produced,
    reopened,
)


def sequences(log: Log, producer_id: int) -> list[int]:
    producer = log.producers.get(producer_id)
    return [] if producer is None else [batch.first_sequence for batch in producer.batches]


def at_any_crash(prepare: Callable[[SimulatedDisk], Log], act: Callable[[Log], object]) -> list[Log]:
    """The log as it is opened again after a crash at each disk operation of `act`, for several fates of each."""
    found: list[Log] = []
    for step in range(60):
        for seed in range(6):
            disk = SimulatedDisk(seed)
            log = prepare(disk)
            disk.crash_after(step)
            with contextlib.suppress(SimulatedCrash):
                act(log)
                if seed == 0:
                    return found
            disk.crash()
            found.append(reopened(disk))
    raise AssertionError("the action takes more than 60 steps")


# The end


def test_a_cut_at_the_end_forgets_an_epoch_in_which_nothing_was_written() -> None:
    """Or a follower that had led without writing would be told again and again that this epoch diverges."""
    log = new_log(SimulatedDisk())
    fill(log, 3)
    log.note_leader_epoch(log.epochs.latest + 1)

    assert truncate_to(log, log.end_offset) == log.end_offset

    assert log.epochs.entries == log.epochs.entries[:1]
    assert log.epochs.latest == log.epochs.entries[0].epoch


@pytest.mark.parametrize("offset", range(12))
def test_a_cut_at_any_offset_leaves_everything_before(offset: int) -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 12)
    assert truncate_to(log, offset) == offset
    assert offsets(log) == list(range(offset))
    assert (log.end_offset, log.flushed_offset) == (offset, offset)
    fill(log, 3)
    assert offsets(log) == list(range(offset + 3))
    log.flush()
    disk.crash(Keep.NOTHING)
    assert offsets(reopened(disk)) == list(range(offset + 3))


def test_a_cut_at_or_beyond_the_end_does_nothing() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(3))
    before = disk.mutations
    assert [truncate_to(log, 3), truncate_to(log, 99)] == [3, 3]
    assert disk.mutations == before


def test_the_batch_that_holds_the_offset_goes_as_a_whole() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain(3), plain(3))
    assert truncate_to(log, 5) == 3
    assert log.end_offset == 3


def test_a_cut_in_a_gap_ends_where_the_batch_before_it_does() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    for offset in (0, 5, 9):
        log.append_as_follower(plain(base_offset=offset, leader_epoch=0))
    assert truncate_to(log, 8) == 6
    checkpoint(log)
    disk.crash()
    assert reopened(disk).end_offset == 6


def test_epochs_and_producers_are_those_of_what_is_left() -> None:
    log = new_log(SimulatedDisk(), SMALL)
    for n in range(8):
        append(log, produced(7, n), leader_epoch=n // 2)
    truncate_to(log, 5)
    assert log.epochs.entries == ((0, 0), (1, 2), (2, 4))
    assert sequences(log, 7) == [0, 1, 2, 3, 4]
    append(log, produced(7, 5), leader_epoch=2)


def test_a_transaction_that_a_cut_reopens_is_open_again() -> None:
    log = new_log(SimulatedDisk())
    append(log, in_transaction(7, 0), plain(), abort(7), in_transaction(8, 0))
    assert log.last_stable_offset(4) == 3
    truncate_to(log, 2)
    assert log.last_stable_offset(2) == 0
    assert aborted_transactions(log, 0, 2) == []
    append(log, commit(7))
    assert log.last_stable_offset(3) == 3


def test_a_batch_of_a_transaction_that_a_cut_reopens_can_be_repeated_again() -> None:
    log = new_log(SimulatedDisk())
    append(log, in_transaction(7, 0), abort(7))
    with pytest.raises(OutOfOrderSequence):
        append(log, in_transaction(7, 0))
    truncate_to(log, 1)
    append(log, in_transaction(7, 0))
    assert offsets(log) == [0]


def test_what_is_below_a_cut_is_durable_though_it_was_never_flushed() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 12)  # several segments, none of them synced
    truncate_to(log, 11)
    assert log.flushed_offset == 11
    checkpoint(log)
    disk.crash(Keep.NOTHING)
    assert reopened(disk).end_offset == 11


def test_an_index_of_what_was_cut_does_not_lead_astray_after_a_crash() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    log.config = SMALL
    fill(log, 5, value=b"a" * 50)
    log.flush()
    checkpoint(log)
    disk.sync_all()  # as the operating system does after a while
    truncate_to(log, 1)
    fill(log, 3, value=b"b" * 90)
    log.flush()
    checkpoint(log)  # writes the index, and does not sync it
    disk.crash(Keep.NOTHING)
    again = reopened(disk)
    assert [again.read(offset, max_bytes=1) is not None for offset in range(4)] == [True] * 4
    assert offsets(again) == [0, 1, 2, 3]


def test_a_crash_while_cutting_leaves_the_whole_log_or_what_was_to_be_left() -> None:
    def prepare(disk: SimulatedDisk) -> Log:
        log = new_log(disk, SMALL)
        fill(log, 10)
        log.flush()
        checkpoint(log)
        return log

    found = at_any_crash(prepare, lambda log: truncate_to(log, 4))
    assert {log.end_offset for log in found} >= {4, 10}
    for log in found:
        assert 4 <= log.end_offset <= 10
        assert offsets(log) == list(range(log.end_offset))


def test_records_appended_after_a_cut_never_pass_for_durable_ones() -> None:
    """The recovery point is below the cut before anything is cut."""
    for seed in range(50):
        disk = SimulatedDisk(seed)
        log = new_log(disk)
        fill(log, 10)
        log.flush()
        checkpoint(log)
        truncate_to(log, 5)
        fill(log, 5, value=b"other" * 50)
        disk.crash()
        again = reopened(disk)  # a torn end is cut, not called damage
        assert again.end_offset >= 5


def test_a_damaged_transaction_index_is_whole_after_a_cut() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, in_transaction(7, 0), abort(7))
    log.roll()
    append(log, in_transaction(7, 1), abort(7), plain(), plain())
    log.roll()
    append(log, plain())
    log.flush()
    checkpoint(log)
    disk.crash()
    log = reopened(disk)
    overwrite(disk, log.segments[1].path(".txnindex"), b"x" * 40)
    truncate_to(log, 5)
    assert [each.last_offset for each in aborted_transactions(log, 0, 5)] == [1, 3]


# The front


def test_deleted_records_are_gone_and_their_segments_with_them() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 12)
    log.flush()
    bases = [segment.base_offset for segment in log.segments]
    assert delete_before(log, bases[2] + 1) == bases[2] + 1
    assert log.log_start_offset == bases[2] + 1
    assert [segment.base_offset for segment in log.segments] == bases[2:]
    assert not disk.exists(f"{log.directory}/{0:020d}.log")


def test_deleting_less_than_what_is_deleted_does_nothing() -> None:
    log = new_log(SimulatedDisk(), SMALL)
    fill(log, 10)
    delete_before(log, 5)
    assert delete_before(log, 3) == 5
    assert log.log_start_offset == 5


def test_deleting_beyond_the_end_is_refused() -> None:
    log = new_log(SimulatedDisk())
    append(log, plain())
    with pytest.raises(OffsetOutOfRange, match="ends at 1, before 2"):
        delete_before(log, 2)


def test_everything_may_be_deleted() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 5)
    assert delete_before(log, 5) == 5
    assert (log.log_start_offset, log.end_offset, log.size) == (5, 5, 0)
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert (log.log_start_offset, log.end_offset) == (5, 5)
    append(log, plain())
    assert offsets(log) == [5]


def test_records_may_be_deleted_before_they_are_flushed() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, *(plain() for _ in range(10)))
    delete_before(log, 7)
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert (log.log_start_offset, log.end_offset) == (7, 10)


def test_epochs_begin_with_the_first_record() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    for n in range(12):
        append(log, plain(value=b"v" * 200), leader_epoch=n // 3)
    log.flush()
    delete_before(log, 7)
    assert log.epochs.entries == ((2, 7), (3, 9))
    disk.crash(Keep.NOTHING)
    assert reopened(disk).epochs.entries == ((2, 7), (3, 9))


def producers_of_deleted_records(disk: SimulatedDisk) -> Log:
    log = new_log(disk)
    append(log, produced(7, 0), in_transaction(8, 0))
    log.roll()
    append(log, plain(), plain())
    return log


@pytest.mark.parametrize("fate", ["flushed", "not flushed", "the snapshot is lost", "checkpointed"])
def test_producers_of_deleted_records_are_remembered(fate: str) -> None:
    disk = SimulatedDisk()
    log = producers_of_deleted_records(disk)
    if fate != "not flushed":
        log.flush()
    if fate == "checkpointed":
        checkpoint(log)
    if fate == "the snapshot is lost":
        overwrite(disk, f"{log.directory}/{2:020d}.snapshot", b"")
    delete_before(log, 3)
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert sequences(log, 7) == [0]
    assert log.last_stable_offset(log.end_offset) == 1


def test_a_crash_while_deleting_forgets_no_producer_and_shows_no_deleted_record() -> None:
    found = at_any_crash(producers_of_deleted_records, lambda log: delete_before(log, 3))
    starts = {log.log_start_offset for log in found if log.end_offset}
    assert starts == {0, 3}
    for log in found:
        if log.end_offset >= 2:
            assert sequences(log, 7) == [0]
            assert list(log.producers.open_transactions) == [1]


def test_producers_of_a_log_emptied_in_the_middle_of_a_segment_are_remembered() -> None:
    """The segment that tells of them is removed by recovery once there is a next one."""
    for seed in range(60):
        disk = SimulatedDisk(seed)
        log = new_log(disk)
        append(log, produced(7, 0), plain())
        delete_before(log, 1)
        truncate_to(log, 1)
        assert (log.log_start_offset, log.end_offset, log.active.base_offset) == (1, 1, 0)
        log.roll()
        append(log, plain())
        disk.crash()
        assert sequences(reopened(disk), 7) == [0]


def test_files_of_deleted_records_that_a_crash_brings_back_are_removed() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 12)
    log.flush()
    delete_before(log, 10)
    disk.crash(Keep.NOTHING)  # the removals were not synced
    assert disk.exists(f"{log.directory}/{0:020d}.log")
    log = reopened(disk)
    assert (log.log_start_offset, len(log.segments)) == (10, 1)
    assert not disk.exists(f"{log.directory}/{0:020d}.log")


# All of it


@pytest.mark.parametrize("offset", [0, 3, 7, 20])
def test_a_reset_log_goes_on_at_its_new_offset(offset: int) -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    for n in range(7):
        append(log, produced(7, n), leader_epoch=n)
    checkpoint(log)
    reset_to(log, offset)
    assert (log.log_start_offset, log.end_offset, log.flushed_offset) == (offset, offset, offset)
    assert (log.epochs.entries, len(log.producers)) == ((), 0)
    append(log, produced(7, 50), leader_epoch=9)
    log.flush()
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert offsets(log) == [offset]
    assert log.epochs.entries == ((9, offset),)
    assert sequences(log, 7) == [50]


def test_a_cut_below_the_start_resets_the_log() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, *(plain() for _ in range(10)))
    delete_before(log, 8)
    assert truncate_to(log, 5) == 5
    assert (log.log_start_offset, log.end_offset) == (5, 5)
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert (log.log_start_offset, log.end_offset) == (5, 5)


def test_a_cut_in_the_batch_that_holds_the_start_resets_the_log() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(), plain(10))
    delete_before(log, 5)
    assert truncate_to(log, 7) == 1
    assert (log.log_start_offset, log.end_offset) == (1, 1)
    disk.crash(Keep.NOTHING)
    assert reopened(disk).end_offset == 1


@pytest.mark.parametrize("offset", [2, 30])
def test_a_crash_while_resetting_leaves_a_part_of_the_old_log_or_an_empty_one(offset: int) -> None:
    def prepare(disk: SimulatedDisk) -> Log:
        log = new_log(disk, SMALL)
        fill(log, 12)
        delete_before(log, 5)
        checkpoint(log)
        return log

    for log in at_any_crash(prepare, lambda log: reset_to(log, offset)):
        if log.log_start_offset == offset == log.end_offset:
            assert log.epochs.entries == ()
        else:
            assert log.log_start_offset >= 5
            assert [each for each in offsets(log) if each >= log.log_start_offset] == list(
                range(log.log_start_offset, log.end_offset)
            )


def test_a_start_that_was_never_noted_survives_a_crash_while_resetting() -> None:
    def prepare(disk: SimulatedDisk) -> Log:
        log = new_log(disk, SMALL)
        fill(log, 12)
        delete_before(log, log.segments[1].base_offset)
        log.flush()
        disk.sync_all()
        log.context.checkpoints.forget(log.partition)  # as when a deletion was cut off
        log.context.checkpoints.write()
        disk.restart()
        return reopened(disk)

    for log in at_any_crash(prepare, lambda log: reset_to(log, 50)):
        assert log.log_start_offset > 0


def test_what_is_left_of_a_log_that_was_being_reset_does_not_pass_for_damage() -> None:
    """Files far below the start that a crash brings back, and nothing else."""
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 12)
    checkpoint(log)
    log.flush()
    delete_before(log, 10)
    log.context.checkpoints.lower_recovery_point(log.partition, 0)
    for segment in log.segments:
        segment.remove()
    disk.crash(Keep.NOTHING)
    for base in [int(name[:20]) for name in disk.list_dir(log.directory) if name.endswith(".log")][1:]:
        disk.remove(f"{log.directory}/{base:020d}.log")
    log = reopened(disk)
    assert (log.log_start_offset, log.end_offset) == (10, 10)


def test_nothing_is_cut_on_a_directory_that_is_offline() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(), plain())
    log.context.health.fail(OSError("broken"))
    before = disk.mutations
    for act in (lambda: truncate_to(log, 1), lambda: delete_before(log, 1), lambda: reset_to(log, 9)):
        with pytest.raises(StorageError, match="offline"):
            act()
    assert disk.mutations == before


def test_a_cut_log_shares_its_directory_with_others() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    other = data_dir.create_log(PARTITION._replace(partition=1), SMALL)
    log = data_dir.create_log(PARTITION, SMALL)
    fill(other, 5)
    fill(log, 5)
    other.flush()
    data_dir.checkpoint()
    written = all_bytes(other)
    reset_to(log, 100)
    disk.crash(Keep.NOTHING)
    assert all_bytes(open_dir(disk).logs[other.partition]) == written
    assert disk.exists(f"{DATA}/{other.partition}")
