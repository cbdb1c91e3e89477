"""A process that is started again after a failed sync, with the machine still running: the page cache shows what the
disk never got, and no later sync says so. Nothing may count as durable because it can be read.
"""

from collections.abc import Callable

import pytest

from barnabas.core.errors import StorageError
from barnabas.core.metadata.names import METADATA_PARTITION
from barnabas.core.raft.output import QuorumState
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey
from barnabas.storage.disk import SyncFailed
from barnabas.storage.metadata_snapshot import SnapshotId
from barnabas.storage.quorum_log import QuorumLog
from barnabas.storage.truncate import delete_before, truncate_to
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.storage import test_quorum_log as quorum
from tests.unit.storage.builders import (
    DATA,
    PARTITION,
    SMALL,
    all_bytes,
    append,
    checkpoint,
    fill,
    new_log,
    offsets,
    open_dir,
    produced,
    reopened,
)

MAX_SYNCS = 39  # as many as `work` does


def is_log(path: str) -> bool:
    return path.endswith(".log")


def fail_sync_number(disk: SimulatedDisk, number: int) -> None:
    """Have one sync fail, after so many that succeed."""
    seen = [0]

    def is_due(_path: str) -> bool:
        seen[0] += 1
        return seen[0] == number + 1

    disk.fail_sync(is_due)


def test_what_is_acknowledged_after_a_failed_sync_and_a_restart_outlives_a_power_cut() -> None:
    disk = SimulatedDisk(1)
    log = new_log(disk)
    fill(log, 2)
    disk.fail_sync(is_log)
    with pytest.raises(StorageError):
        log.flush()
    disk.restart()
    log = reopened(disk)
    found = log.end_offset
    assert (found, log.flushed_offset) == (2, 2), "what can be read counts as durable"
    fill(log, 1)
    log.flush()
    written = all_bytes(log)

    disk.crash(Keep.NOTHING)

    assert all_bytes(reopened(disk)) == written


def test_what_recovery_counts_as_durable_is_on_disk() -> None:
    disk = SimulatedDisk(1)
    log = new_log(disk)
    fill(log, 9)
    closed = log.segments[1].log_path
    disk.fail_sync(lambda path: path == closed)
    with pytest.raises(StorageError):
        log.flush()
    disk.restart()
    log = reopened(disk)
    assert len(log.segments) > 2
    written, flushed = all_bytes(log), log.flushed_offset

    disk.crash(Keep.NOTHING)

    log = reopened(disk)
    assert (all_bytes(log), log.end_offset) == (written, flushed)


def test_a_sync_that_fails_again_while_a_log_is_opened_is_not_passed_over() -> None:
    disk = SimulatedDisk(1)
    log = new_log(disk)
    fill(log, 2)
    disk.fail_sync(is_log, count=2)
    with pytest.raises(StorageError):
        log.flush()
    disk.restart()

    with pytest.raises(StorageError):
        reopened(disk)


def work(disk: SimulatedDisk, *, life: int, is_acknowledged: Callable[[list[int]], None]) -> None:
    """Open the log, or make it, and do to it all that syncs, with a report of what is durable after each step."""
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    is_acknowledged(offsets(log))
    for number in range(4):
        append(log, produced(7, number, epoch=life), leader_epoch=log.epochs.latest + 1)
        log.flush()
        is_acknowledged(offsets(log))
    data_dir.checkpoint()
    fill(log, 6, leader_epoch=log.epochs.latest + 1)
    log.flush()
    is_acknowledged(offsets(log))
    cut_at = log.end_offset - 1
    is_acknowledged(offsets(log)[:-1])
    truncate_to(log, cut_at)
    fill(log, 1, leader_epoch=log.epochs.latest + 1)
    log.flush()
    is_acknowledged(offsets(log))


@pytest.mark.parametrize("number", range(MAX_SYNCS))
def test_whichever_sync_fails_nothing_acknowledged_before_or_after_is_missing(number: int) -> None:
    disk = SimulatedDisk(number)
    durable: list[int] = []

    def note(found: list[int]) -> None:
        durable[:] = found

    fail_sync_number(disk, number)
    try:
        work(disk, life=0, is_acknowledged=note)
    except (StorageError, SyncFailed):
        disk.restart()
        before = list(durable)
        work(disk, life=1, is_acknowledged=note)
        assert durable[: len(before)] == before
    epochs = reopened(disk).epochs.entries
    disk.crash(Keep.NOTHING)

    log = reopened(disk)

    assert offsets(log) == durable
    assert log.epochs.entries == epochs


