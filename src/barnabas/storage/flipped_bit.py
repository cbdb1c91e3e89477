"""Whether a single flipped bit explains a wrong checksum.

A checksum is linear: how much it is off depends on which bits flipped, not on the data. So the difference between
the checksum found and the one expected is taken back byte by byte, and at some byte it is what one bit there does.
"""

from typing import Final

from barnabas.core.records.batch import Buffer

_POLYNOMIAL: Final = 0x82F63B78  # CRC-32C, lowest bit first


def _after_byte(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE: Final = tuple(_after_byte(byte) for byte in range(256))
_BY_TOP: Final = {value >> 24: byte for byte, value in enumerate(_TABLE)}
_ONE_BIT: Final = frozenset(_TABLE[1 << bit] for bit in range(8))


def is_one_bit_off(data: Buffer, *, found_crc: int, expected_crc: int) -> bool:
    """Whether flipping one bit of `data`, or of the expected checksum, would make both checksums equal."""
    difference = found_crc ^ expected_crc
    if difference.bit_count() == 1:
        return True
    for _ in range(len(data)):
        if difference in _ONE_BIT:
            return True
        byte = _BY_TOP[difference >> 24]
        difference = (difference ^ _TABLE[byte]) << 8 | byte
    return False
