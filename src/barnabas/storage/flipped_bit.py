"""Whether a single flipped bit explains a wrong checksum.

A checksum is linear: how much it is off depends on which bits flipped, not on the data. So the difference between
the checksum found and the one expected is taken back byte by byte, and at some byte it is what one bit there does.
"""

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78  # CRC-32C, lowest bit first


def _after_byte(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE: Final = tuple(_after_byte(byte) for byte in range(256))
_BY_TOP: Final = {value >> 24: byte for byte, value in enumerate(_TABLE)}
_ONE_BIT: Final = frozenset(_TABLE[1 << bit] for bit in range(8))


def flipped_byte(size: int, *, found_crc: int, expected_crc: int) -> int | None:
    """Which of `size` bytes has the one flipped bit that explains the checksum; -1 for the checksum itself."""
    difference = found_crc ^ expected_crc
    if difference.bit_count() == 1:
        return -1
    for byte in reversed(range(size)):
        if difference in _ONE_BIT:
            return byte
        top = _BY_TOP[difference >> 24]
        difference = (difference ^ _TABLE[top]) << 8 | top
    return None
