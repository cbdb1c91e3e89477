"""A cleaned segment while it is written: the log, its indexes and its transaction index, each under a temporary name.

Until it differs from its source nothing is written at all, for most clean segments do not change from one round to
the next. What is written has no effect before `swap.apply` has renamed it; `recovery` removes it after a crash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.core.errors import StorageError
from barnabas.storage.compaction.filter import KeptBatch
from barnabas.storage.disk import Disk, File
from barnabas.storage.growing_indexes import GrowingIndexes
from barnabas.storage.names import CLEANED, INDEX, LOG, TIME_INDEX, segment_file, swap_txn_index_file
from barnabas.storage.txn_index import AbortedTransaction, encode_aborted

_WRITE_SIZE: Final = 1024 * 1024
_MAX_SIZE: Final = 2**31 - 1  # positions in an index have 32 bits


@dataclass(frozen=True, slots=True)
class FinishedSegment:
    """A finished, synced cleaned segment that replaces the segments with a base offset in [base, end base)."""

    base_offset: int
    end_base_offset: int
    size: int

    def replaces(self, base_offset: int) -> bool:
        """Whether this output replaces the segment with this base offset."""
        return self.base_offset <= base_offset < self.end_base_offset


class CleanedSegment:
    """The cleaned segment from `base_offset` on. It begins as a copy of `source`, unwritten as long as it is one."""

    def __init__(
        self, disk: Disk, directory: str, base_offset: int, source: File, *, index_interval_bytes: int
    ) -> None:
        self._disk = disk
        self._directory = directory
        self.base_offset = base_offset
        self._source = source
        self._indexes = GrowingIndexes(base_offset, index_interval_bytes)
        self._file: File | None = None
        self._buffer = bytearray()
        self._names: list[str] = []
        self.size = 0

    @property
    def is_written(self) -> bool:
        """Whether it is different from its source."""
        return self._file is not None

    def append(self, batch: KeptBatch) -> None:
        """Add a batch at the end."""
        data, header = batch
        if self.size + len(data) > _MAX_SIZE:
            raise StorageError(
                f"{self._path(LOG)} would grow beyond 2 GiB, which an index cannot address: the log cannot be "
                "compacted as it is"
            )
        self._indexes.note(self.size, header.last_offset, header.max_timestamp)
        self.size += len(data)
        if self._file is not None:
            self._buffer += data
            if len(self._buffer) >= _WRITE_SIZE:
                self._write()

    def part_from_source(self) -> None:
        """The next batch differs from the source: write what was identical so far."""
        if self._file is not None:
            return
        self._file = self._create(self._path(LOG))
        for position in range(0, self.size, _WRITE_SIZE):
            self._file.write(position, self._source.read(position, min(_WRITE_SIZE, self.size - position)))

    def finish(self, end_base_offset: int, aborted: list[AbortedTransaction]) -> FinishedSegment:
        """Make everything durable, under temporary names."""
        assert self._file is not None
        self._write()
        self._file.sync()
        self._indexes.complete()
        # Written here, because a segment without them would make them when it is next read, on the event loop.
        self._write_file(self._path(INDEX), self._indexes.offsets.encode())
        self._write_file(self._path(TIME_INDEX), self._indexes.times.encode())
        # Always there, even if empty: that it is gone is how a repeated swap knows it was put in place.
        txn_index = swap_txn_index_file(self._directory, self.base_offset, end_base_offset)
        self._write_file(txn_index, encode_aborted(aborted))
        return FinishedSegment(self.base_offset, end_base_offset, self.size)

    def discard(self) -> None:
        """Remove what was written."""
        for name in self._names:
            if self._disk.exists(name):
                self._disk.remove(name)

    def _path(self, suffix: str) -> str:
        return cleaned_file(self._directory, self.base_offset, suffix)

    def _create(self, path: str) -> File:
        # A leftover is removed, not written to: after a crash it may be another name of a file in use.
        if self._disk.exists(path):
            self._disk.remove(path)
        self._names.append(path)
        return self._disk.open(path, create=True)

    def _write(self) -> None:
        assert self._file is not None
        self._file.write(self.size - len(self._buffer), self._buffer)
        self._buffer = bytearray()

    def _write_file(self, path: str, data: bytes) -> None:
        file = self._create(path)
        file.write(0, data)
        file.sync()


def cleaned_file(directory: str, base_offset: int, suffix: str) -> str:
    """Where a file of a cleaned segment is until the swap."""
    return segment_file(directory, base_offset, suffix) + CLEANED


def output_files(directory: str, output: FinishedSegment) -> list[str]:
    """The files of a finished output, the log first."""
    return [
        cleaned_file(directory, output.base_offset, LOG),
        cleaned_file(directory, output.base_offset, INDEX),
        cleaned_file(directory, output.base_offset, TIME_INDEX),
        swap_txn_index_file(directory, output.base_offset, output.end_base_offset),
    ]


def remove_files(disk: Disk, directory: str, outputs: Sequence[FinishedSegment]) -> None:
    """Remove the files of outputs that will not be used."""
    for output in outputs:
        for path in output_files(directory, output):
            if disk.exists(path):
                disk.remove(path)
