"""Lookups while the owner of the log removes, cuts and replaces segments under them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.core.errors import OffsetOutOfRange, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition
from barnabas.core.records.record import Record, encode_batch
from barnabas.runtime.disk import OsDisk
from barnabas.storage import truncate
from barnabas.storage.compaction.planning import plan_compaction
from barnabas.storage.compaction.swap import apply
from barnabas.storage.config import LogConfig
from barnabas.storage.data_dir import DataDir
from barnabas.storage.log import Log
from barnabas.storage.lookup import get_record, offset_for_timestamp
from barnabas.storage.readable_segment import SegmentGone
from barnabas.storage.segment import Segment
from barnabas.testing.disk import SimulatedDisk

PARTITION = TopicPartition("t", 0)


def make_log(segments: int = 4) -> Log:
    """Ten records a segment, keys 0 to 4, the value is the offset."""
    log = DataDir(SimulatedDisk(1), "/data").create_log(PARTITION, LogConfig())
    for _ in range(segments):
        for _ in range(10):
            offset = log.end_offset
            record = Record(0, 1000 + offset, b"%d" % (offset % 5), b"%d" % offset)
            log.append(encode_batch([record]), leader_epoch=0, now_ms=0)
        log.roll()
    log.flush()
    return log


def compact(log: Log) -> None:
    plan = plan_compaction(log, now_ms=0, hash_key=bytes(16), is_forced=True)
    assert plan is not None
    assert apply(log, plan.run())


def interrupt_first_open(monkeypatch: pytest.MonkeyPatch, log: Log, change: Callable[[], object]) -> None:
    """Let `change` happen right before the next segment file is asked for, as another thread's owner would."""
    original = Segment.find
    pending = [change]

    def find(segment: Segment, offset: int) -> object:
        if pending:
            pending.pop()()
        return original(segment, offset)

    monkeypatch.setattr(Segment, "find", find)


def test_a_lookup_finds_its_record_in_the_segment_that_replaced_the_one_it_began_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = make_log()
    interrupt_first_open(monkeypatch, log, lambda: compact(log))
    record = get_record(log, 37)
    assert record is not None
    assert record.value == b"37"
    assert log.context.health.offline_reason is None


def test_a_record_that_compaction_removed_meanwhile_is_gone_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    interrupt_first_open(monkeypatch, log, lambda: compact(log))
    assert get_record(log, 3) is None


def test_a_lookup_in_a_segment_that_was_deleted_is_out_of_range(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    interrupt_first_open(monkeypatch, log, lambda: truncate.delete_before(log, 25))
    with pytest.raises(OffsetOutOfRange):
        get_record(log, 3)
    assert log.context.health.offline_reason is None


def test_a_lookup_by_time_goes_on_after_the_front_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    interrupt_first_open(monkeypatch, log, lambda: truncate.delete_before(log, 25))
    found = offset_for_timestamp(log, 1003)
    assert found is not None
    assert found.offset == 25


def test_a_lookup_in_a_segment_that_was_truncated_is_out_of_range(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    interrupt_first_open(monkeypatch, log, lambda: truncate.truncate_to(log, 20))
    with pytest.raises(OffsetOutOfRange):
        get_record(log, 37)
    assert log.context.health.offline_reason is None


def test_a_segment_that_is_gone_is_not_opened_by_name() -> None:
    log = make_log()
    first = log.segments[0]
    compact(log)
    with pytest.raises(SegmentGone):
        first.file()
    with pytest.raises(SegmentGone):
        first.rebuild_indexes()


def test_a_lookup_in_a_log_that_is_deleted_meanwhile_says_so_and_leaves_the_directory_online(tmp_path: Path) -> None:
    data_dir = DataDir(OsDisk(), str(tmp_path / "data"))
    log = data_dir.create_log(PARTITION, LogConfig())
    for _ in range(3):
        log.append(encode_batch([Record(0, 1000, b"k", b"v")]), leader_epoch=0, now_ms=0)
        log.roll()
    plan = log.begin_read(0)
    assert plan is not None
    remove = data_dir.begin_deletion([PARTITION])
    for step in (remove, lambda: None):  # before its files are removed, and after
        with pytest.raises(UnknownTopicOrPartition, match="was deleted"):
            offset_for_timestamp(log, 0)
        with pytest.raises(UnknownTopicOrPartition, match="was deleted"):
            get_record(log, 0)
        with pytest.raises(SegmentGone):
            plan.locate(1000)
        step()
    assert data_dir.health.offline_reason is None
