"""The aborted transactions of a segment, found by the offset of their abort marker.

A `read_committed` consumer is told of the aborted transactions that touch what it fetched. On disk 34 bytes an
entry, big-endian: version, producer id, first offset, offset of the marker, last stable offset at that time.
Most segments have none and no file.
"""

import struct
from typing import Final, NamedTuple

from barnabas.storage.offset_index import DamagedIndex

VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """One aborted transaction; `last_offset` is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(aborted: list[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(VERSION, *transaction) for transaction in aborted)


def parse_aborted(data: bytes) -> list[AbortedTransaction]:
    """The entries of a file, refused when their markers are not in order."""
    if len(data) % ENTRY_SIZE:
        raise DamagedIndex(f"transaction index of {len(data)} bytes is not a whole number of entries")
    entries: list[AbortedTransaction] = []
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version != VERSION or (entries and entry.last_offset <= entries[-1].last_offset):
            raise DamagedIndex("transaction index has an unknown version or is not in order")
        if not 0 <= entry.first_offset < entry.last_offset:
            raise DamagedIndex(f"transaction index has an impossible transaction {entry}")
        entries.append(entry)
    return entries
