"""Opening a log: at once after a clean shutdown, at the last good batch after a crash, and never past damage."""

import contextlib
from collections.abc import Callable

import pytest

from barnabas.core.errors import CorruptLog, OutOfOrderSequence
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.recovery_report import RecoveryReport
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk
from tests.unit.storage.builders import (
    DATA,
    LOG_DIRECTORY,
    NOW_MS,
    PARTITION,
    SMALL,
    abort,
    all_bytes,
    append,
    checkpoint,
    commit,
    content,
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

RECOVERY_POINTS = f"{DATA}/recovery-point-offset-checkpoint"
EPOCHS = f"{LOG_DIRECTORY}/leader-epoch-checkpoint"


def segment_path(base: int, suffix: str = ".log") -> str:
    return f"{LOG_DIRECTORY}/{base:020d}{suffix}"


def recovered(disk: SimulatedDisk, config: LogConfig = SMALL) -> tuple[Log, RecoveryReport]:
    data_dir = DataDir(disk, DATA)
    (report,) = data_dir.open_logs(lambda _partition: config)
    return data_dir.logs[PARTITION], report


# Torn and damaged


def test_a_torn_tail_is_cut_and_reported() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(2), plain(3))
    log.flush()
    path, size = log.active.log_path, log.active.size
    disk.open(path).write(size, plain(base_offset=5)[:50])
    disk.restart()
    log, report = recovered(disk)
    assert (log.end_offset, log.size) == (5, size)
    assert (report.was_clean, report.checked_bytes, report.cut_bytes) == (False, size, 50)
    assert any("cut 50 bytes of an interrupted write" in note for note in report.notes)
    assert len(content(disk, path)) == size


def test_zeros_at_the_end_of_the_file_are_cut() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(2))
    log.flush()
    disk.open(log.active.log_path).write(log.active.size, bytes(5000))
    disk.restart()
    log, report = recovered(disk)
    assert (log.end_offset, report.cut_bytes) == (2, 5000)


def test_everything_after_a_torn_batch_is_cut_segments_included() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 12)
    bases = [segment.base_offset for segment in log.segments]
    disk.open(segment_path(bases[1])).truncate(300)
    disk.restart()
    log, report = recovered(disk)
    assert log.end_offset == bases[1] + 1
    assert report.cut_segments == len(bases) - 2
    assert [segment.base_offset for segment in log.segments] == bases[:2]
    assert not disk.exists(segment_path(bases[2]))


def test_a_segment_after_a_gap_is_cut() -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 12)
    bases = [segment.base_offset for segment in log.segments]
    disk.remove(segment_path(bases[2]))
    disk.restart()
    log, _ = recovered(disk)
    assert log.end_offset == bases[2]


@pytest.mark.parametrize("where", ["below the recovery point", "beyond the recovery point"])
def test_damage_in_synced_records_is_reported_and_nothing_is_cut(where: str) -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, *(plain(value=b"v" * 100) for _ in range(6)))
    log.flush()
    if where == "below the recovery point":
        checkpoint(log)
    path, size = log.active.log_path, log.active.size
    disk.flip_bit(path, size // 2 + 80, 4)
    disk.crash()
    data_dir = open_dir(disk)
    if where == "beyond the recovery point":
        assert PARTITION in data_dir.unreadable
        assert path in str(data_dir.unreadable[PARTITION])
    else:
        with pytest.raises(CorruptLog):
            list(data_dir.logs[PARTITION].active.batches())
    assert len(content(disk, path)) == size


@pytest.mark.parametrize("byte", range(8))
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_an_offset_that_changed_is_reported(byte: int, is_checkpointed: bool) -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, *(plain() for _ in range(6)))
    log.flush()
    if is_checkpointed:
        checkpoint(log)
    disk.flip_bit(log.active.log_path, 3 * len(plain()) + byte, 5)
    disk.crash()
    with pytest.raises(CorruptLog):
        list(reopened(disk).active.batches())


def test_a_log_shorter_than_its_recovery_point_is_reported() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(), plain())
    log.flush()
    checkpoint(log)
    size = log.active.size
    disk.open(log.active.log_path).truncate(size // 2)
    disk.restart()
    with pytest.raises(CorruptLog, match="ends before offset 2, up to which it was synced"):
        reopened(disk)


def test_a_log_whose_files_are_gone_is_reported() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain())
    log.flush()
    checkpoint(log)
    disk.remove(log.active.log_path)
    disk.restart()
    with pytest.raises(CorruptLog, match="has no segments, but was synced up to offset 1"):
        reopened(disk)


