"""One segment of a log as its readers see it: a file of record batches, and the sparse indexes that find an offset or a
time in it.

The indexes of a closed segment load on first use and are evicted by `OpenFiles`; those of the active one are in
memory (`GrowingIndexes`). An index that is missing or wrong is rebuilt from the log file, which alone is the truth.

Any thread may read, while the owner of the log appends to the active segment, removes segments and replaces them.

Invariants: `size` is the length of good data, and bytes beyond it are never read; index positions lie below `size`.
Must not know: other segments, producers, epochs; how a segment grows (`segment`).
"""

from collections.abc import Iterator

from barnabas.core.errors import BarnabasError
from barnabas.core.model import NO_TIMESTAMP
from barnabas.core.records.batch import HEADER_SIZE, BatchHeader, read_header
from barnabas.storage.cache import OpenFiles
from barnabas.storage.disk import File
from barnabas.storage.growing_indexes import GrowingIndexes
from barnabas.storage.health import NO_ROOM
from barnabas.storage.names import INDEX, LOG, SEGMENT_SUFFIXES, TIME_INDEX, TXN_INDEX, segment_file
from barnabas.storage.offset_index import MAX_RELATIVE_OFFSET, DamagedIndex, OffsetIndex
from barnabas.storage.scan import BadBatch, FoundBatch, scan_batches, walk_headers
from barnabas.storage.small_file import read_file
from barnabas.storage.time_index import TimeIndex
from barnabas.storage.txn_index import TxnIndex


class SegmentGone(Exception):
    """The segment was removed or replaced during a read. This is not an error; try again."""


