"""The aborted transactions of a segment, found by the offset of their abort marker.

A `read_committed` consumer gets the aborted transactions that overlap what it fetched. On disk 34 bytes an
entry, big-endian: version, producer id, first offset, offset of the marker, last stable offset at that time.
Most segments have none and no file.

`TxnIndex` is that of one segment: what is in memory, where readers on any thread find it, and how much of it is in the
file. The owner of the log alone changes it.
"""

import struct
from typing import Final, NamedTuple

from barnabas.storage.cache import OpenFiles
from barnabas.storage.disk import File
from barnabas.storage.offset_index import DamagedIndex
from barnabas.storage.renewal import rewrite_file
from barnabas.storage.small_file import read_file, replace_file

VERSION: Final = 0
_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """One aborted transaction; `last_offset` is that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """The transaction index of one segment, loaded on first use."""

    __slots__ = ("_aborted", "_files", "_path", "_written")

    def __init__(self, files: OpenFiles, path: str, aborted: list[AbortedTransaction] | None = None) -> None:
        self._files = files
        self._path = path
        self._aborted = aborted
        self._written = 0  # how many of those are in the file

    def aborted(self) -> list[AbortedTransaction]:
        """The transactions whose abort marker is in the segment; a damaged index is `DamagedIndex`."""
        if self._aborted is None:
            self._aborted = parse_aborted(read_file(self._files.disk, self._path) or b"")
            self._written = len(self._aborted)
        return self._aborted

    def add(self, transaction: AbortedTransaction) -> None:
        """Add a transaction; written at once, for aborts are rare."""
        self.note(transaction)
        self.write()

    def note(self, transaction: AbortedTransaction) -> None:
        """Add a transaction in memory, where readers find it. `write` writes it to the file."""
        self.aborted().append(transaction)

    @property
    def has_unwritten(self) -> bool:
        return self._aborted is not None and len(self._aborted) > self._written

    def write(self) -> File:
        """Write the new entries to the file; returns the file, to be synced."""
        aborted = self.aborted()
        file = self._files.create(self._path)
        file.write(self._written * ENTRY_SIZE, encode_aborted(aborted[self._written :]))
        self._written = len(aborted)
        return file

    def written_files(self) -> list[File]:
        """The file, to be synced, if there is one."""
        return [self._files.file(self._path)] if self._aborted else []

    def cut(self, end_offset: int) -> None:
        """Drop transactions that ended at or after `end_offset`; a damaged index is `DamagedIndex`."""
        aborted = self.aborted()
        kept = [transaction for transaction in aborted if transaction.last_offset < end_offset]
        if len(kept) != len(aborted):
            # In place: what stays is durable as it is, and a disk without room has room for that.
            file = self._files.create(self._path)
            file.truncate(min(len(kept), self._written) * ENTRY_SIZE)
            file.sync()
            self._aborted, self._written = kept, min(len(kept), self._written)

    def renew(self) -> None:
        """Make the file durable for certain, if there is one."""
        if self._files.disk.exists(self._path):
            rewrite_file(self._files.disk, self._path)

    def replace(self, aborted: list[AbortedTransaction]) -> None:
        """Replace the file atomically: a crash leaves the old one or the new one."""
        self._files.forget(self._path)
        replace_file(self._files.disk, self._path, encode_aborted(aborted))
        self._aborted, self._written = aborted, len(aborted)

    def clear(self) -> None:
        """Empty it, to be filled again by a scan."""
        self._files.remove(self._path)
        self._aborted, self._written = [], 0


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