def test_a_crash_during_recovery_does_no_harm() -> None:
    for step in range(40):
        disk = SimulatedDisk(step)
        log = new_log(disk, SMALL)
        fill(log, 8)
        append(log, in_transaction(7, 0), abort(7))
        log.flush()
        written = all_bytes(log)
        fill(log, 4)
        disk.crash()
        disk.crash_after(step)
        with contextlib.suppress(SimulatedCrash):
            reopened(disk)
        disk.crash()
        log = reopened(disk)
        assert all_bytes(log).startswith(written)
        assert log.producers.get(7) is not None


# What is not looked at


def test_what_is_below_the_recovery_point_is_not_read_again() -> None:
    disk = SimulatedDisk()
    config = LogConfig(segment_bytes=100_000)
    log = new_log(disk, config)
    fill(log, 600, value=b"v" * 1000)
    log.flush()
    checkpoint(log)
    fill(log, 5, value=b"v" * 1000)
    log.flush()
    bases = [segment.base_offset for segment in log.segments]
    size = log.active.size
    assert len(bases) > 5
    disk.crash()
    disk.bytes_read.clear()
    log, report = recovered(disk, config)
    assert log.end_offset == 605
    assert [disk.bytes_read[segment_path(base)] for base in bases[:-1]] == [0] * (len(bases) - 1)
    assert report.checked_bytes < 6 * 1100 + 100
    # Its headers for the recovery point, for producers and for the indexes, which are small batches read whole.
    assert disk.bytes_read[segment_path(bases[-1])] <= 3 * size + 20_000


def test_after_a_clean_shutdown_only_the_ends_of_the_last_segment_are_read() -> None:
    disk = SimulatedDisk()
    config = LogConfig(segment_bytes=500_000)
    data_dir = open_dir(disk, config)
    fill(data_dir.create_log(PARTITION, config), 600, value=b"v" * 1000)
    data_dir.close()
    disk.crash()
    disk.bytes_read.clear()
    log, report = recovered(disk, config)
    assert (report.was_clean, report.checked_bytes, log.end_offset) == (True, 0, 600)
    assert sum(count for path, count in disk.bytes_read.items() if path.endswith(".log")) < 20_000


def test_producers_are_read_from_the_newest_snapshot_and_what_follows_it() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, *(produced(7, n) for n in range(4)))
    log.roll()
    append(log, produced(7, 4), produced(8, 0), in_transaction(9, 0))
    log.flush()
    expected = list(log.producers)
    disk.crash(Keep.NOTHING)
    assert list(reopened(disk).producers) == expected


@pytest.mark.parametrize("end", [commit, abort])
@pytest.mark.parametrize("has_snapshot", [True, False])
def test_what_a_marker_has_ended_is_not_repeated_after_a_crash(
    end: Callable[[int], bytearray], has_snapshot: bool
) -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, in_transaction(7, 0), end(7), produced(8, 0), in_transaction(9, 0), end(9), in_transaction(9, 1))
    if has_snapshot:
        log.roll()
    log.flush()
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert (log.producer_files.newest_offset(at_most=99) == 6) == has_snapshot
    for producer_id in (7, 9):
        with pytest.raises(OutOfOrderSequence):
            append(log, in_transaction(producer_id, 0))
    for batch in (produced(8, 0), in_transaction(9, 1)):
        assert log.append(batch, leader_epoch=0, now_ms=NOW_MS).first_offset < 6
    append(log, in_transaction(7, 1))
    assert log.end_offset == 7


# Index files


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_index_files_that_a_crash_took_are_made_again(suffix: str, is_checkpointed: bool) -> None:
    disk = SimulatedDisk()
    log = new_log(disk, SMALL)
    fill(log, 12)
    log.flush()
    if is_checkpointed:
        checkpoint(log)
    disk.crash()
    for name in disk.list_dir(LOG_DIRECTORY):
        if name.endswith(suffix):
            disk.remove(f"{LOG_DIRECTORY}/{name}")
    log = reopened(disk)
    for offset in range(12):
        found = log.read(offset, max_bytes=1)
        assert found is not None
        assert int.from_bytes(found.read()[:8]) == offset


def test_the_durable_entries_of_a_torn_transaction_index_are_kept() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, in_transaction(7, 0), abort(7))
    log.flush()
    checkpoint(log)
    path = log.active.path(".txnindex")
    disk.open(path).write(34, b"\x00" * 20)  # of an abort that was cut off
    disk.restart()
    log = reopened(disk)
    assert log.active.txn_index.aborted() == [(7, 0, 1, 2)]
    append(log, in_transaction(7, 1), abort(7))
    assert len(content(disk, path)) == 68


