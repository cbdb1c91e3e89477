"""The sparse offset index of a segment: about one entry per `index.interval.bytes` of log.

An entry says: the batch at this position ends with this offset. On disk 8 bytes, big-endian: the offset relative to the
segment's base, then the position. In memory two arrays of 32-bit numbers, so that a lookup is one bisection in C. The
file has no checksum; `parse` refuses impossible entries, a lookup checks the batch it finds, and a segment whose index
is refused builds a new one from its log.
"""

import sys
from array import array
from bisect import bisect_right
from typing import Final

ENTRY_SIZE: Final = 8
MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class DamagedIndex(Exception):
    """An index that contradicts itself or its log. The owner of the segment rebuilds it."""


class OffsetIndex:
    """Relative offsets and positions, both strictly growing."""

    __slots__ = ("offsets", "positions")

    offsets: "array[int]"
    positions: "array[int]"

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def lookup(self, relative_offset: int) -> tuple[int, int]:
        """The last entry not beyond the offset, as (relative offset, position); (-1, 0) when none is."""
        index = bisect_right(self.offsets, relative_offset) - 1
        return (self.offsets[index], self.positions[index]) if index >= 0 else (-1, 0)

    def last(self) -> tuple[int, int]:
        """The last entry, or (-1, 0)."""
        return (self.offsets[-1], self.positions[-1]) if self.offsets else (-1, 0)

    def truncate(self, position: int) -> None:
        """Drop entries for batches at or beyond `position`."""
        keep = bisect_right(self.positions, position - 1)
        del self.offsets[keep:]
        del self.positions[keep:]

    def truncate_after(self, relative_offset: int) -> None:
        """Drop entries for batches that end beyond `relative_offset`."""
        keep = bisect_right(self.offsets, relative_offset)
        del self.offsets[keep:]
        del self.positions[keep:]

    def encode(self, start: int = 0) -> bytes:
        """The entries from the `start`-th on, as they stand in the file."""
        pairs = array("i", bytes(ENTRY_SIZE * (len(self.offsets) - start)))
        pairs[0::2] = self.offsets[start:]
        pairs[1::2] = self.positions[start:]
        return _big_endian(pairs).tobytes()

    @classmethod
    def parse(cls, data: bytes, *, log_size: int) -> "OffsetIndex":
        """The index in `data`, refused when its entries are not growing or lie beyond the log."""
        if len(data) % ENTRY_SIZE:
            raise DamagedIndex(f"offset index of {len(data)} bytes is not a whole number of entries")
        pairs = _big_endian(array("i", data))
        index = cls()
        index.offsets, index.positions = pairs[0::2], pairs[1::2]
        if index.offsets and (
            index.offsets[0] < 0
            or index.positions[0] < 0
            or index.positions[-1] >= log_size
            or not is_growing(index.offsets)
            or not is_growing(index.positions)
        ):
            raise DamagedIndex("offset index is not strictly growing within its log")
        return index


def is_growing(numbers: "array[int]") -> bool:
    """Whether each number is larger than the one before."""
    return all(map(int.__lt__, numbers, memoryview(numbers)[1:]))


def _big_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
