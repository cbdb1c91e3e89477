"""Retention by time and by size: which segments go, and that a crash leaves nothing half deleted."""

import pytest

from barnabas.core.errors import OffsetOutOfRange
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.retention import SegmentAge, apply_retention, first_retained
from barnabas.testing.disk import SimulatedCrash, SimulatedDisk

PARTITION = TopicPartition("t", 0)


def make_log(disk: SimulatedDisk, config: LogConfig, *, segments: int) -> Log:
    """A log whose n-th segment holds one record with timestamp 1000 n."""
    log = DataDir(disk, "/data").create_log(PARTITION, config)
    for n in range(segments):
        if n:
            log.roll()
        batch = encode_batch([Record(offset=0, timestamp=1000 * n, key=None, value=b"v" * 100)])
        log.append(batch, leader_epoch=0, now_ms=0)
    log.flush()
    return log


def reopen(disk: SimulatedDisk, config: LogConfig) -> Log:
    data_dir = DataDir(disk, "/data")
    for _ in data_dir.open_logs(lambda _: config):
        pass
    assert not data_dir.unreadable
    return data_dir.logs[PARTITION]


def test_segments_whose_newest_record_is_too_old_go() -> None:
    log = make_log(SimulatedDisk(1), LogConfig(retention_ms=2500), segments=5)
    removed = apply_retention(log, now_ms=4500)
    assert (removed.segments, log.log_start_offset, log.end_offset) == (2, 2, 5)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, max_bytes=100)


def test_a_log_with_only_old_records_empties_but_keeps_its_place() -> None:
    log = make_log(SimulatedDisk(1), LogConfig(retention_ms=10), segments=3)
    apply_retention(log, now_ms=10_000_000)
    assert (log.log_start_offset, log.end_offset, log.size) == (3, 3, 0)
    assert (
        log.append(
            encode_batch([Record(offset=0, timestamp=0, key=None, value=b"")]), leader_epoch=0, now_ms=0
        ).first_offset
        == 3
    )


def test_the_oldest_segments_go_while_the_log_is_over_its_size() -> None:
    log = make_log(SimulatedDisk(1), LogConfig(retention_ms=-1), segments=5)
    one = log.segments[0].size
    log.config = LogConfig(retention_ms=-1, retention_bytes=2 * one + one // 2)
    assert apply_retention(log, now_ms=0).segments == 2
    assert log.size == 3 * one


def test_nothing_goes_with_unlimited_retention_or_a_compacted_log() -> None:
    for properties in ({"retention.ms": "-1"}, {"cleanup.policy": "compact", "retention.ms": "1"}):
        log = make_log(SimulatedDisk(1), LogConfig.from_properties(properties), segments=3)
        assert apply_retention(log, now_ms=10**15).segments == 0


def test_a_compacted_log_that_also_deletes_loses_old_segments() -> None:
    config = LogConfig.from_properties({"cleanup.policy": "compact,delete", "retention.ms": "1"})
    log = make_log(SimulatedDisk(1), config, segments=3)
    assert apply_retention(log, now_ms=1500).segments == 2


def test_records_beyond_the_high_watermark_stay() -> None:
    log = make_log(SimulatedDisk(1), LogConfig(retention_ms=1), segments=3)
    assert apply_retention(log, now_ms=10**9, end_offset=1).segments == 1


def test_a_segment_without_timestamps_has_no_age() -> None:
    ages = [SegmentAge(100, 1, -1), SegmentAge(100, 2, 5)]
    assert first_retained(ages, LogConfig(retention_ms=1), log_size=200, end_offset=2, now_ms=10**9) == 0


def test_a_crash_at_any_point_of_retention_leaves_a_whole_log() -> None:
    config = LogConfig(retention_ms=2500)
    for point in range(1, 40):
        disk = SimulatedDisk(point)
        log = make_log(disk, config, segments=5)
        disk.crash_after(point)
        try:
            apply_retention(log, now_ms=4500)
        except SimulatedCrash:
            acknowledged = False
        else:
            acknowledged = True
        disk.crash()
        log = reopen(disk, config)
        assert log.end_offset == 5
        assert log.log_start_offset == 2 if acknowledged else log.log_start_offset in (0, 2)
        assert log.read(log.log_start_offset, max_bytes=1) is not None
        if acknowledged:
            return
    pytest.fail("retention never finished")
