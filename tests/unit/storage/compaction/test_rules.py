"""What stays of a compacted log and what goes: the rules, one by one, with both key maps."""

import msgspec
import pytest

from barnabas.core.errors import CorruptLog, InvalidConfig
from barnabas.core.records.batch import Codec, TimestampType, seal
from barnabas.core.records.record import Record, decode_batch, encode_batch
from barnabas.storage.compaction import Engine, apply, plan_compaction
from barnabas.storage.config import LogConfig
from barnabas.storage.lookup import get_record
from tests.unit.storage.compaction.support import CONFIG, DAY, HASH_KEY, NOW, CompactedLog


def config_with(**settings: float) -> LogConfig:
    return msgspec.structs.replace(CONFIG, **settings)


# Keys and values


def test_only_the_newest_record_of_a_key_stays_where_it_was(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"), ("b", "1"))
    log.put(("a", "2"), ("c", "1"))
    log.put(("b", "2"), ("b", "3"))
    log.roll()
    log.compact(engine=engine)
    assert log.values() == [(2, "a", "2"), (3, "c", "1"), (5, "b", "3")]
    assert (log.log.log_start_offset, log.log.end_offset, log.cleaned_to) == (0, 6, 6)


def test_a_newer_record_in_a_later_round_replaces_a_clean_one(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"), ("b", "1"))
    log.roll()
    log.compact(engine=engine)
    log.put(("a", "2"))
    log.roll()
    log.compact(engine=engine)
    assert log.values() == [(1, "b", "1"), (2, "a", "2")]


def test_the_active_segment_is_neither_cleaned_nor_counted() -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    log.roll()
    log.put(("a", "2"), ("a", "3"))
    log.compact()
    assert log.values() == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]


def test_records_without_a_key_go(engine: Engine) -> None:
    log = CompactedLog()
    log.put((None, "x"), ("a", "1"), (None, None))
    log.roll()
    log.compact(engine=engine)
    assert log.values() == [(1, "a", "1")]


def test_a_batch_that_stays_whole_is_copied_byte_for_byte(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    log.put(("b", "1"), ("c", "1"), codec=Codec.GZIP)
    log.put(("a", "2"))
    log.roll()
    before = [batch.data for batch in log.batches()]
    log.compact(engine=engine)
    assert [batch.data for batch in log.batches()] == before[1:]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("timestamp_type", list(TimestampType))
def test_a_batch_that_loses_records_keeps_all_else(engine: Engine, codec: Codec, timestamp_type: TimestampType) -> None:
    log = CompactedLog()
    log.put(("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), codec=codec, timestamp_type=timestamp_type, leader_epoch=3)
    log.put(("a", "2"), ("d", "2"), leader_epoch=4)
    log.roll()
    header, records = log.headers()[0], log.records()
    log.compact(engine=engine)
    assert log.records() == records[1:3] + records[4:]
    newest = header.max_timestamp if timestamp_type is TimestampType.LOG_APPEND_TIME else NOW + 2
    found = log.headers()[0]
    assert found == header._replace(
        batch_length=found.batch_length, crc=found.crc, record_count=2, max_timestamp=newest
    )


def test_headers_of_records_stay() -> None:
    log = CompactedLog()
    record = Record(1, NOW, b"b", b"1", (("trace", b"x"), ("none", None)))
    log.log.append(encode_batch([Record(0, NOW, b"a", b"1"), record]), leader_epoch=0, now_ms=NOW)
    log.put(("a", "2"))
    log.roll()
    log.compact()
    assert log.records()[0] == record


def test_a_record_is_found_by_its_offset_after_the_ones_around_it_went() -> None:
    log = CompactedLog()
    for i in range(50):
        log.put(("a", str(i)), (f"k{i}", "x"))
    log.roll()
    log.compact()
    for i in range(50):
        found = get_record(log.log, 2 * i + 1)
        assert found is not None
        assert found.key == b"k%d" % i
        assert get_record(log.log, 2 * i) is None or i == 49


# Tombstones


def test_a_tombstone_deletes_and_then_goes_itself_when_its_horizon_has_passed(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"), ("b", "1"))
    log.put(("a", None))
    log.roll()
    log.compact(now=NOW, engine=engine)
    assert log.values() == [(1, "b", "1"), (2, "a", None)]
    log.compact(now=NOW + DAY - 1, engine=engine)
    assert log.values() == [(1, "b", "1"), (2, "a", None)]
    log.compact(now=NOW + DAY, engine=engine)
    assert log.values() == [(1, "b", "1")]


def test_a_horizon_changes_no_timestamp(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"), ("b", None), ("c", "1"), codec=Codec.ZSTD, timestamp=NOW - 10**9)
    log.roll()
    records, max_timestamp = log.records(), log.headers()[0].max_timestamp
    log.compact(now=NOW, engine=engine)
    (header,) = log.headers()
    assert log.records() == records
    assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW + DAY)
    assert (header.codec, header.max_timestamp) == (Codec.ZSTD, max_timestamp)


def test_a_horizon_is_set_once(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", None), ("b", "1"))
    log.roll()
    log.compact(now=NOW, engine=engine)
    log.put(("b", "2"))
    log.roll()
    log.compact(now=NOW + 1000, engine=engine)
    assert log.values() == [(0, "a", None), (2, "b", "2")]
    assert log.headers()[0].base_timestamp == NOW + DAY


def test_a_tombstone_that_a_leader_gave_its_horizon_deletes_here_before_it_goes(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    batch = encode_batch([Record(1, NOW, b"a", None)], delete_horizon_ms=NOW - DAY, leader_epoch=0)
    log.log.append_as_follower(batch)
    log.roll()
    log.compact(engine=engine)
    assert log.values() == [(1, "a", None)]
    log.compact(engine=engine)
    assert log.values() == []


def test_a_tombstone_with_a_timestamp_too_far_from_any_horizon_just_stays(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", None), timestamp=-(2**63))
    log.roll()
    log.compact(now=NOW, engine=engine)
    assert not log.headers()[0].has_delete_horizon
    log.compact(now=NOW + 2 * DAY, engine=engine)
    assert log.values() == [(0, "a", None)]


# The budget of the key map


def test_a_full_key_map_ends_the_round_at_a_batch_and_the_next_goes_on_there(engine: Engine) -> None:
    log = CompactedLog()
    for i in range(100):
        log.put(*((f"key-{j}", str(i)) for j in range(i, i + 10)))
    log.roll()
    table = log.newest()
    max_map_bytes = 8000 if engine is Engine.PLAIN else 1000
    rounds = [log.compact(engine=engine, max_map_bytes=max_map_bytes).cleaned_to]
    while rounds[-1] < log.log.end_offset:
        rounds.append(log.compact(engine=engine, max_map_bytes=max_map_bytes).cleaned_to)
        assert rounds[-1] > rounds[-2]
        assert log.cleaned_to == rounds[-1]
        assert log.newest() == table
    assert len(rounds) > 2
    assert all(offset % 10 == 0 for offset in rounds)
    assert len(log.values()) == len(table)


def test_a_key_map_too_small_for_a_single_batch_is_refused_with_a_clear_error(engine: Engine) -> None:
    log = CompactedLog()
    log.put(*((str(i), "v") for i in range(100)))
    log.roll()
    with pytest.raises(InvalidConfig, match=r"log\.cleaner\.dedupe\.buffer\.size=500"):
        log.run(engine=engine, max_map_bytes=500)
    assert log.names(".cleaned") == []
    assert len(log.values()) == 100


# Damage and settings


def test_damage_is_reported_and_leaves_the_log_as_it_is(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    log.put(("a", "2"))
    log.roll()
    log.disk.flip_bit(log.log.segments[0].log_path, 100, 3)
    names = log.names()
    with pytest.raises(CorruptLog):
        log.run(engine=engine)
    assert log.names() == names
    assert log.cleaned_to == 0


def test_records_that_are_nonsense_under_a_good_checksum_are_damage_too(engine: Engine) -> None:
    log = CompactedLog()
    batch = encode_batch([Record(0, NOW, b"a", b"1"), Record(1, NOW, b"a", b"2")])
    batch[61] = 0x7E  # the length of the first record
    seal(batch, 0, len(batch))
    log.log.append(batch, leader_epoch=0, now_ms=NOW)
    log.roll()
    with pytest.raises(CorruptLog, match="cannot be compacted"):
        log.run(engine=engine)


def test_a_log_that_is_not_dirty_enough_is_left_alone_until_it_is_overdue() -> None:
    config = config_with(min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=DAY)
    log = CompactedLog(config)
    for i in range(20):
        log.put((f"k{i}", "v"))
    log.roll()
    log.compact()
    log.put(("k0", "w"))
    log.roll()
    assert plan_compaction(log.log, now_ms=NOW + DAY, hash_key=HASH_KEY) is None
    plan = plan_compaction(log.log, now_ms=NOW + DAY + 1, hash_key=HASH_KEY)
    assert plan is not None
    assert apply(log.log, plan.run())
    assert len(log.values()) == 20


def test_an_overdue_active_segment_is_closed_for_compaction() -> None:
    log = CompactedLog(config_with(max_compaction_lag_ms=DAY))
    log.put(("a", "1"))
    assert plan_compaction(log.log, now_ms=NOW + DAY, hash_key=HASH_KEY) is None
    assert len(log.log.segments) == 1
    plan_compaction(log.log, now_ms=NOW + DAY + 1, hash_key=HASH_KEY)
    assert len(log.log.segments) == 2


def test_records_younger_than_the_minimum_lag_stay() -> None:
    log = CompactedLog(config_with(min_compaction_lag_ms=DAY))
    log.put(("a", "1"), ("a", "2"), timestamp=NOW - 2 * DAY)
    log.roll()
    log.put(("a", "3"), timestamp=NOW)
    log.roll()
    log.compact(now=NOW)
    assert log.values() == [(1, "a", "2"), (2, "a", "3")]


def test_leader_epochs_are_what_they_were() -> None:
    log = CompactedLog()
    for epoch in range(5):
        log.put(("a", str(epoch)), leader_epoch=epoch)
    log.roll()
    before = [log.log.epoch_end(epoch) for epoch in range(5)]
    log.compact()
    log.restart()
    assert [log.log.epoch_end(epoch) for epoch in range(5)] == before
    assert decode_batch(log.batches()[0].data)[0].value == b"4"
