"""Records: round trips over every field and codec, and every way a batch can lie about its records."""

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import (
    BarnabasError,
    CorruptRecord,
    InvalidRecord,
    RecordTooLarge,
    UnsupportedCompression,
    UnsupportedRecordFormat,
)
from barnabas.core.records.batch import (
    HEADER_SIZE,
    Codec,
    TimestampType,
    check_batch,
    read_header,
    seal,
)
from barnabas.core.records.record import Record, decode_batch, encode_batch, payload
from barnabas.core.records.varint import encode_varint
from tests.support.examples import examples
from tests.unit.core.records.forgery import LIES, body, forge, sized
from tests.unit.core.records.strategies import codecs, records

ONE = Record(7, 1_700_000_000_000, b"key", b"value", (("h", b"1"),))


@settings(max_examples=examples(150), deadline=None)
@given(records(), codecs, st.sampled_from([bytes, bytearray, memoryview]))
def test_records_of_any_shape_round_trip_through_any_codec(
    batch: list[Record], codec: Codec, kind: type[bytes]
) -> None:
    encoded = encode_batch(batch, codec=codec)
    check_batch(encoded, 0, read_header(encoded))
    assert decode_batch(kind(encoded)) == batch


@given(records(max_size=3), st.integers(0, 50), st.binary(max_size=50))
def test_a_batch_is_read_in_the_middle_of_other_bytes(batch: list[Record], before: int, after: bytes) -> None:
    assert decode_batch(bytes(before) + encode_batch(batch) + after, before) == batch


def test_the_header_says_what_was_asked_for() -> None:
    batch = [Record(10, 500, b"k", b"v"), Record(14, 400, None, None)]
    header = read_header(
        encode_batch(
            batch,
            leader_epoch=3,
            codec=Codec.ZSTD,
            level=9,
            producer_id=5,
            producer_epoch=6,
            base_sequence=7,
            is_transactional=True,
        )
    )
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 14, 2)
    assert (header.base_timestamp, header.max_timestamp) == (500, 500)
    assert (header.leader_epoch, header.codec) == (3, Codec.ZSTD)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, 7)
    assert header.is_transactional
    assert not header.is_control


def test_a_batch_that_lost_its_ends_keeps_its_range() -> None:
    encoded = encode_batch([ONE], base_offset=3, last_offset=20)
    assert read_header(encoded).base_offset == 3
    assert read_header(encoded).last_offset == 20
    assert decode_batch(encoded) == [ONE]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_may_have_lost_all_its_records(codec: Codec) -> None:
    encoded = encode_batch([], base_offset=3, last_offset=20, codec=codec)
    assert read_header(encoded).next_offset == 21
    assert decode_batch(encoded) == []


def test_a_delete_horizon_changes_no_timestamp() -> None:
    encoded = encode_batch([ONE], delete_horizon_ms=1_800_000_000_000)
    assert read_header(encoded).has_delete_horizon
    assert read_header(encoded).base_timestamp == 1_800_000_000_000
    assert decode_batch(encoded) == [ONE]


def test_under_log_append_time_every_record_has_the_time_of_the_batch() -> None:
    batch = [Record(0, 100, None, b"a"), Record(1, 900, None, b"b"), Record(2, 300, None, b"c")]
    encoded = encode_batch(batch, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert [record.timestamp for record in decode_batch(encoded)] == [900, 900, 900]


def test_header_keys_that_are_not_utf8_keep_their_bytes() -> None:
    raw = b"\xff\x00\xc3\xa9\xed\xa0\x80"
    name = raw.decode("utf-8", "surrogateescape")
    (decoded,) = decode_batch(encode_batch([Record(0, 0, None, None, ((name, b"v"),))]))
    assert decoded.headers[0][0].encode("utf-8", "surrogateescape") == raw


def test_record_attributes_are_ignored() -> None:
    assert decode_batch(forge(sized(body(attributes=b"\xff")))) == [Record(0, 0, None, None)]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([], "needs its base and last offset"),
        ([Record(5, 0, None, None), Record(5, 0, None, None)], "offset 5 after 5"),
        ([Record(5, 0, None, None), Record(4, 0, None, None)], "cannot reach from offset 5 to 4"),
        ([Record(0, 0, None, None), Record(2**31, 0, None, None)], "cannot reach"),
        ([Record(2**63, 0, None, None)], "cannot reach"),
        ([Record(0, 2**63, None, None)], "more than 64 bits"),
        ([Record(0, -(2**63), None, None), Record(1, 2**63 - 1, None, None)], "too far apart"),
    ],
)
def test_what_the_format_cannot_hold_is_not_written(batch: list[Record], message: str) -> None:
    with pytest.raises(InvalidRecord, match=message):
        encode_batch(batch)


