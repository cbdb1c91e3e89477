"""Whether one flipped bit explains a wrong checksum."""

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.flipped_bit import is_one_bit_off


@given(st.binary(min_size=1, max_size=300), st.data())
def test_a_bit_flipped_anywhere_is_recognised(data: bytes, choose: st.DataObject) -> None:
    bit = choose.draw(st.integers(0, 8 * len(data) - 1))
    flipped = bytearray(data)
    flipped[bit // 8] ^= 1 << bit % 8
    assert is_one_bit_off(flipped, found_crc=crc32c(flipped), expected_crc=crc32c(data))


@given(st.binary(max_size=300), st.integers(0, 31))
def test_a_bit_flipped_in_the_checksum_is_recognised(data: bytes, bit: int) -> None:
    assert is_one_bit_off(data, found_crc=crc32c(data), expected_crc=crc32c(data) ^ (1 << bit))


@given(st.binary(min_size=2, max_size=300), st.data())
def test_two_flipped_bits_are_not_one(data: bytes, choose: st.DataObject) -> None:
    bits = choose.draw(st.sets(st.integers(0, 8 * len(data) - 1), min_size=2, max_size=2))
    flipped = bytearray(data)
    for bit in bits:
        flipped[bit // 8] ^= 1 << bit % 8
    assert not is_one_bit_off(flipped, found_crc=crc32c(flipped), expected_crc=crc32c(data))


def test_bytes_that_are_right_are_not_off() -> None:
    assert not is_one_bit_off(b"right", found_crc=crc32c(b"right"), expected_crc=crc32c(b"right"))