class ReadableSegment:
    """The batches from `base_offset` on, up to the next segment."""

    __slots__ = (
        "_directory",
        "_files",
        "_first_timestamp",
        "_index_interval_bytes",
        "_indexes",
        "_is_gone",
        "_size",
        "_unheld",
        "base_offset",
        "held",
        "log_path",
        "txn_index",
    )

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        size: int | None = None,
    ) -> None:
        self._files = files
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self.base_offset = base_offset
        self.log_path = segment_file(directory, base_offset, LOG)
        self._size = size
        self._indexes: GrowingIndexes | None = None  # of the active segment
        self.txn_index = TxnIndex(files, self.path(TXN_INDEX))
        self.held: File | None = None
        self._unheld: File | None = None  # what was written to while too many are held
        self._is_gone = False
        self._first_timestamp: int | None = None

    def __repr__(self) -> str:
        return f"Segment({self.log_path})"

    @property
    def size(self) -> int:
        """Bytes of good data."""
        if self._size is None:
            self._size = self._files.disk.file_size(self.log_path)
        return self._size

    @property
    def is_active(self) -> bool:
        return self._indexes is not None

    def path(self, suffix: str) -> str:
        return segment_file(self._directory, self.base_offset, suffix)

    def file(self) -> File:
        """The open log file. It is this segment's own, even if its name belongs to another file by now."""
        held = self.held or self._unheld
        if held is not None:
            return held
        try:
            file = self._files.file(self.log_path)
        except FileNotFoundError:
            self._check_present()
            raise
        self._check_present()  # only now: what was opened before it was gone is the right file
        return file

    def retire(self) -> None:
        """The segment is removed or replaced: its files must not be opened by name any more."""
        self._is_gone = True
        self.forget_files()

    @property
    def is_gone(self) -> bool:
        """Whether it was removed or replaced."""
        return self._is_gone

    def _check_present(self) -> None:
        if self._is_gone:
            raise SegmentGone(self.log_path)

    def release(self) -> None:
        """The file is synced, or gone."""
        self._unheld = None
        if self.held is not None:
            self.held = None
            self._files.held -= 1

    def forget_files(self) -> None:
        """Drop open files and loaded indexes."""
        self.release()
        for suffix in SEGMENT_SUFFIXES:
            self._files.forget(self.path(suffix))

    # Finding

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch that ends at or after `offset`, with its position; None when there is none."""
        try:
            return self._find(offset)
        except DamagedIndex:
            self.rebuild_indexes()
            return self._find(offset)

    def end_offset_before(self, offset: int) -> int:
        """The offset after the last batch that ends before `offset`."""
        try:
            return self._end_offset_before(offset)
        except DamagedIndex:
            self.rebuild_indexes()
            return self._end_offset_before(offset)

    def check_before(self, offset: int) -> None:
        """Check every byte between the last index entry before `offset` and the batch that `find` gives for it."""
        found = self.find(offset)
        _, start = self._loaded_index().lookup(offset - self.base_offset)
        try:
            for _ in scan_batches(
                self.file(), start, self.size if found is None else found[0], min_offset=self.base_offset
            ):
                pass
        except BadBatch as bad:
            raise bad.as_corrupt_log() from bad

    def find_time(self, timestamp: int) -> Iterator[FoundBatch]:
        """The batches from the first on that may hold a record of at least `timestamp`, in order, checked."""
        before, relative_offset = self.time_index().lookup(timestamp)
        start = self.find(self.base_offset + relative_offset)
        if before >= 0 and (start is None or start[1].max_timestamp != before):
            self.rebuild_indexes()
            start = self.find(self.base_offset + self.time_index().lookup(timestamp)[1])
        if start is None:
            return
        for position, header in self.headers(start[0]):
            if header.max_timestamp >= timestamp:
                yield self.read_batch(position, header)

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from `position` to `end`. Trusts the log; damage is `CorruptLog`."""
        try:
            yield from walk_headers(self.file(), position, self.size if end is None else end)
        except BadBatch as bad:
            raise bad.as_corrupt_log() from bad

    def batches(self, position: int = 0) -> Iterator[FoundBatch]:
        """Each batch from `position` on with every byte checked; damage is `CorruptLog`."""
        try:
            yield from scan_batches(self.file(), position, self.size, min_offset=self.base_offset)
        except BadBatch as bad:
            raise bad.as_corrupt_log() from bad

    def read_batch(self, position: int, header: BatchHeader) -> FoundBatch:
        """One batch, checked."""
        try:
            return next(
                scan_batches(
                    self.file(),
                    position,
                    position + header.size,
                    min_offset=self.base_offset,
                    chunk=header.size,
                )
            )
        except BadBatch as bad:
            raise bad.as_corrupt_log() from bad

    def newest_timestamp(self) -> int:
        """The largest timestamp of any record here, or -1."""
        indexes = self._indexes
        return self.time_index().last()[0] if indexes is None else indexes.max_timestamp

    def first_timestamp(self) -> int:
        """The timestamp of the first batch, or -1 while empty: the segment's age counts from it."""
        if self._first_timestamp is None:
            if self.size == 0:
                return NO_TIMESTAMP
            _, header = next(self.headers())
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    def time_index(self) -> TimeIndex:
        indexes = self._indexes
        if indexes is not None:
            return indexes.times
        try:
            return self._files.time_indexes.get(self.path(TIME_INDEX), self._load_time_index)
        except DamagedIndex:
            self.rebuild_indexes()
            return self._files.time_indexes.get(self.path(TIME_INDEX), self._load_time_index)

    def rebuild_indexes(self) -> None:
        """Rebuild the indexes from the headers of the log file."""
        rebuilt = GrowingIndexes(self.base_offset, self._index_interval_bytes)
        end_offset = self.base_offset
        for position, header in self.headers():
            if not end_offset <= header.base_offset <= header.last_offset:
                reason = f"offsets {header.base_offset} to {header.last_offset} come after {end_offset - 1}"
                raise BadBatch(self.log_path, position, is_torn=False, reason=reason).as_corrupt_log()
            self._note(rebuilt, position, header.last_offset, header.max_timestamp)
            end_offset = header.next_offset
        self._check_present()
        self._forget_indexes()
        if self._indexes is not None:
            self._indexes.take(rebuilt)
        else:
            rebuilt.complete()
            self._keep_rebuilt(rebuilt)

    def _keep_rebuilt(self, rebuilt: GrowingIndexes) -> None:
        """Write the rebuilt indexes of a closed segment to their files; if there is no space, keep them in memory."""
        index_path, time_index_path = self.path(INDEX), self.path(TIME_INDEX)
        try:
            rebuilt.write(self._files, index_path, time_index_path)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._files.remove(index_path)  # what there is of them
            self._files.remove(time_index_path)
            self._files.offset_indexes.get(index_path, lambda _: (rebuilt.offsets, _weight(rebuilt.offsets)))
            self._files.time_indexes.get(time_index_path, lambda _: (rebuilt.times, _weight(rebuilt.times)))
        else:
            self._forget_indexes()

    def _note(self, indexes: GrowingIndexes, position: int, last_offset: int, max_timestamp: int) -> None:
        """Index a batch that was found in the log."""
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            # The offset of a batch is not under its checksum: this is where a flipped bit shows.
            reason = f"offset {last_offset} cannot be in this segment"
            raise BadBatch(self.log_path, position, is_torn=False, reason=reason).as_corrupt_log()
        indexes.note(position, last_offset, max_timestamp)

    def _forget_indexes(self) -> None:
        """Drop the loaded indexes."""
        self._files.forget(self.path(INDEX))
        self._files.forget(self.path(TIME_INDEX))

    def _find(self, offset: int) -> tuple[int, BatchHeader] | None:
        for position, header in self._headers_near(offset):
            if header.last_offset >= offset:
                return position, header
        return None

    def _end_offset_before(self, offset: int) -> int:
        end_offset = self.base_offset
        for _, header in self._headers_near(offset - 1):
            if header.last_offset >= offset:
                break
            end_offset = header.next_offset
        return end_offset

    def _headers_near(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """The headers from one shortly before `offset` on; an index that leads elsewhere is `DamagedIndex`."""
        entry_offset, start = self._loaded_index().lookup(offset - self.base_offset)
        try:
            for position, header in walk_headers(self.file(), start, self.size):
                if position == start and entry_offset not in (-1, header.last_offset - self.base_offset):
                    raise DamagedIndex(f"offset index of {self.log_path} leads to another batch")
                yield position, header
        except BadBatch as bad:
            if bad.position == start and entry_offset >= 0:
                raise DamagedIndex(f"offset index of {self.log_path} leads to no batch") from bad
            raise bad.as_corrupt_log() from bad

    def _loaded_index(self) -> OffsetIndex:
        indexes = self._indexes
        if indexes is not None:
            return indexes.offsets
        return self._files.offset_indexes.get(self.path(INDEX), self._load_offset_index)

    def _check_entry(self, index: OffsetIndex) -> None:
        """Refuse an index whose last entry does not lead to its batch."""
        relative_offset, position = index.last()
        if relative_offset < 0:
            return
        try:
            header = read_header(self.file().read(position, HEADER_SIZE))
        except BarnabasError as error:
            raise DamagedIndex(f"offset index of {self.log_path} leads to no batch") from error
        if header.last_offset - self.base_offset != relative_offset:
            raise DamagedIndex(f"offset index of {self.log_path} leads to another batch")

    def _check_times(self, index: TimeIndex) -> None:
        """Refuse a time index whose last entry is not that of its batch, or that ends too early."""
        timestamp, relative_offset = index.last()
        found = self.find(self.base_offset + max(relative_offset, 0))
        if relative_offset >= 0 and (found is None or found[1].max_timestamp != timestamp):
            raise DamagedIndex(f"time index of {self.log_path} leads to another batch")
        if found is not None and any(header.max_timestamp > timestamp for _, header in self.headers(found[0])):
            raise DamagedIndex(f"time index of {self.log_path} ends too early")

    def _load_offset_index(self, _path: str) -> tuple[OffsetIndex, int]:
        index = self._parse_offset_index()
        return index, _weight(index)

    def _load_time_index(self, _path: str) -> tuple[TimeIndex, int]:
        index = self._parse_time_index()
        self._check_times(index)
        return index, _weight(index)

    def _parse_offset_index(self) -> OffsetIndex:
        data = read_file(self._files.disk, self.path(INDEX))
        if data is None:
            raise DamagedIndex(f"{self.log_path} has no offset index")
        return OffsetIndex.parse(data, log_size=max(self.size, 1))

    def _parse_time_index(self) -> TimeIndex:
        data = read_file(self._files.disk, self.path(TIME_INDEX))
        if data is None:
            raise DamagedIndex(f"{self.log_path} has no time index")
        return TimeIndex.parse(data)


def _weight(index: OffsetIndex | TimeIndex) -> int:
    """How much memory an index takes."""
    return (8 if isinstance(index, OffsetIndex) else 12) * len(index) + 64
