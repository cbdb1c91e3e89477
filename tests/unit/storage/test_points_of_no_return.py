"""Whatever cannot be opened or renamed, whenever: the work is refused, can be done again, and nothing is lost."""

import errno
from collections.abc import Callable

import pytest

from barnabas.core.errors import StorageExhausted
from barnabas.core.records.control import MarkerType
from barnabas.storage.compaction import apply
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.lookup import aborted_transactions
from barnabas.storage.truncate import delete_before, truncate_to
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.storage.builders import PARTITION, SMALL, append, fill, in_transaction, marker, offsets, open_dir, plain
from tests.unit.storage.compaction.support import CompactedLog
from tests.unit.storage.compaction.test_swap import log_with_segments


def refuse(disk: SimulatedDisk, number: int) -> Callable[[], bool]:
    """Have one open fail, the one of that number from now on; returns what says whether it came to that."""
    left = number

    def is_due(_path: str) -> bool:
        nonlocal left
        left -= 1
        return left == 0

    disk.fail_open(is_due, error=errno.ENOMEM)
    return lambda: left <= 0


def newest(log: CompactedLog) -> dict[object, object]:
    return {key: value for _, key, value in log.values()}


@pytest.mark.parametrize("keep", list(Keep))
def test_whatever_a_swap_of_compacted_segments_cannot_open_it_is_put_off_and_the_log_goes_on(keep: Keep) -> None:
    number, is_struck = 0, True
    while is_struck:
        number += 1
        log = log_with_segments(5)
        before, result = newest(log), log.run()
        struck = refuse(log.disk, number)
        try:
            apply(log.log, result)
        except StorageExhausted:
            assert not [name for name in log.names() if name.endswith((".cleaned", ".swap"))]
        is_struck = struck()
        log.disk.clear_faults()
        assert log.log.context.health.offline_reason is None
        log.put(("last", "one"))
        log.log.flush()
        assert newest(log) == before | {"last": "one"}
        log.disk.crash(keep)
        log.open()
        assert newest(log) == before | {"last": "one"}
    assert number > 3


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("keep", list(Keep))
def test_compacted_segments_of_which_one_cannot_be_renamed_are_given_up_durably(number: int, keep: Keep) -> None:
    log = log_with_segments(30, unique=4, segment_bytes=1024)
    before, result = newest(log), log.run()
    assert len(result.outputs) > 2
    renamed: list[str] = []

    def is_due(path: str) -> bool:
        renamed.extend([path] if path.endswith(".swap") else [])
        return len(renamed) == number

    log.disk.fail_rename(is_due)
    with pytest.raises(StorageExhausted):
        apply(log.log, result)
    assert log.log.context.health.offline_reason is None
    # What comes in their place must not be replaced by them after a crash.
    truncate_to(log.log, 15)
    log.put(("k0-0", "newer"))
    log.log.flush()
    found = newest(log)
    assert found != before
    log.disk.crash(keep)
    log.open()
    assert newest(log) == found


def test_a_compaction_that_cannot_sync_its_directory_leaves_no_file_behind() -> None:
    log = log_with_segments(5)
    names = log.names()
    log.disk.fail_open(lambda path: path == log.log.directory, error=errno.ENOMEM)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        log.run()
    assert log.names() == names


def with_transactions(disk: SimulatedDisk) -> tuple[DataDir, Log]:
    """Segments with aborted transactions and snapshots of producers, in part beyond offset 14."""
    data_dir = open_dir(disk)
    log = data_dir.create_log(PARTITION, SMALL)
    for first in (0, 4, 8):
        fill(log, 1)
        append(log, in_transaction(7, first // 4))
        append(log, marker(MarkerType.ABORT, 7))
        append(log, plain(3, value=b"x" * 50))
        log.roll()
    fill(log, 2)
    log.flush()
    data_dir.checkpoint()
    return data_dir, log


@pytest.mark.parametrize("offset", [3, 8, 14])
def test_whatever_a_truncation_cannot_open_it_leaves_no_trace_and_can_be_done_again(offset: int) -> None:
    number, is_struck = 0, True
    while is_struck:
        number += 1
        disk = SimulatedDisk(number)
        data_dir, log = with_transactions(disk)
        before = (log.end_offset, offsets(log), aborted_transactions(log, 0, log.end_offset))
        struck = refuse(disk, number)
        try:
            end_offset = truncate_to(log, offset)
        except StorageExhausted:
            disk.clear_faults()
            assert (log.end_offset, offsets(log), aborted_transactions(log, 0, log.end_offset)) == before
            end_offset = truncate_to(log, offset)
        is_struck = struck()
        disk.clear_faults()
        assert data_dir.health.offline_reason is None
        producers = log.producers.first_unstable_offset(log.end_offset)
        aborted = aborted_transactions(log, 0, end_offset)
        assert all(each.last_offset < end_offset for each in aborted)
        disk.crash()
        found = open_dir(disk)
        assert not found.unreadable
        assert offsets(found.logs[PARTITION]) == list(range(end_offset))
        assert aborted_transactions(found.logs[PARTITION], 0, end_offset) == aborted
        assert found.logs[PARTITION].producers.first_unstable_offset(end_offset) == producers
    assert number > 5


WORK: dict[str, Callable[[DataDir, Log], object]] = {
    "a roll": lambda _data_dir, log: log.roll(),
    "a deletion from the front": lambda _data_dir, log: delete_before(log, 8),
    "a checkpoint": lambda data_dir, _log: data_dir.checkpoint(),
}


@pytest.mark.parametrize("work", list(WORK))
def test_whatever_cannot_be_opened_for_work_on_a_log_it_passes(work: str) -> None:
    number, is_struck = 0, True
    while is_struck:
        number += 1
        disk = SimulatedDisk(number)
        data_dir, log = with_transactions(disk)
        append(log, plain())
        struck = refuse(disk, number)
        for _ in range(2):
            try:
                with data_dir.health.guarded():
                    WORK[work](data_dir, log)
            except StorageExhausted:
                disk.clear_faults()
        is_struck = struck()
        disk.clear_faults()
        assert data_dir.health.offline_reason is None
        log.flush()
        start, end = log.log_start_offset, log.end_offset
        disk.crash()
        found = open_dir(disk)
        assert not found.unreadable
        assert found.logs[PARTITION].log_start_offset == start
        assert [each for each in offsets(found.logs[PARTITION]) if each >= start] == list(range(start, end))


def test_an_append_whose_flush_has_to_wait_is_not_refused() -> None:
    disk = SimulatedDisk()
    data_dir = DataDir(disk, "/data", max_open_files=2)
    others = [data_dir.create_log(PARTITION._replace(partition=number), LogConfig()) for number in (1, 2)]
    for other in others:
        append(other, plain())
    log = data_dir.create_log(PARTITION, LogConfig())
    disk.fail_open(lambda path: path == log.directory, error=errno.ENOMEM)
    append(log, plain())
    assert (log.end_offset, log.flushed_offset) == (1, 0)
    log.flush()
    assert log.flushed_offset == 1