def test_the_producers_of_deleted_records_outlive_a_failed_sync_and_a_power_cut() -> None:
    disk = SimulatedDisk(1)
    log = new_log(disk)
    append(log, produced(7, 0))
    log.flush()
    checkpoint(log)
    log.roll()
    disk.fail_sync(lambda path: path.endswith(".snapshot"))
    with pytest.raises(StorageError):
        log.flush()
    disk.restart()
    log = reopened(disk)
    delete_before(log, 1)

    disk.crash(Keep.NOTHING)

    assert [each.producer_id for each in reopened(disk).producers] == [7]


def test_a_log_that_was_idle_is_not_written_again() -> None:
    disk = SimulatedDisk(1)
    data_dir = open_dir(disk)
    fill(data_dir.create_log(PARTITION, SMALL), 9)
    data_dir.logs[PARTITION].flush()
    data_dir.checkpoint()
    disk.restart()
    disk.bytes_written.clear()

    reopened(disk)

    assert not any(is_log(path) for path in disk.bytes_written)


def test_only_what_lies_above_the_recovery_point_is_written_again() -> None:
    disk = SimulatedDisk(1)
    log = new_log(disk)
    fill(log, 2)
    log.flush()
    checkpoint(log)
    size = log.size
    fill(log, 1)
    log.flush()
    added = log.size - size
    disk.restart()
    disk.bytes_written.clear()

    reopened(disk)

    assert sum(count for path, count in disk.bytes_written.items() if is_log(path)) == added


def test_a_clean_start_writes_nothing_again() -> None:
    disk = SimulatedDisk(1)
    data_dir = open_dir(disk)
    fill(data_dir.create_log(PARTITION, SMALL), 9)
    data_dir.close()
    disk.restart()
    disk.bytes_written.clear()
    disk.syncs.clear()

    reopened(disk)

    assert not any(disk.bytes_written.values())
    assert set(disk.syncs) <= {DATA, "/"}


# The metadata log


def filled(disk: SimulatedDisk) -> QuorumLog:
    """A metadata log that was at rest: opening it again makes no file."""
    log, _ = quorum.open_log(disk)
    quorum.fill(log)
    checkpoint(log._log)
    return log


def test_commits_after_a_failed_sync_of_the_metadata_log_and_a_restart_outlive_a_power_cut() -> None:
    disk = SimulatedDisk(1)
    log, _ = quorum.open_log(disk)
    disk.fail_sync(is_log)
    with pytest.raises(SyncFailed):
        quorum.fill(log, commits=20)
    disk.restart()
    log, _ = quorum.open_log(disk)
    assert log.flushed_offset == 21
    quorum.fill(log, epoch=2)

    disk.crash(Keep.NOTHING)

    log, loaded = quorum.open_log(disk)
    assert log.end_offset == 25
    assert loaded.image.next_producer_id == 25


def test_a_vote_that_is_read_after_a_failed_sync_and_a_restart_is_not_forgotten_in_a_power_cut() -> None:
    disk = SimulatedDisk(1)
    log = filled(disk)
    log.write_state(QuorumState(1, None, quorum.ONE))
    disk.fail_sync(lambda path: path.endswith(str(METADATA_PARTITION)))
    with pytest.raises(SyncFailed):
        log.write_state(QuorumState(2, None, ReplicaKey(2)))
    disk.restart()
    log, loaded = quorum.open_log(disk)
    found = log.restored(loaded.voters).quorum

    disk.crash(Keep.NOTHING)

    log, loaded = quorum.open_log(disk)
    assert log.restored(loaded.voters).quorum == found == QuorumState(2, None, ReplicaKey(2))


def test_a_snapshot_that_is_read_after_a_failed_sync_and_a_restart_may_replace_the_log() -> None:
    disk = SimulatedDisk(1)
    log = filled(disk)
    disk.fail_sync(lambda path: path.endswith(str(METADATA_PARTITION)))
    with pytest.raises(SyncFailed):
        log.write_snapshot(SnapshotId(4, 1), [], NO_VOTERS)
    disk.restart()
    log, _ = quorum.open_log(disk)
    log.forget_before(SnapshotId(4, 1))
    assert log.start_offset == 4

    disk.crash(Keep.NOTHING)

    _, loaded = quorum.open_log(disk)
    assert loaded.snapshot == SnapshotId(4, 1)
