"""Putting cleaned segments in place: what they replace, what is left of them, and a log that changed meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from barnabas.core.errors import StorageError
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.runtime.disk import OsDisk
from barnabas.storage.compaction import Engine, LogChanged, apply, discard, is_current, plan_compaction
from barnabas.storage.data_dir import DataDir
from barnabas.storage.lookup import offset_for_timestamp
from barnabas.storage.truncate import delete_before, truncate_to
from barnabas.testing.disk import Keep
from tests.unit.storage.compaction.support import CONFIG, DAY, HASH_KEY, NOW, PARTITION, CompactedLog


def log_with_segments(count: int, *, records: int = 10, unique: int = 1, segment_bytes: int = 1024**2) -> CompactedLog:
    """Segments of one batch each, with `unique` keys that are nowhere else, the other records all of one key."""
    log = CompactedLog(msgspec.structs.replace(CONFIG, segment_bytes=segment_bytes))
    for i in range(count):
        log.put(*((f"k{i}-{j}" if j < unique else "same", str(i)) for j in range(records)), timestamp=NOW + 1000 * i)
        log.roll()
    return log


def bases(log: CompactedLog) -> list[int]:
    return [segment.base_offset for segment in log.log.segments]


# What becomes of segments


def test_segments_that_became_small_are_merged() -> None:
    log = log_with_segments(6)
    size = log.log.size
    result = log.compact()
    assert bases(log) == [0, 60]
    assert len(log.values()) == 7
    assert result.freed_bytes == size - log.log.size > 0


def test_merged_segments_are_no_larger_than_segment_bytes() -> None:
    log = log_with_segments(30, unique=4, segment_bytes=1024)
    log.compact()
    assert 2 < len(log.log.segments) < 31
    assert all(segment.size <= 1024 for segment in log.log.segments)
    log.compact()
    assert all(segment.size <= 1024 for segment in log.log.segments)


def test_merged_segments_hold_no_offsets_that_an_index_cannot_address() -> None:
    log = CompactedLog()
    offsets = [0, 2**31 - 10, 2**32 - 30]
    for offset in offsets:
        batch = encode_batch([Record(offset, NOW, b"%d" % offset, b"v")], leader_epoch=0)
        log.log.append_as_follower(batch)
        log.roll()
    log.compact()
    assert bases(log) == [0, 2**31 - 9, 2**32 - 29]
    assert [offset for offset, _, _ in log.values()] == offsets


def test_a_segment_of_which_nothing_goes_is_not_written_again() -> None:
    log = log_with_segments(4, unique=10, segment_bytes=1024)
    log.compact()
    segments, written = log.log.segments, log.disk.bytes_written.total()
    result = log.run()
    assert result.outputs == ()
    assert log.disk.bytes_written.total() == written
    assert apply(log.log, result)
    assert log.log.segments == segments


def test_a_segment_with_nothing_left_is_removed_and_readers_go_on_to_the_next() -> None:
    log = log_with_segments(4, unique=0, segment_bytes=1024)
    log.put(*((f"big{i}", "x" * 90) for i in range(8)))
    log.roll()
    log.put(("same", "newest"))
    log.roll()
    log.compact()
    assert bases(log)[0] == 0
    assert log.log.log_start_offset == 0
    assert all(segment.size for segment in log.log.segments[1:-1])
    found = log.log.read(3, max_bytes=10_000)
    assert found is not None
    assert [record.offset for record in log.consume()] == list(range(40, 49))


def test_the_first_segment_stays_even_with_nothing_in_it_for_the_log_starts_there() -> None:
    log = log_with_segments(1, unique=0, segment_bytes=1024)
    log.put(*((f"big{i}", "x" * 90) for i in range(8)), ("same", "newest"))
    log.roll()
    log.compact()
    log.restart()
    assert (bases(log)[0], log.log.log_start_offset) == (0, 0)
    assert log.log.read(0, max_bytes=100) is not None


def test_indexes_are_there_and_right_at_once() -> None:
    log = log_with_segments(40, unique=3)
    log.compact()
    segment = log.log.segments[0]
    written = log.disk.bytes_written.total()
    for offset in range(0, 400, 10):
        found = segment.find(offset)
        assert found is not None
        assert found[1].base_offset == offset
    assert segment.newest_timestamp() == max(header.max_timestamp for header in log.headers())
    timed = offset_for_timestamp(log.log, NOW + 20_000)
    assert timed is not None
    assert timed.offset == 200
    assert log.disk.bytes_written.total() == written


def test_nothing_but_the_log_is_left_afterwards() -> None:
    log = log_with_segments(5)
    log.compact()
    assert log.names(".cleaned") == log.names(".swap") == []
    known = {f"{base:020d}" for base in bases(log)}
    assert {name[:20] for name in log.names() if name[0] == "0"} <= known


def test_a_cleanly_closed_log_opens_as_it_was() -> None:
    log = log_with_segments(5)
    log.compact()
    before = (log.values(), bases(log), log.log.end_offset, log.producers())
    log.data_dir.close()
    log.disk.restart()
    log.open()
    assert (log.values(), bases(log), log.log.end_offset, log.producers()) == before


def test_a_reader_that_located_records_before_the_swap_still_reads_them() -> None:
    log = log_with_segments(3)
    found = log.log.read(0, max_bytes=10_000)
    assert found is not None
    before = found.read()
    log.compact()
    assert found.read() == before


# A log that changed while the plan ran


def test_a_log_that_was_appended_to_and_rolled_meanwhile_takes_the_result() -> None:
    log = log_with_segments(3)
    result = log.run()
    log.put(("same", "later"))
    log.roll()
    log.put(("same", "last"))
    assert apply(log.log, result)
    assert bases(log) == [0, 30, 31]
    assert [value for _, key, value in log.values() if key == "same"] == ["2", "later", "last"]


def test_a_log_that_was_truncated_meanwhile_drops_the_result() -> None:
    log = log_with_segments(3)
    result = log.run()
    truncate_to(log.log, 20)
    log.put(("new", "1"))
    log.roll()
    before = log.values()
    assert not is_current(log.log, result.plan)
    assert not apply(log.log, result)
    assert log.values() == before
    assert log.names(".cleaned") == log.names(".swap") == []


def test_a_log_whose_front_was_deleted_meanwhile_drops_the_result() -> None:
    log = log_with_segments(3)
    result = log.run()
    delete_before(log.log, 10)
    assert not apply(log.log, result)
    assert log.names(".cleaned") == []
    assert log.log.log_start_offset == 10


def test_a_log_that_was_deleted_meanwhile_drops_the_result() -> None:
    log = log_with_segments(3)
    result = log.run()
    log.data_dir.delete_log(PARTITION)
    assert not apply(log.log, result)
    log.open()
    assert log.values() == []


def test_a_run_that_finds_its_files_gone_says_that_the_log_changed() -> None:
    log = log_with_segments(3)
    plan = plan_compaction(log.log, now_ms=NOW, hash_key=HASH_KEY)
    assert plan is not None
    log.data_dir.delete_log(PARTITION)
    with pytest.raises(LogChanged):
        plan.run()


def test_a_run_that_reads_a_segment_cut_under_it_says_that_the_log_changed() -> None:
    log = log_with_segments(3)
    plan = plan_compaction(log.log, now_ms=NOW, hash_key=HASH_KEY)
    assert plan is not None
    truncate_to(log.log, 25)
    with pytest.raises(LogChanged):
        plan.run()
    assert log.names(".cleaned") == []


def test_a_run_that_is_told_to_stop_leaves_nothing_behind() -> None:
    log = log_with_segments(4, segment_bytes=1024)
    plan = plan_compaction(log.log, now_ms=NOW, hash_key=HASH_KEY)
    assert plan is not None
    left = 7

    def pace(_size: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        plan.run(pace)
    assert log.names(".cleaned") == log.names(".swap") == []


def test_a_run_on_a_full_disk_leaves_nothing_behind() -> None:
    log = log_with_segments(4, segment_bytes=1024)
    names = log.names()
    log.disk.fail_write(lambda path: path.endswith(".cleaned"), after_bytes=100)
    with pytest.raises(OSError, match="No space left"):
        log.run()
    assert log.names() == names


def test_a_discarded_result_leaves_nothing_behind() -> None:
    log = log_with_segments(4)
    discard(log.run())
    assert log.names(".cleaned") == log.names(".swap") == []


def test_a_failing_disk_takes_the_directory_offline_and_the_next_start_mends_it() -> None:
    log = log_with_segments(4)
    table = log.newest()
    result = log.run()
    log.disk.fail_sync(lambda path: path.endswith(str(PARTITION)))
    with pytest.raises(StorageError):
        apply(log.log, result)
    log.disk.clear_faults()
    log.disk.crash(Keep.NOTHING)
    log.open()
    assert log.newest() == table


# Cutting a compacted log


def test_what_replaces_a_truncated_clean_part_is_dirty_again() -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    log.put(("b", "1"))
    log.put(("c", "1"))
    log.roll()
    log.compact()
    truncate_to(log.log, 1)
    log.put(("a", None))
    log.put(("c", "2"))
    log.roll()
    for days in range(3):
        log.restart()
        log.compact(now=NOW + days * DAY)
        assert log.newest() == {b"c": b"2"}


def test_a_log_cut_in_a_hole_that_compaction_left_can_be_opened_again() -> None:
    log = log_with_segments(3, unique=3)
    log.put(("end", "1"))
    log.roll()
    log.compact()
    for offset in (29, 25, 12):
        end = truncate_to(log.log, offset)
        assert end <= offset
        log.restart()
        assert log.log.end_offset == end
        log.data_dir.close()
        log.disk.restart()
        log.open()
        assert log.log.end_offset == end


def test_deleting_the_front_of_a_compacted_log_leaves_the_rest() -> None:
    log = log_with_segments(6, unique=3)
    log.compact()
    delete_before(log.log, 25)
    log.restart()
    assert [record.offset for record in log.consume()] == [30, 31, 32, 40, 41, 42, 50, 51, 52, 59]
    log.compact()
    assert log.log.log_start_offset == 25


# On a real disk, in a real thread


def test_a_log_on_a_real_disk_takes_appends_while_it_is_compacted_in_a_thread(tmp_path: Path, engine: Engine) -> None:
    data_dir = DataDir(OsDisk(), str(tmp_path))
    log = data_dir.create_log(PARTITION, msgspec.structs.replace(CONFIG, segment_bytes=16 * 1024))

    def put(number: int) -> None:
        records = [Record(i, NOW, b"%d" % (number % 7), b"%d" % number) for i in range(20)]
        log.append(encode_batch(records), leader_epoch=0, now_ms=NOW)

    for number in range(200):
        put(number)
    log.roll()
    log.flush()
    plan = plan_compaction(log, now_ms=NOW, hash_key=HASH_KEY, engine=engine)
    assert plan is not None
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(plan.run)
        for number in range(200, 300):
            put(number)
        result = running.result()
    assert apply(log, result)
    assert log.size < 100 * 1024
    data_dir.close()

    reopened = DataDir(OsDisk(), str(tmp_path))
    assert [report.was_clean for report in reopened.open_logs(lambda _: CONFIG)] == [True]
    log = reopened.logs[PARTITION]
    values = {
        record.key: record.value
        for segment in log.segments
        for batch in segment.batches()
        for record in decode_batch(batch.data)
    }
    assert values == {b"%d" % (number % 7): b"%d" % number for number in range(293, 300)}
    assert log.end_offset == 6000
