"""Gaps that compaction left a leader, larger than what one segment can span."""

from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.lookup import get_record
from barnabas.testing.disk import Keep, SimulatedCrash, SimulatedDisk

PARTITION = TopicPartition("t", 0)
FAR = 3 * 2**31


def batch(offset: int) -> bytearray:
    return encode_batch([Record(offset, 5, b"k", b"%d" % offset)], leader_epoch=1)


def new_log(disk: SimulatedDisk) -> Log:
    return DataDir(disk, "/data").create_log(PARTITION, LogConfig())


def reopen(disk: SimulatedDisk) -> Log:
    data_dir = DataDir(disk, "/data")
    list(data_dir.open_logs(lambda _: LogConfig()))
    assert not data_dir.unreadable
    return data_dir.logs[PARTITION]


def check(log: Log, *offsets: int) -> None:
    for offset in offsets:
        record = get_record(log, offset)
        assert record is not None
        assert record.value == b"%d" % offset
    assert log.end_offset == offsets[-1] + 1


def test_a_follower_takes_a_batch_beyond_the_reach_of_its_segment() -> None:
    for first in ([], [0]):
        log = new_log(SimulatedDisk(1))
        for offset in (*first, FAR, FAR + 1, 3 * FAR):
            assert log.append_as_follower(batch(offset)).last_offset == offset
        check(log, *first, FAR, FAR + 1, 3 * FAR)
        assert log.read(1, max_bytes=10_000) is not None


def test_several_batches_with_such_a_gap_are_taken_together() -> None:
    log = new_log(SimulatedDisk(1))
    data = batch(0) + batch(7) + batch(FAR) + batch(FAR + 9)
    appended = log.append_as_follower(data)
    assert (appended.first_offset, appended.last_offset) == (0, FAR + 9)
    check(log, 0, 7, FAR, FAR + 9)


def test_what_lies_beyond_the_gap_survives_a_crash_once_flushed() -> None:
    for keep in Keep:
        disk = SimulatedDisk(3)
        log = new_log(disk)
        log.append_as_follower(batch(0) + batch(FAR))
        log.flush()
        log.append_as_follower(batch(FAR + 1))
        disk.crash(keep)
        log = reopen(disk)
        assert log.end_offset in (FAR + 1, FAR + 2)
        check(log, 0, *range(FAR, log.end_offset))


def test_a_crash_at_any_point_of_the_leap_leaves_a_whole_log() -> None:
    for point in range(200):
        disk = SimulatedDisk(point)
        log = new_log(disk)
        log.append_as_follower(batch(0))
        log.flush()
        disk.crash_after(point)
        try:
            log.append_as_follower(batch(FAR))
            log.flush()
        except SimulatedCrash:
            disk.crash()
            log = reopen(disk)
            assert log.end_offset in (1, FAR, FAR + 1)
            record = get_record(log, 0)
            assert record is not None
        else:
            return
    raise AssertionError("the append never finished")
