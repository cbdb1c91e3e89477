"""A log on a disk that is full, and in a process that can open no more files: refused, no trace, and it passes."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.core.errors import StorageError, StorageExhausted
from barnabas.core.model import TopicPartition
from barnabas.core.records.control import MarkerType
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.log import Log
from barnabas.storage.lookup import aborted_transactions
from barnabas.testing.disk import Keep, SimulatedDisk
from tests.unit.storage.builders import (
    DATA,
    PARTITION,
    SMALL,
    append,
    fill,
    in_transaction,
    marker,
    offsets,
    open_dir,
    plain,
)

OTHER = TopicPartition("other", 3)


def is_log(path: str) -> bool:
    return path.endswith(".log")


def opened(disk: SimulatedDisk, config: LogConfig = SMALL) -> Log:
    return open_dir(disk, config).create_log(PARTITION, config)


@pytest.mark.parametrize("room", [0, 1, 30, 61, 70, 600, 2000])
@pytest.mark.parametrize("keep", list(Keep))
def test_a_write_that_finds_no_room_leaves_no_trace_and_the_next_is_taken(room: int, keep: Keep) -> None:
    for seed in range(5):
        disk = SimulatedDisk(seed)
        log = opened(disk, LogConfig())
        append(log, plain(3))
        log.flush()
        disk.fail_write(is_log, after_bytes=room)
        with pytest.raises(StorageExhausted, match="is full"):
            append(log, plain(5, value=b"x" * 500))
        assert (log.end_offset, log.context.health.is_full) == (3, True)
        append(log, plain(2, value=b"short"))
        if seed % 2:
            log.flush()
        disk.crash(keep)
        found = open_dir(disk)
        assert not found.unreadable
        end_offset = found.logs[PARTITION].end_offset
        assert end_offset in ((5,) if seed % 2 else (3, 5))
        assert offsets(found.logs[PARTITION]) == list(range(end_offset))


def test_what_a_failed_write_left_must_be_gone_durably_or_nothing_is_written_any_more() -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    append(log, plain())
    log.flush()
    disk.fail_write(is_log, after_bytes=30)
    disk.fail_sync(is_log)
    with pytest.raises(StorageError, match="taken offline"):
        append(log, plain())
    assert offsets(log) == [0]  # which can be read on


FAULTS: dict[str, Callable[[SimulatedDisk], None]] = {
    "no room for the snapshot": lambda disk: disk.fail_write(lambda path: path.endswith(".snapshot")),
    "no room for the index": lambda disk: disk.fail_write(lambda path: path.endswith(".index")),
    "no room for the time index": lambda disk: disk.fail_write(lambda path: path.endswith(".timeindex")),
    "the snapshot cannot be opened": lambda disk: disk.fail_open(lambda path: path.endswith(".snapshot")),
    "the index cannot be opened": lambda disk: disk.fail_open(lambda path: path.endswith(".index")),
    "the next segment cannot be opened": lambda disk: disk.fail_open(is_log),
    "no room for the record": lambda disk: disk.fail_write(is_log, after_bytes=9),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_segment_that_cannot_be_closed_for_want_of_room_stays_active_until_it_can(fault: str) -> None:
    for seed in range(6):
        disk = SimulatedDisk(seed)
        log = opened(disk)
        fill(log, 3)
        while log.active.size + len(plain(1, value=b"x" * 300)) <= SMALL.segment_bytes:
            append(log, plain())
        log.flush()
        end_offset = log.end_offset
        FAULTS[fault](disk)
        with pytest.raises(StorageExhausted):
            append(log, plain(1, value=b"x" * 300))
        assert log.end_offset == end_offset
        if seed % 2:
            append(log, plain(1, value=b""))  # which the segment has room for, or not
            end_offset += 1
        append(log, plain(1, value=b"x" * 300))
        log.flush()
        log.context.checkpoints.set_recovery_point(PARTITION, log.flushed_offset)
        log.context.checkpoints.write()
        disk.crash()
        found = open_dir(disk)
        assert not found.unreadable
        assert offsets(found.logs[PARTITION]) == list(range(end_offset + 1))


def test_a_file_of_the_next_segment_that_is_left_of_a_failure_is_removed() -> None:
    disk = SimulatedDisk()
    log = opened(disk)
    fill(log, 2)
    # The file is made, and then cannot be opened a second time.
    seen: list[str] = []

    def second_time(path: str) -> bool:
        seen.append(path)
        return is_log(path) and seen.count(path) == 2

    disk.fail_open(second_time)
    with pytest.raises(OSError, match="Too many open files"):
        log.roll()
    assert [name for name in disk.list_dir(log.directory) if name.endswith(".log")] == ["00000000000000000000.log"]


@pytest.mark.parametrize("policy", list(FlushPolicy))
def test_a_transaction_whose_abort_finds_no_room_in_the_index_is_aborted_all_the_same(policy: FlushPolicy) -> None:
    disk = SimulatedDisk()
    log = opened(disk, LogConfig(flush_policy=policy))
    append(log, in_transaction(7, 0), in_transaction(7, 1))
    log.flush()
    disk.fail_write(lambda path: path.endswith(".txnindex"), count=2)
    append(log, marker(MarkerType.ABORT, 7))
    assert [each.producer_id for each in aborted_transactions(log, 0, log.end_offset)] == [7]
    with pytest.raises(StorageExhausted):
        log.flush()  # or a recovery would begin behind what only the index tells
    assert log.flushed_offset == 2
    log.flush()
    assert log.flushed_offset == 3
    log.context.checkpoints.set_recovery_point(PARTITION, 3)
    log.context.checkpoints.write()
    disk.crash(Keep.NOTHING)
    found = open_dir(disk).logs[PARTITION]
    assert [each.producer_id for each in aborted_transactions(found, 0, 3)] == [7]


@pytest.mark.parametrize("strikes", range(1, 4))
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOSPC])
def test_a_log_that_cannot_be_made_is_made_later_and_is_durable_then(strikes: int, code: int) -> None:
    for seed in range(4):
        disk = SimulatedDisk(seed)
        data_dir = open_dir(disk)
        append(data_dir.create_log(OTHER, SMALL), plain())
        left = strikes

        def last(path: str) -> bool:
            nonlocal left
            left -= path.startswith(f"{DATA}/{PARTITION}")
            return left == 0

        disk.fail_open(last, error=code)
        with pytest.raises(StorageExhausted):
            append(data_dir.create_log(PARTITION, SMALL), plain())
        append(data_dir.logs[OTHER], plain())
        log = data_dir.create_log(PARTITION, SMALL)
        append(log, plain())
        log.flush()
        disk.crash(Keep.NOTHING)
        assert offsets(open_dir(disk).logs[PARTITION]) == [0]


def test_only_what_was_synced_is_read_once_a_sync_has_failed() -> None:
    disk = SimulatedDisk()
    log = opened(disk, LogConfig(flush_policy=FlushPolicy.OS))
    append(log, plain())
    log.flush()
    append(log, plain())
    assert offsets_read(log) == [0, 1]
    disk.fail_sync(is_log)
    with pytest.raises(StorageError):
        log.flush()
    assert offsets_read(log) == [0]


def offsets_read(log: Log) -> list[Any]:
    found, offset = [], 0
    while (piece := log.read(offset, max_bytes=1)) is not None:
        found.append(offset)
        offset += 1
        assert piece.size
    return found
