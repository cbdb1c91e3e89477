"""Opening a log on a disk without any room, after a crash: what is there is read, and the rest is written later."""

from collections.abc import Callable

import pytest

from barnabas.core.errors import StorageExhausted
from barnabas.core.records.control import MarkerType
from barnabas.storage.data_dir import DataDir
from barnabas.storage.lookup import aborted_transactions, get_record, offset_for_timestamp
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.storage.builders import (
    NOW_MS,
    PARTITION,
    SMALL,
    append,
    fill,
    in_transaction,
    marker,
    offsets,
    open_dir,
    overwrite,
)

FULL: dict[str, Callable[[SimulatedDisk], None]] = {
    "no room for bytes": lambda disk: disk.fail_write(count=None),
    "no room for files": lambda disk: disk.fail_create(count=None),
}
each_way = pytest.mark.parametrize("full", list(FULL))


def written(disk: SimulatedDisk) -> DataDir:
    """Several segments, all but the first beyond the recovery point, under two epochs, with aborted transactions."""
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    for sequence in range(4):
        fill(log, 2, leader_epoch=sequence // 2)
        append(log, in_transaction(7, sequence), leader_epoch=sequence // 2)
        append(log, marker(MarkerType.ABORT, 7), leader_epoch=sequence // 2)
        if sequence == 0:
            log.flush()
            data_dir.checkpoint()
    log.flush()
    assert len(log.segments) > 2
    return data_dir


@each_way
@pytest.mark.parametrize("keep", list(Keep))
def test_a_log_is_opened_and_read_without_room_and_complete_once_there_is_some(full: str, keep: Keep) -> None:
    disk = SimulatedDisk(3)
    log = written(disk).logs[PARTITION]
    end_offset, epochs = log.end_offset, log.epochs.entries
    aborted = aborted_transactions(log, 0, end_offset)
    for each in log.segments[1:]:  # as if they had never been written
        for suffix in (".index", ".timeindex", ".txnindex"):
            if disk.exists(each.path(suffix)):
                disk.remove(each.path(suffix))
    disk.sync_dir(log.directory)
    disk.crash(keep)
    FULL[full](disk)
    data_dir = open_dir(disk)
    log = data_dir.logs[PARTITION]
    assert (offsets(log), log.epochs.entries) == (list(range(end_offset)), epochs)
    assert aborted_transactions(log, 0, end_offset) == aborted
    # What only the files of the indexes would tell after the next crash does not count as flushed before it is there.
    assert log.flushed_offset < end_offset
    for _ in range(2):
        with pytest.raises(StorageExhausted):
            log.flush()
    disk.clear_faults()
    log.flush()
    data_dir.checkpoint()
    assert log.flushed_offset == end_offset
    disk.crash(Keep.NOTHING)
    found = open_dir(disk).logs[PARTITION]
    assert (offsets(found), found.epochs.entries) == (list(range(end_offset)), epochs)
    assert aborted_transactions(found, 0, end_offset) == aborted


@each_way
def test_a_crash_before_there_was_room_loses_nothing_either(full: str) -> None:
    disk = SimulatedDisk(3)
    log = written(disk).logs[PARTITION]
    end_offset, aborted = log.end_offset, aborted_transactions(log, 0, log.end_offset)
    for _ in range(3):
        disk.crash()
        FULL[full](disk)
        found = open_dir(disk).logs[PARTITION]
        assert aborted_transactions(found, 0, end_offset) == aborted
        assert offsets(found) == list(range(end_offset))
        disk.clear_faults()


@each_way
def test_indexes_that_cannot_be_written_are_made_in_memory(full: str) -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    fill(log, 20)
    log.flush()
    data_dir.checkpoint()
    data_dir.close()
    disk.restart()
    data_dir = open_dir(disk)
    log = data_dir.logs[PARTITION]
    for segment in log.segments[:-1]:
        disk.remove(segment.path(".index"))
        overwrite(disk, segment.path(".timeindex"), b"nonsense")
    FULL[full](disk)
    for offset in range(20):
        record = get_record(log, offset)
        assert record is not None
        assert record.offset == offset
        found = offset_for_timestamp(log, NOW_MS + offset)
        assert found is not None
        assert found.offset == offset
    assert data_dir.health.offline_reason is None
