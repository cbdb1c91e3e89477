"""Thousands of logs on few open files."""

from barnabas.core.model import TopicPartition
from barnabas.storage.config import LogConfig
from barnabas.testing.disk import SimulatedDisk
from tests.unit.storage.builders import NOW_MS, open_dir, plain

LOGS = 3000
MAX_OPEN_FILES = 64
CONFIG = LogConfig(segment_bytes=1024)
# Half of the bound is for files that wait for their sync, half for the rest; on top of it come those that one log is
# busy with: a closed segment, its two indexes and its producers, and the file being opened.
BOUND = MAX_OPEN_FILES + 5


def test_thousands_of_logs_take_appends_and_reads_within_the_bound_of_open_files() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk, CONFIG, max_open_files=MAX_OPEN_FILES)
    partitions = [TopicPartition("topic", number) for number in range(LOGS)]
    for partition in partitions:
        data_dir.create_log(partition, CONFIG)
    for value in (b"a" * 600, b"b" * 600, b"c" * 10):
        for partition in partitions:
            log = data_dir.logs[partition]
            log.append(plain(value=value), leader_epoch=0, now_ms=NOW_MS)
            log.flush()
    assert {len(log.segments) for log in data_dir.logs.values()} == {2}
    for partition in partitions:
        for offset in range(3):
            found = data_dir.logs[partition].read(offset, max_bytes=1)
            assert found is not None
            assert int.from_bytes(found.read()[:8]) == offset
    assert disk.max_open_files <= BOUND


def test_logs_that_wait_for_their_flush_hold_no_more_files_than_the_bound_has_room_for() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk, CONFIG, max_open_files=MAX_OPEN_FILES)
    logs = [data_dir.create_log(TopicPartition("topic", number), CONFIG) for number in range(LOGS)]
    for log in logs:
        log.append(plain(), leader_epoch=0, now_ms=NOW_MS)
    waiting = [log for log in logs if log.flushed_offset == 0]
    assert 0 < len(waiting) <= MAX_OPEN_FILES // 2  # the rest had to flush at once
    assert disk.max_open_files <= BOUND
    for log in waiting:
        log.flush()
    for log in logs[:100]:
        log.append(plain(), leader_epoch=0, now_ms=NOW_MS)
    assert disk.max_open_files <= BOUND


def test_thousands_of_logs_are_opened_again_within_the_bound() -> None:
    disk = SimulatedDisk()
    data_dir = open_dir(disk, CONFIG, max_open_files=MAX_OPEN_FILES)
    for number in range(LOGS // 3):
        log = data_dir.create_log(TopicPartition("topic", number), CONFIG)
        log.append(plain(), leader_epoch=0, now_ms=NOW_MS)
    data_dir.close()
    disk.crash()
    disk.max_open_files = 0
    again = open_dir(disk, CONFIG, max_open_files=MAX_OPEN_FILES)
    assert {log.end_offset for log in again.logs.values()} == {1}
    assert len(again.logs) == LOGS // 3
    assert disk.max_open_files <= BOUND