def test_aborts_that_recovery_finds_again_are_durable() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, in_transaction(7, 0), abort(7))
    log.flush()
    disk.remove(log.active.path(".txnindex"))
    disk.restart()
    log = reopened(disk)
    checkpoint(log)
    disk.crash(Keep.NOTHING)
    assert reopened(disk).active.txn_index.aborted() == [(7, 0, 1, 2)]


# Epochs


def test_epochs_found_by_recovery_are_not_lost_with_the_next_crash() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(), leader_epoch=1)
    append(log, plain(), leader_epoch=4)
    log.flush()
    disk.crash(Keep.NOTHING)  # no epoch was ever written
    log = reopened(disk)
    assert log.epochs.entries == ((1, 0), (4, 1))
    checkpoint(log)  # the recovery point passes them
    disk.crash(Keep.NOTHING)
    assert reopened(disk).epochs.entries == ((1, 0), (4, 1))


def test_epochs_of_records_that_a_crash_took_are_forgotten_for_good() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(), leader_epoch=1)
    log.flush()
    append(log, plain(), plain(), leader_epoch=5)
    checkpoint(log)  # writes all epochs, and a recovery point of 1
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert (log.end_offset, log.epochs.entries) == (1, ((1, 0),))
    append(log, plain(), plain(), leader_epoch=1)
    log.flush()
    checkpoint(log)
    disk.crash(Keep.NOTHING)
    assert reopened(disk).epochs.entries == ((1, 0),)


def test_an_epoch_that_wrote_nothing_is_forgotten_with_a_restart() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain(), leader_epoch=1)
    log.note_leader_epoch(7)
    checkpoint(log)
    disk.restart()
    assert reopened(disk).epochs.entries == ((1, 0),)


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_damaged_epoch_checkpoint_is_made_anew_from_the_log(is_clean: bool) -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    for epoch in (1, 4):
        fill(log, 6, leader_epoch=epoch)
    log.flush()
    data_dir.checkpoint()
    if is_clean:
        data_dir.close()
    overwrite(disk, EPOCHS, b"nonsense")
    disk.restart()
    for _ in range(2):
        assert reopened(disk).epochs.entries == ((1, 0), (4, 6))
        disk.crash(Keep.NOTHING)


# Leftovers


def test_unfinished_files_are_removed() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, plain())
    log.flush()
    for name in (f"{0:020d}.log.cleaned", "leader-epoch-checkpoint.tmp"):
        disk.open(f"{LOG_DIRECTORY}/{name}", create=True)
    disk.open(segment_path(77, ".index"), create=True)
    disk.restart()
    log, report = recovered(disk)
    assert not [name for name in disk.list_dir(LOG_DIRECTORY) if name.endswith((".cleaned", ".tmp")) or "77" in name]
    assert len(report.notes) >= 3


def test_snapshots_beyond_the_end_are_removed() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, produced(7, 0))
    log.flush()
    append(log, produced(7, 1), produced(8, 0))
    log.producer_files.write(3, log.producers).sync()
    disk.sync_dir(LOG_DIRECTORY)
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert log.end_offset == 1
    assert log.producer_files.newest_offset(at_most=99) is None
    append(log, plain(), plain(), plain())
    log.flush()
    checkpoint(log)
    disk.crash(Keep.NOTHING)
    assert [producer.producer_id for producer in reopened(disk).producers] == [7]


def test_what_is_left_of_an_earlier_life_does_not_pass_for_the_new_one() -> None:
    disk = SimulatedDisk()
    log = new_log(disk)
    append(log, *(produced(7, n) for n in range(3)), leader_epoch=9)
    log.roll()
    log.flush()
    log.write_epochs()
    for segment in log.segments:
        segment.remove()
    disk.sync_dir(LOG_DIRECTORY)  # the snapshot at 3 and the epochs are still there
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert (log.end_offset, log.epochs.entries) == (0, ())
    append(log, plain(), plain(), plain(), plain())
    log.flush()
    checkpoint(log)
    disk.crash(Keep.NOTHING)
    log = reopened(disk)
    assert (len(log.producers), log.epochs.entries) == (0, ((0, 0),))


def test_a_clean_shutdown_that_does_not_fit_is_checked_like_a_crash() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    append(data_dir.create_log(PARTITION, SMALL), plain(), produced(7, 0))
    data_dir.close()
    disk.open(segment_path(0)).write(disk.file_size(segment_path(0)), plain(base_offset=2))
    disk.restart()
    log, report = recovered(disk)
    assert not report.was_clean
    assert offsets(log) == [0, 1, 2]


def test_transactions_are_open_again_after_a_clean_shutdown() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    append(log, in_transaction(7, 0), in_transaction(8, 0), commit(8))
    data_dir.close()
    disk.crash()
    log, report = recovered(disk)
    assert report.was_clean
    assert log.last_stable_offset(3) == 0
