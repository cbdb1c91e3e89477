"""What lies after a committed offset: markers are no lag, and the first record tells its age."""

from barnabas.core.records.batch import assign_offset, read_header
from barnabas.core.records.control import MarkerType, encode_marker
from barnabas.core.records.record import Record, encode_batch
from barnabas.services.lag import Seen, look_after


def _batch(base_offset: int, *timestamps: int) -> bytes:
    records = [Record(base_offset + at, time, None, b"v") for at, time in enumerate(timestamps)]
    return bytes(encode_batch(records, base_offset=base_offset))


def _marker(offset: int) -> bytes:
    data = bytearray(
        encode_marker(MarkerType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=5)
    )
    assign_offset(data, 0, read_header(data), base_offset=offset, leader_epoch=0)
    return bytes(data)


def test_markers_alone_are_no_lag() -> None:
    assert look_after(_marker(4) + _marker(5), 4, 6) == Seen(markers=2, first_timestamp=None)


def test_the_first_record_that_was_not_read_tells_the_age() -> None:
    assert look_after(_marker(3) + _batch(4, 100, 200), 3, 6) == Seen(markers=1, first_timestamp=100)
    assert look_after(_batch(4, 100, 200), 5, 6) == Seen(markers=0, first_timestamp=200)


def test_what_was_read_already_does_not_count() -> None:
    assert look_after(_marker(3) + _batch(4, 100), 4, 5) == Seen(markers=0, first_timestamp=100)
