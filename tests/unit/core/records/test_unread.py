"""What lies after a committed offset: what nobody gets is no lag, and the first record tells its age."""

from barnabas.core.records.batch import assign_offset, read_header
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.core.records.record import Record, encode_batch
from barnabas.core.records.unread import Seen, Unread, first_unread, look_after, unread


def _batch(base_offset: int, *timestamps: int, producer_id: int = -1) -> bytes:
    records = [Record(base_offset + at, time, None, b"v") for at, time in enumerate(timestamps)]
    if producer_id < 0:
        return bytes(encode_batch(records, base_offset=base_offset))
    return bytes(
        encode_batch(
            records,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )


def _marker(offset: int, *, producer_id: int = 1, is_abort: bool = False) -> bytes:
    kind = MarkerType.ABORT if is_abort else MarkerType.COMMIT
    data = bytearray(
        encode_marker(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=5)
    )
    assign_offset(data, 0, read_header(data), base_offset=offset, leader_epoch=0)
    return bytes(data)


def test_markers_alone_are_no_lag() -> None:
    seen = look_after(_marker(4) + _marker(5), 4, 6)

    assert seen == Seen(hidden=2, first_timestamp=None)
    assert unread(4, 6, seen, now_ms=500) == Unread(0, 0)


def test_the_first_record_that_was_not_read_tells_the_age() -> None:
    assert look_after(_marker(3) + _batch(4, 100, 200), 3, 6) == Seen(hidden=1, first_timestamp=100)
    assert look_after(_batch(4, 100, 200), 5, 6) == Seen(hidden=0, first_timestamp=200)
    assert unread(5, 6, Seen(0, 200), now_ms=500) == Unread(1, 300)


def test_what_was_read_already_does_not_count() -> None:
    assert look_after(_marker(3) + _batch(4, 100), 4, 5) == Seen(hidden=0, first_timestamp=100)


def test_records_of_an_aborted_transaction_are_no_lag() -> None:
    log = _batch(3, 100, 200, producer_id=7) + _marker(5, producer_id=7, is_abort=True)

    assert look_after(log, 3, 6, [(7, 3)]) == Seen(hidden=3, first_timestamp=None)
    assert look_after(log, 4, 6, [(7, 3)]) == Seen(hidden=2, first_timestamp=None)


def test_records_after_the_marker_of_an_aborted_transaction_count_again() -> None:
    log = (
        _batch(3, 100, producer_id=7)
        + _marker(4, producer_id=7, is_abort=True)
        + _batch(5, 300, producer_id=7)
        + _marker(6, producer_id=7)
    )

    assert look_after(log, 3, 7, [(7, 3)]) == Seen(hidden=3, first_timestamp=300)


def test_where_nobody_looked_offsets_count_and_the_age_is_not_known() -> None:
    assert unread(3, 6, None, now_ms=500) == Unread(3, None)
    assert unread(6, 6, None, now_ms=500) == Unread(0, 0)


def test_what_was_deleted_is_not_unread() -> None:
    assert first_unread(3, 10) == 10
    assert first_unread(12, 10) == 12


def test_a_clock_that_is_behind_the_record_makes_no_negative_age() -> None:
    assert unread(3, 4, Seen(0, 900), now_ms=500) == Unread(1, 0)
