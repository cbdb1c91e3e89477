"""The batch header: read, checked and patched in place."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.core.errors import (
    BarnabasError,
    CorruptRecord,
    InvalidRecord,
    UnsupportedCompression,
    UnsupportedRecordFormat,
)
from barnabas.core.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Codec,
    TimestampType,
    add_sequence,
    assign_offset,
    attributes_of,
    check_batch,
    check_crc,
    iter_batches,
    iter_whole_batches,
    read_alone,
    read_header,
    seal,
    stamp_log_append_time,
    write_header,
)
from barnabas.core.records.record import Record, decode_batch, encode_batch

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
HEADERS = st.builds(
    BatchHeader,
    base_offset=INT64,
    batch_length=st.integers(49, 2**31 - 1),
    leader_epoch=INT32,
    magic=st.just(2),
    crc=st.integers(0, 2**32 - 1),
    attributes=st.integers(-(2**15), 2**15 - 1),
    last_offset_delta=INT32,
    base_timestamp=INT64,
    max_timestamp=INT64,
    producer_id=INT64,
    producer_epoch=st.integers(-(2**15), 2**15 - 1),
    base_sequence=INT32,
    record_count=INT32,
)


def make_batch(count: int = 3, *, base_offset: int = 0, codec: Codec = Codec.NONE) -> bytearray:
    return encode_batch(
        [Record(base_offset + n, 1000 + n, b"k", b"v" * 10) for n in range(count)], codec=codec, leader_epoch=4
    )


@given(HEADERS)
def test_a_header_reads_as_it_was_written(header: BatchHeader) -> None:
    buffer = bytearray(HEADER_SIZE)
    write_header(buffer, 0, header)
    assert read_header(buffer) == header


def test_the_header_has_the_layout_of_the_format() -> None:
    batch = make_batch(2, base_offset=7)
    assert struct.unpack_from(">q", batch, 0) == (7,)
    assert struct.unpack_from(">i", batch, 8) == (len(batch) - 12,)
    assert struct.unpack_from(">i", batch, 12) == (4,)
    assert batch[16] == 2
    assert struct.unpack_from(">hiqqqhii", batch, 21) == (0, 1, 1000, 1001, -1, -1, -1, 2)


def test_every_bit_of_the_attributes_has_its_meaning() -> None:
    for codec in Codec:
        header = read_header(make_batch())._replace(attributes=attributes_of(codec))
        assert header.codec is codec
    plain = read_header(make_batch())
    everything = plain._replace(
        attributes=attributes_of(
            Codec.ZSTD,
            TimestampType.LOG_APPEND_TIME,
            is_transactional=True,
            is_control=True,
            has_delete_horizon=True,
        )
    )
    assert (plain.timestamp_type, plain.is_transactional, plain.is_control, plain.has_delete_horizon) == (
        TimestampType.CREATE_TIME,
        False,
        False,
        False,
    )
    assert everything.attributes == 0b1111100
    assert everything.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert everything.is_transactional
    assert everything.is_control
    assert everything.has_delete_horizon


def test_offset_and_epoch_are_assigned_in_place_and_leave_the_checksum_right() -> None:
    batch = make_batch()
    before = read_header(batch)
    assign_offset(batch, 0, before, base_offset=2**40, leader_epoch=9)
    after = read_header(batch)
    assert after == before._replace(base_offset=2**40, leader_epoch=9)
    check_crc(batch, 0, after)
    assert [record.offset for record in decode_batch(batch)] == [2**40, 2**40 + 1, 2**40 + 2]


def test_log_append_time_is_stamped_on_all_records() -> None:
    batch = make_batch()
    stamp_log_append_time(batch, 0, read_header(batch), 5_000)
    assert {record.timestamp for record in decode_batch(batch)} == {5_000}


def test_a_view_of_a_larger_buffer_is_patched_where_it_lies() -> None:
    buffer = bytearray(b"xx") + make_batch() + make_batch()
    second = 2 + len(make_batch())
    assign_offset(memoryview(buffer), second, read_header(buffer, second), base_offset=33, leader_epoch=0)
    assert read_header(buffer, 2).base_offset == 0
    assert read_header(buffer, second).base_offset == 33


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_format_is_refused_with_advice(magic: int) -> None:
    batch = make_batch()
    batch[16] = magic
    for buffer in (batch, batch[:30]):
        with pytest.raises(UnsupportedRecordFormat, match=f"v{magic} is not supported.*format v2"):
            read_header(buffer)


def test_a_format_that_does_not_exist_is_refused() -> None:
    batch = make_batch()
    batch[16] = 3
    with pytest.raises(UnsupportedRecordFormat, match="does not exist"):
        read_header(batch)


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_a_length_that_cannot_hold_a_header_is_refused(length: int) -> None:
    batch = make_batch()
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptRecord, match="length"):
        read_header(batch)


def test_too_few_bytes_are_refused() -> None:
    batch = make_batch()
    for size in range(HEADER_SIZE):
        with pytest.raises(CorruptRecord, match="too few"):
            read_header(batch[:size])
    with pytest.raises(CorruptRecord, match="too few"):
        read_header(batch, len(batch) + 5)


def test_batches_are_walked_and_an_incomplete_one_is_an_error() -> None:
    buffer = make_batch(1) + make_batch(2) + make_batch(3)
    assert [header.record_count for _, header in iter_batches(buffer)] == [1, 2, 3]
    with pytest.raises(CorruptRecord):
        list(iter_batches(buffer[:-1]))


def test_a_fetched_piece_may_end_anywhere() -> None:
    whole = make_batch(1) + make_batch(2)
    first = len(make_batch(1))
    for size in range(len(whole) + 1):
        expected = 0 if size < first else 1 if size < len(whole) else 2
        assert len(list(iter_whole_batches(whole[:size]))) == expected


def test_any_flipped_bit_inside_the_checksum_is_noticed() -> None:
    batch = make_batch()
    for position in range(17, len(batch)):
        batch[position] ^= 0x10
        with pytest.raises(CorruptRecord, match="checksum"):
            check_batch(batch, 0, read_header(batch))
        with pytest.raises(BarnabasError):
            read_alone(batch)
        batch[position] ^= 0x10
    assert read_alone(batch) == read_header(batch)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"record_count": -1}, InvalidRecord),
        ({"last_offset_delta": -1}, InvalidRecord),
        ({"attributes": 5}, UnsupportedCompression),
        ({"attributes": 7}, UnsupportedCompression),
    ],
)
def test_impossible_counts_and_codecs_are_refused(change: dict[str, int], refusal: type[BarnabasError]) -> None:
    batch = make_batch()
    write_header(batch, 0, read_header(batch)._replace(**change))
    seal(batch, 0, len(batch))
    with pytest.raises(refusal):
        check_batch(batch, 0, read_header(batch))
    with pytest.raises(refusal):
        read_alone(batch)


def test_several_batches_or_a_piece_of_one_are_not_one() -> None:
    assert read_alone(make_batch() + make_batch()) is None
    assert read_alone(make_batch()[:-1]) is None


def test_sequences_wrap_after_the_largest() -> None:
    assert add_sequence(2**31 - 1, 1) == 0
    assert add_sequence(2**31 - 2, 3) == 1
    header = read_header(make_batch(3))._replace(base_sequence=2**31 - 1)
    assert header.last_sequence == 1
