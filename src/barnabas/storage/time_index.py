"""The sparse time index of a segment: the largest timestamp so far, and the offset that has it.

On disk 12 bytes an entry, big-endian: timestamp in milliseconds, offset relative to the segment's base. Both grow
strictly: an entry is only added when a later time was seen.
"""

import struct
from array import array
from bisect import bisect_right
from itertools import chain
from typing import Final

from barnabas.storage.offset_index import DamagedIndex, is_growing

ENTRY_SIZE: Final = 12
_ENTRY: Final = struct.Struct(">qi")


class TimeIndex:
    """Timestamps and the relative offsets at which each first became the largest seen."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("i")

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def newest(self) -> int:
        """The largest timestamp, or -1."""
        return self.timestamps[-1] if self.timestamps else -1

    def maybe_append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry unless a timestamp as large is already there."""
        if timestamp >= 0 and (not self.timestamps or timestamp > self.timestamps[-1]):
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The last entry before `timestamp`, as (timestamp, relative offset); (-1, 0) when there is none.

        Nothing before that offset has a timestamp of at least `timestamp`.
        """
        index = bisect_right(self.timestamps, timestamp - 1) - 1
        return (self.timestamps[index], self.offsets[index]) if index >= 0 else (-1, 0)

    def last(self) -> tuple[int, int]:
        """The largest timestamp and its relative offset, or (-1, -1)."""
        return (self.timestamps[-1], self.offsets[-1]) if self.timestamps else (-1, -1)

    def truncate(self, relative_offset: int) -> None:
        """Drop entries at or beyond `relative_offset`."""
        keep = bisect_right(self.offsets, relative_offset - 1)
        del self.timestamps[keep:]
        del self.offsets[keep:]

    def encode(self, start: int = 0) -> bytes:
        count = len(self.timestamps) - start
        return struct.pack(
            ">" + "qi" * count,
            *chain.from_iterable(zip(self.timestamps[start:], self.offsets[start:], strict=True)),
        )

    @classmethod
    def parse(cls, data: bytes) -> "TimeIndex":
        if len(data) % ENTRY_SIZE:
            raise DamagedIndex(f"time index of {len(data)} bytes is not a whole number of entries")
        index = cls()
        for timestamp, offset in _ENTRY.iter_unpack(data):
            index.timestamps.append(timestamp)
            index.offsets.append(offset)
        if index.timestamps and (
            index.timestamps[0] < 0
            or index.offsets[0] < 0
            or not is_growing(index.timestamps)
            or not is_growing(index.offsets)
        ):
            raise DamagedIndex("time index is not strictly growing")
        return index
