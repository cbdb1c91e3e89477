"""Which flipped bit explains a wrong checksum."""

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.flipped_bit import flipped_byte


def flip(data: bytes, *bits: int) -> bytes:
    flipped = bytearray(data)
    for bit in bits:
        flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


@given(st.binary(min_size=1, max_size=300), st.data())
def test_a_bit_flipped_anywhere_is_found(data: bytes, choose: st.DataObject) -> None:
    bit = choose.draw(st.integers(0, 8 * len(data) - 1))
    found = flipped_byte(len(data), found_crc=crc32c(flip(data, bit)), expected_crc=crc32c(data))
    assert found == bit // 8


@given(st.binary(max_size=300), st.integers(0, 31))
def test_a_bit_flipped_in_the_checksum_is_told_apart(data: bytes, bit: int) -> None:
    assert flipped_byte(len(data), found_crc=crc32c(data), expected_crc=crc32c(data) ^ (1 << bit)) == -1


@given(st.binary(min_size=2, max_size=300), st.data())
def test_two_flipped_bits_are_not_one(data: bytes, choose: st.DataObject) -> None:
    bits = choose.draw(st.sets(st.integers(0, 8 * len(data) - 1), min_size=2, max_size=2))
    assert flipped_byte(len(data), found_crc=crc32c(flip(data, *bits)), expected_crc=crc32c(data)) is None


def test_bytes_that_are_right_have_no_flipped_bit() -> None:
    assert flipped_byte(5, found_crc=crc32c(b"right"), expected_crc=crc32c(b"right")) is None