def test_a_record_outside_the_given_range_is_not_written() -> None:
    with pytest.raises(InvalidRecord, match="offset 7 after 7"):
        encode_batch([ONE], base_offset=8, last_offset=9)


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_lies_about_its_records_is_corrupt(lie: str) -> None:
    with pytest.raises(CorruptRecord):
        decode_batch(LIES[lie])


def test_the_forged_batches_would_be_read_if_they_told_the_truth() -> None:
    truth = forge(
        sized(body(headers=encode_varint(1) + b"\x02a\x01"))
        + sized(body(timestamp_delta=2**63 - 1, offset_delta=3, key=b"\x04ab", value=b"\x00")),
        count=2,
        last_offset_delta=5,
    )
    assert decode_batch(truth) == [
        Record(0, 0, None, None, (("a", None),)),
        Record(3, 2**63 - 1, b"ab", b""),
    ]


def test_a_wrong_checksum_is_corrupt_unless_it_was_settled_before() -> None:
    encoded = encode_batch([ONE])
    encoded[-1] ^= 0xFF
    with pytest.raises(CorruptRecord, match="checksum"):
        decode_batch(encoded)
    encoded = encode_batch([ONE])
    encoded[17] ^= 0xFF
    assert decode_batch(encoded, verify_crc=False) == [ONE]


def test_an_incomplete_batch_is_corrupt_at_every_length() -> None:
    encoded = encode_batch([ONE])
    for size in range(len(encoded)):
        with pytest.raises(CorruptRecord):
            decode_batch(encoded[:size])


def test_a_codec_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnsupportedCompression, match="codec 5"):
        decode_batch(forge(sized(body()), attributes=5))


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_another_format_is_refused(magic: int) -> None:
    with pytest.raises(UnsupportedRecordFormat):
        decode_batch(forge(sized(body()), magic=magic))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_unpacks_to_more_than_its_limit_is_too_large(codec: Codec) -> None:
    encoded = encode_batch([Record(0, 0, None, bytes(60_000_000))], codec=codec)
    with pytest.raises(RecordTooLarge):
        decode_batch(encoded, max_bytes=1_000_000)


def test_the_payload_of_an_uncompressed_batch_is_a_view_of_it() -> None:
    encoded = encode_batch([ONE])
    section = payload(encoded, 0, read_header(encoded))
    assert isinstance(section, memoryview)
    assert section.obj is encoded
    assert bytes(section) == encoded[HEADER_SIZE:]


def test_the_payload_of_a_compressed_batch_is_that_of_the_uncompressed_one() -> None:
    plain = encode_batch([ONE])
    packed = encode_batch([ONE], codec=Codec.SNAPPY)
    assert bytes(payload(packed, 0, read_header(packed))) == bytes(payload(plain, 0, read_header(plain)))


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=60), st.integers(0, 5))
def test_any_records_section_is_read_or_refused(section: bytes, count: int) -> None:
    batch = forge(section, count=count, last_offset_delta=max(count - 1, 0))
    with contextlib.suppress(CorruptRecord):
        assert len(decode_batch(batch)) == count


def test_a_record_count_of_many_in_a_tiny_compressed_batch_costs_nothing() -> None:
    encoded = encode_batch([ONE], codec=Codec.GZIP)
    struct.pack_into(">i", encoded, 57, 2**31 - 1)
    seal(encoded, 0, len(encoded))
    with pytest.raises(BarnabasError, match="claims 2147483647 records"):
        decode_batch(encoded)
