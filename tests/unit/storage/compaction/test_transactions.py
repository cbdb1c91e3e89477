"""Compaction among transactions and idempotent producers: what is taken back goes, what tells who wrote what stays."""

import pytest

from barnabas.core.errors import OutOfOrderSequence
from barnabas.core.records.control import MarkerType
from barnabas.storage.compaction import Engine
from barnabas.storage.lookup import aborted_transactions
from tests.unit.storage.compaction.support import DAY, NOW, CompactedLog


def forget_producers(log: CompactedLog) -> None:
    """As when they were silent for long."""
    for now_ms in (NOW, NOW + DAY):
        log.log.producers.expire(now_ms=now_ms, idle_ms=DAY)


# Transactions


def test_records_of_an_aborted_transaction_go_and_replace_nothing(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"), ("b", "1"))
    log.put(("a", "2"), ("b", None), producer=1, in_transaction=True)
    log.abort(1)
    log.put(("z", "1"), producer=1)
    log.roll()
    forget_producers(log)
    log.compact(engine=engine)
    assert log.values() == [(0, "a", "1"), (1, "b", "1"), (5, "z", "1")]
    assert log.newest() == {b"a": b"1", b"b": b"1", b"z": b"1"}


def test_records_of_a_committed_transaction_replace_older_ones(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    log.put(("a", "2"), producer=1, in_transaction=True)
    log.commit(1)
    log.roll()
    log.compact(engine=engine)
    assert log.values() == [(1, "a", "2")]
    assert log.markers() == [(2, MarkerType.COMMIT)]


def test_nothing_is_cleaned_from_the_first_open_transaction_on() -> None:
    log = CompactedLog()
    log.put(("a", "1"), ("a", "2"))
    open_at = log.put(("a", "3"), ("a", "4"), producer=1, in_transaction=True)
    log.put(("a", "5"))
    log.roll()
    assert log.compact().cleaned_to == open_at
    assert log.values() == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4"), (4, "a", "5")]
    log.abort(1)
    log.roll()
    log.compact()
    assert log.values() == [(4, "a", "5")]


def test_nothing_is_cleaned_from_the_high_watermark_on() -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    log.put(("a", "2"))
    log.put(("a", "3"))
    log.roll()
    assert log.compact(high_watermark=2).cleaned_to == 2
    assert log.values() == [(1, "a", "2"), (2, "a", "3")]


def test_a_bound_within_the_first_batch_leaves_all_as_it_is() -> None:
    log = CompactedLog()
    log.put(("a", "1"), ("a", "2"))
    log.roll()
    assert log.compact(high_watermark=1).cleaned_to == 0
    assert len(log.values()) == 2


def test_nothing_is_cleaned_of_a_transaction_whose_marker_is_not_replicated() -> None:
    log = CompactedLog()
    log.put(("a", "1"), ("a", "2"))
    log.put(("a", "3"), producer=1, in_transaction=True)
    log.put(("b", "1"))
    log.commit(1)
    log.roll()
    assert log.compact(high_watermark=4).cleaned_to == 2


def test_a_marker_stays_while_its_transaction_has_a_record_and_then_until_its_horizon(engine: Engine) -> None:
    log = CompactedLog()
    log.put(("a", "1"), producer=1, in_transaction=True)
    log.commit(1)
    log.roll()
    forget_producers(log)
    log.compact(engine=engine)
    assert not log.headers()[-1].has_delete_horizon
    log.put(("a", "2"))
    log.roll()
    log.compact(now=NOW, engine=engine)  # the record goes
    assert log.markers() == [(1, MarkerType.COMMIT)]
    log.compact(now=NOW, engine=engine)  # the marker stands alone: its time runs
    assert log.markers() == [(1, MarkerType.COMMIT)]
    assert log.headers()[0].base_timestamp == NOW + DAY
    log.compact(now=NOW + DAY - 1, engine=engine)
    assert log.markers() == [(1, MarkerType.COMMIT)]
    log.compact(now=NOW + DAY, engine=engine)
    assert log.markers() == []


def test_an_aborted_transaction_leaves_the_index_before_its_marker_goes() -> None:
    log = CompactedLog()
    log.put(("a", "1"), producer=1, in_transaction=True)
    log.abort(1)
    log.put(("b", "1"))
    log.roll()
    forget_producers(log)
    log.compact()
    assert [each.last_offset for each in aborted_transactions(log.log, 0, 3)] == [1]
    log.compact()
    assert aborted_transactions(log.log, 0, 3) == []
    assert log.markers() == [(1, MarkerType.ABORT)]


def test_what_a_producer_wrote_after_an_abort_is_seen_when_the_marker_is_gone() -> None:
    log = CompactedLog()
    log.put(("a", "1"), producer=1, in_transaction=True)
    log.abort(1)
    log.put(("b", "1"), producer=1, in_transaction=True)
    log.commit(1)
    log.put(("c", "1"))
    log.roll()
    forget_producers(log)
    for days in range(4):
        log.compact(now=NOW + days * DAY)
        assert log.newest() == {b"b": b"1", b"c": b"1"}
    assert log.markers() == [(3, MarkerType.COMMIT)]


def test_a_transaction_that_ends_beyond_the_cleaned_part_is_judged_by_its_end() -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    log.put(("a", "2"), producer=1, in_transaction=True)
    log.roll()
    log.put(("x", "1"), producer=2, in_transaction=True)
    log.abort(1)
    log.roll()
    forget_producers(log)
    assert log.compact().cleaned_to == 2
    assert log.values() == [(0, "a", "1"), (2, "x", "1")]
    assert [each.producer_id for each in aborted_transactions(log.log, 0, 4)] == [1]


def test_a_marker_without_data_goes_though_its_producer_had_data_before() -> None:
    log = CompactedLog()
    log.put(("a", "1"), producer=1, in_transaction=True)
    log.commit(1)
    log.commit(1)
    log.put(("b", "1"))
    log.roll()
    forget_producers(log)
    log.compact(now=NOW)
    log.compact(now=NOW + DAY)
    assert log.markers() == [(1, MarkerType.COMMIT)]


def test_beyond_the_key_map_markers_stay_as_they_are() -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    log.put(("a", "2"), producer=1, in_transaction=True)
    log.commit(2)
    log.roll()
    forget_producers(log)
    for days in range(3):
        assert log.compact(now=NOW + days * DAY).cleaned_to == 1
        assert log.markers() == [(2, MarkerType.COMMIT)]
        assert not log.headers()[-1].has_delete_horizon


# Producers


def test_the_batches_a_producer_is_remembered_by_stay_without_their_records(engine: Engine) -> None:
    log = CompactedLog()
    for i in range(7):
        log.put(("a", str(i)), ("a", str(i)), producer=1)
    log.put(("a", "last"))
    log.roll()
    before = log.producers()
    log.compact(engine=engine)
    assert [header.record_count for header in log.headers()] == [0, 0, 0, 0, 0, 1]
    assert [header.base_sequence for header in log.headers()][:5] == [4, 6, 8, 10, 12]
    log.restart(with_snapshots=False)
    assert log.producers() == before


def test_a_retry_is_recognised_after_its_record_was_compacted_and_the_snapshots_are_lost() -> None:
    log = CompactedLog()
    offset = log.put(("a", "1"), producer=1)
    log.put(("a", "2"))
    log.roll()
    log.compact()
    log.restart(with_snapshots=False)
    log.sequences[1] = 0
    assert log.put(("a", "1"), producer=1) == offset
    assert log.log.end_offset == 2


def test_batches_of_a_forgotten_producer_go() -> None:
    log = CompactedLog()
    log.put(("a", "1"), producer=1)
    log.put(("a", "2"))
    log.roll()
    forget_producers(log)
    log.compact()
    assert [header.base_offset for header in log.headers()] == [1]


def test_an_emptied_batch_in_a_transaction_keeps_its_marker() -> None:
    log = CompactedLog()
    log.put(("a", "1"), producer=1, in_transaction=True)
    log.abort(1)
    log.put(("a", "2"))
    log.roll()
    for days in range(4):
        log.compact(now=NOW + days * DAY)
    assert [header.record_count for header in log.headers()] == [0, 1, 1]
    log.restart(with_snapshots=False)
    assert not log.log.producers.open_transactions
    assert log.newest() == {b"a": b"2"}


@pytest.mark.parametrize("with_snapshots", [True, False])
def test_what_a_marker_has_ended_is_not_repeated_after_compaction(with_snapshots: bool) -> None:
    log = CompactedLog()
    log.put(("a", "1"), producer=1, in_transaction=True)
    log.abort(1)
    log.put(("a", "2"), producer=2)
    log.roll()
    for days in range(4):
        log.compact(now=NOW + days * DAY)
    log.restart(with_snapshots=with_snapshots)
    log.sequences[1] = log.sequences[2] = 0
    with pytest.raises(OutOfOrderSequence):
        log.put(("a", "3"), producer=1, in_transaction=True)
    assert log.put(("a", "2"), producer=2) == 2
    assert log.newest() == {b"a": b"2"}


def test_the_last_marker_of_a_producer_stays_so_that_its_epoch_still_fences() -> None:
    log = CompactedLog()
    log.put(("a", "1"), producer=1, in_transaction=True)
    log.end(1, MarkerType.ABORT, bumps_epoch=True, coordinator_epoch=7)
    log.put(("a", "2"))
    log.roll()
    for days in range(4):
        log.compact(now=NOW + days * DAY)
    before = log.producers()
    log.restart(with_snapshots=False)
    assert log.producers() == before
    assert (before[1].epoch, before[1].coordinator_epoch) == (1, 7)


def test_an_older_marker_of_a_remembered_producer_goes_once_there_is_a_newer_one() -> None:
    log = CompactedLog()
    log.commit(1)
    log.put(("a", "1"))
    log.roll()
    log.compact(now=NOW)
    log.compact(now=NOW + DAY)
    assert [offset for offset, _ in log.markers()] == [0]
    log.commit(1)
    log.roll()
    log.compact(now=NOW + DAY)
    assert [offset for offset, _ in log.markers()] == [2]


def test_the_batch_that_ends_the_log_stays_so_that_readers_arrive_there() -> None:
    log = CompactedLog()
    log.put(("a", "1"))
    log.put((None, "goes"))
    log.roll()
    log.compact()
    assert [(header.base_offset, header.record_count) for header in log.headers()] == [(0, 1), (1, 0)]
    log.put(("b", "1"))
    log.roll()
    log.compact()
    assert [header.base_offset for header in log.headers()] == [0, 2]
