"""Zigzag varints: known encodings, round trips, and every way they can be broken."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import CorruptRecord
from barnabas.core.records.varint import encode_varint, encode_varlong, read_varint, read_varlong
from tests.support.examples import examples

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_known_values_have_their_known_bytes(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert encode_varlong(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)
    assert read_varlong(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(int32s, st.binary(max_size=3), st.binary(max_size=3))
def test_a_varint_round_trips_in_the_middle_of_other_bytes(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    assert read_varint(before + encoded + after, len(before)) == (value, len(before) + len(encoded))


@given(int64s)
def test_a_varlong_round_trips(value: int) -> None:
    encoded = encode_varlong(value)
    assert len(encoded) <= 10
    assert read_varlong(memoryview(encoded), 0) == (value, len(encoded))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63])
def test_a_number_that_does_not_fit_a_varint_is_not_written(value: int) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        encode_varint(value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_that_does_not_fit_a_varlong_is_not_written(value: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        encode_varlong(value)


def test_a_number_in_more_bytes_than_it_needs_is_read() -> None:
    assert read_varint(b"\x82\x80\x80\x80\x00", 0) == (1, 5)
    assert read_varlong(b"\x82" + b"\x80" * 8 + b"\x00", 0) == (1, 10)


@pytest.mark.parametrize("bad", [b"\x80" * 5 + b"\x00", b"\xff" * 100])
def test_a_varint_of_more_than_five_bytes_is_corrupt(bad: bytes) -> None:
    with pytest.raises(CorruptRecord, match="beyond 5 bytes"):
        read_varint(bad, 0)


def test_a_varlong_of_more_than_ten_bytes_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="beyond 10 bytes"):
        read_varlong(b"\x80" * 10 + b"\x00", 0)


def test_bits_beyond_the_type_are_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="more bits"):
        read_varint(b"\xff\xff\xff\xff\x10", 0)
    with pytest.raises(CorruptRecord, match="more bits"):
        read_varlong(b"\xff" * 9 + b"\x02", 0)


@pytest.mark.parametrize("bad", [b"", b"\x80", b"\x80\x80", b"\x80\x80\x80\x80"])
def test_running_off_the_buffer_is_corrupt(bad: bytes) -> None:
    with pytest.raises(CorruptRecord, match="runs off"):
        read_varint(bad, 0)
    with pytest.raises(CorruptRecord, match="runs off"):
        read_varlong(bad, 0)


@settings(max_examples=examples(300))
@given(st.binary(max_size=12), st.integers(0, 12))
def test_any_bytes_give_a_number_in_range_or_are_corrupt(data: bytes, position: int) -> None:
    for read, bits in ((read_varint, 31), (read_varlong, 63)):
        try:
            value, after = read(data, position)
        except CorruptRecord:
            continue
        assert -(2**bits) <= value < 2**bits
        assert position < after <= len(data)
