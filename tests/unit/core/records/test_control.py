"""Control batches: markers round trip, later versions and other types are stepped over, damage is refused."""

import struct

import pytest

from barnabas.core.errors import CorruptRecord, InvalidRecord
from barnabas.core.model import NO_EPOCH, NO_SEQUENCE
from barnabas.core.records.batch import check_batch, read_header
from barnabas.core.records.control import Marker, MarkerType, encode_marker, read_marker
from barnabas.core.records.record import Record, decode_batch, encode_batch

COMMIT_KEY = struct.pack(">hh", 0, 1)


def control_batch(key: bytes | None, value: bytes | None) -> bytearray:
    return encode_batch([Record(0, 0, key, value)], is_control=True, is_transactional=True)


def read(batch: bytearray) -> Marker:
    return read_marker(batch, 0, read_header(batch))


@pytest.mark.parametrize("type_", [MarkerType.COMMIT, MarkerType.ABORT])
def test_a_marker_round_trips(type_: MarkerType) -> None:
    batch = encode_marker(
        type_,
        producer_id=9,
        producer_epoch=4,
        coordinator_epoch=77,
        timestamp_ms=1_700_000_000_000,
        base_offset=120,
        leader_epoch=6,
    )
    header = read_header(batch)
    check_batch(batch, 0, header)
    assert read_marker(batch, 0, header) == Marker(type_, 77)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 4, NO_SEQUENCE)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (120, 120, 6)


def test_the_bytes_of_a_marker_are_those_of_the_format() -> None:
    batch = encode_marker(MarkerType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=258, timestamp_ms=5)
    assert decode_batch(batch) == [Record(0, 5, b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x01\x02")]


def test_a_marker_is_read_where_it_lies_among_others() -> None:
    first = encode_marker(MarkerType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=1, timestamp_ms=0)
    second = encode_marker(MarkerType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=2, timestamp_ms=0)
    log = first + second
    assert read_marker(log, len(first), read_header(log, len(first))) == Marker(MarkerType.ABORT, 2)


def test_fields_of_a_later_version_are_ignored() -> None:
    key = struct.pack(">hh", 3, 1) + b"new"
    value = struct.pack(">hi", 2, 41) + b"also new"
    assert read(control_batch(key, value)) == Marker(MarkerType.COMMIT, 41)


@pytest.mark.parametrize(
    ("number", "type_"),
    [
        (2, MarkerType.LEADER_CHANGE),
        (3, MarkerType.SNAPSHOT_HEADER),
        (4, MarkerType.SNAPSHOT_FOOTER),
        (5, MarkerType.KRAFT_VERSION),
        (6, MarkerType.KRAFT_VOTERS),
        (7, MarkerType.UNKNOWN),
        (-1, MarkerType.UNKNOWN),
        (32767, MarkerType.UNKNOWN),
    ],
)
@pytest.mark.parametrize("value", [None, b"", b"whatever"])
def test_other_control_records_are_told_by_type_and_end_no_transaction(
    number: int, type_: MarkerType, value: bytes | None
) -> None:
    marker = read(control_batch(struct.pack(">hh", 0, number), value))
    assert marker == Marker(type_, NO_EPOCH)
    assert not marker.type.ends_transaction


def test_a_control_batch_emptied_by_cleaning_says_nothing() -> None:
    batch = encode_batch([], base_offset=4, last_offset=4, is_control=True, is_transactional=True)
    assert read(batch) == Marker(MarkerType.UNKNOWN)


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", struct.pack(">hh", -1, 1)])
def test_a_control_record_without_a_readable_type_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptRecord):
        read(control_batch(key, struct.pack(">hi", 0, 1)))


@pytest.mark.parametrize("value", [None, b"", b"\x00\x00\x00\x00\x01", struct.pack(">hi", -1, 1)])
def test_a_marker_without_a_coordinator_epoch_is_corrupt(value: bytes | None) -> None:
    with pytest.raises(CorruptRecord):
        read(control_batch(COMMIT_KEY, value))


def test_a_marker_batch_of_two_records_is_corrupt() -> None:
    value = struct.pack(">hi", 0, 1)
    batch = encode_batch([Record(0, 0, COMMIT_KEY, value), Record(1, 0, COMMIT_KEY, value)], is_control=True)
    with pytest.raises(CorruptRecord, match="2 records instead of one"):
        read(batch)


def test_an_ordinary_batch_has_no_marker() -> None:
    with pytest.raises(InvalidRecord, match="not a control batch"):
        read(encode_batch([Record(0, 0, COMMIT_KEY, None)]))


@pytest.mark.parametrize("type_", [MarkerType.UNKNOWN, MarkerType.LEADER_CHANGE])
def test_only_what_ends_a_transaction_is_written_as_a_marker(type_: MarkerType) -> None:
    with pytest.raises(InvalidRecord, match="does not end a transaction"):
        encode_marker(type_, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
