"""Which part of a log is dirty, and when it is due: decided from values alone."""

import pytest

from barnabas.storage.compaction.due import LogFacts, SegmentFacts, find_cleanable, must_roll
from barnabas.storage.config import LogConfig

HOUR = 60 * 60 * 1000
NOW = 1000 * HOUR


def facts(*segments: SegmentFacts, **others: int) -> LogFacts:
    """A log of these segments, the last one active, with nothing that holds compaction back unless said."""
    end_offset = others.pop("end_offset", segments[-1].base_offset + 10)
    values = {
        "log_start_offset": 0,
        "end_offset": end_offset,
        "flushed_offset": end_offset,
        "stable_offset": end_offset,
        "cleaned_to": 0,
        **others,
    }
    return LogFacts(segments, **values)


THREE = (SegmentFacts(0, 100), SegmentFacts(10, 300), SegmentFacts(20, 50))


def test_everything_before_the_active_segment_is_dirty_at_first() -> None:
    found = find_cleanable(facts(*THREE), LogConfig(), now_ms=NOW)
    assert (found.dirty_start, found.end_offset, found.clean_bytes, found.dirty_bytes) == (0, 20, 0, 400)


def test_what_was_compacted_is_clean() -> None:
    found = find_cleanable(facts(*THREE, cleaned_to=10), LogConfig(), now_ms=NOW)
    assert (found.dirty_start, found.clean_bytes, found.dirty_bytes, found.dirty_ratio) == (10, 100, 300, 0.75)


def test_a_segment_that_was_compacted_in_part_is_dirty() -> None:
    found = find_cleanable(facts(*THREE, cleaned_to=15), LogConfig(), now_ms=NOW)
    assert (found.dirty_start, found.clean_bytes, found.dirty_bytes) == (15, 100, 300)


def test_deleted_records_are_not_dirty() -> None:
    found = find_cleanable(facts(*THREE, cleaned_to=3, log_start_offset=12), LogConfig(), now_ms=NOW)
    assert found.dirty_start == 12


def test_a_checkpoint_beyond_the_end_of_the_log_counts_for_nothing() -> None:
    found = find_cleanable(facts(*THREE, cleaned_to=1000), LogConfig(), now_ms=NOW)
    assert found.dirty_start == 0


@pytest.mark.parametrize("bound", ["flushed_offset", "stable_offset"])
def test_what_is_not_durable_or_not_stable_is_left_alone(bound: str) -> None:
    found = find_cleanable(facts(*THREE, **{bound: 13}), LogConfig(), now_ms=NOW)
    assert (found.end_offset, found.dirty_bytes) == (13, 400)


def test_a_bound_below_the_clean_part_leaves_nothing_dirty() -> None:
    found = find_cleanable(facts(*THREE, cleaned_to=20, stable_offset=13), LogConfig(), now_ms=NOW)
    assert (found.dirty_start, found.end_offset, found.dirty_bytes) == (20, 20, 0)
    assert not found.is_due(LogConfig(min_cleanable_dirty_ratio=0.0))


def test_young_records_hold_compaction_back_from_their_segment_on() -> None:
    segments = [SegmentFacts(10 * i, 100, newest_timestamp=NOW - (4 - i) * HOUR) for i in range(4)]
    config = LogConfig(min_compaction_lag_ms=2 * HOUR + 1)
    assert find_cleanable(facts(*segments), config, now_ms=NOW).end_offset == 20


def test_records_without_a_timestamp_hold_nothing_back() -> None:
    config = LogConfig(min_compaction_lag_ms=HOUR)
    assert find_cleanable(facts(*THREE), config, now_ms=NOW).end_offset == 20


def test_a_log_is_due_from_the_dirty_ratio_on() -> None:
    found = find_cleanable(facts(*THREE, cleaned_to=10), LogConfig(), now_ms=NOW)
    assert found.is_due(LogConfig(min_cleanable_dirty_ratio=0.75))
    assert not found.is_due(LogConfig(min_cleanable_dirty_ratio=0.76))


def test_a_log_is_due_when_a_dirty_record_has_waited_too_long() -> None:
    segments = (SegmentFacts(0, 900, NOW - 9 * HOUR), SegmentFacts(10, 1, NOW - 5 * HOUR), SegmentFacts(20, 1, NOW))
    config = LogConfig(max_compaction_lag_ms=4 * HOUR)
    assert find_cleanable(facts(*segments, cleaned_to=10), config, now_ms=NOW).is_due(config)
    patient = LogConfig(max_compaction_lag_ms=6 * HOUR)
    assert not find_cleanable(facts(*segments, cleaned_to=10), patient, now_ms=NOW).is_due(patient)


def test_the_active_segment_is_closed_when_its_first_record_has_waited_too_long() -> None:
    config = LogConfig(max_compaction_lag_ms=4 * HOUR)
    assert must_roll(SegmentFacts(0, 100, NOW - 5 * HOUR), config, now_ms=NOW)
    assert not must_roll(SegmentFacts(0, 100, NOW - 3 * HOUR), config, now_ms=NOW)
    assert not must_roll(SegmentFacts(0, 0), config, now_ms=NOW)
