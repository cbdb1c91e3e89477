"""A segment that grows: appending to the active one, closing it, and making a closed one active again.

The last segment of a log is *active*: it is appended to, and its indexes live in memory. They are written when the
segment is closed, so an append is one write. All others never change, but for a truncation that makes one of them
active again. What is read of a segment, and how, is in `readable_segment`.

Invariants: only the active segment has growing indexes; a write that failed leaves nothing behind `size` once
`cut_unfinished` has returned.
Must not know: other segments, producers, epochs.
"""

from collections.abc import Sequence

from barnabas.core.errors import BarnabasError
from barnabas.core.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Buffer, read_header
from barnabas.storage.cache import OpenFiles
from barnabas.storage.config import FOREVER
from barnabas.storage.disk import File
from barnabas.storage.growing_indexes import GrowingIndexes
from barnabas.storage.names import INDEX, SEGMENT_SUFFIXES, TIME_INDEX
from barnabas.storage.offset_index import MAX_RELATIVE_OFFSET, DamagedIndex, OffsetIndex
from barnabas.storage.readable_segment import ReadableSegment
from barnabas.storage.time_index import TimeIndex


class Segment(ReadableSegment):
    """The batches from `base_offset` on, up to the next segment."""

    __slots__ = ("_closes_at", "_max_age_ms", "_max_size")

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        size: int | None = None,
    ) -> None:
        super().__init__(files, directory, base_offset, index_interval_bytes=index_interval_bytes, size=size)
        self._max_size = self._max_age_ms = self._closes_at = FOREVER

    @classmethod
    def create(cls, files: OpenFiles, directory: str, base_offset: int, *, index_interval_bytes: int) -> "Segment":
        """A new, empty, active segment. Leftovers under its names, from before a truncation, are emptied."""
        segment = cls(files, directory, base_offset, index_interval_bytes=index_interval_bytes, size=0)
        files.remove(segment.path(INDEX))
        files.remove(segment.path(TIME_INDEX))
        segment.txn_index.clear()
        files.create(segment.log_path).truncate(0)
        segment._indexes = GrowingIndexes(base_offset, index_interval_bytes)
        return segment

    # Appending: the active segment only.

    def set_limits(self, *, max_size: int, max_age_ms: int) -> None:
        """Say when the active segment is full: by size, and by the age of its first record."""
        self._max_size, self._max_age_ms = max_size, max_age_ms
        if self.size:
            self._begin(self.first_timestamp())

    def append(self, data: Buffer, last_offset: int, max_timestamp: int) -> bool:
        """Write one batch at the end; False, with nothing done, when the segment is full or too old for it."""
        start, indexes = self._size, self._indexes
        if start is None or indexes is None:
            raise AssertionError(f"{self} is not active")
        end = start + len(data)
        if (end > self._max_size or max_timestamp > self._closes_at) and start:
            return False
        relative_offset = last_offset - self.base_offset
        if relative_offset > MAX_RELATIVE_OFFSET:
            return False
        file = self.held
        if file is None:
            file = self.open_to_write()
        file.write(start, data)
        self._size = end
        if start == 0:
            self._begin(max_timestamp)
        if max_timestamp > indexes.max_timestamp:
            indexes.max_timestamp, indexes.max_timestamp_offset = max_timestamp, last_offset
        if start - indexes.entry_position > indexes.interval_bytes:
            indexes.add_entry(start, relative_offset)
        return True

    def append_several(self, data: Buffer, batches: Sequence[tuple[int, int, int]]) -> bool:
        """Write batches, given as (position, last offset, max timestamp), in one go; False as for `append`."""
        start = self.size
        last_offset = batches[-1][1]
        newest = max(max_timestamp for _, _, max_timestamp in batches)
        if (start + len(data) > self._max_size or newest > self._closes_at) and start:
            return False
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return False
        indexes = self._active_indexes()
        self.open_to_write().write(start, data)
        for position, each_last_offset, max_timestamp in batches:
            self._note(indexes, start + position, each_last_offset, max_timestamp)
        self._size = start + len(data)
        if start == 0:
            self._begin(batches[0][2])
        return True

    def open_to_write(self) -> File:
        """The file, kept open until it is synced, so that its error cannot be lost: counted, or in `_unheld` when too
        many are. Before the write, for afterwards nothing may come in between.
        """
        file = self.file()
        if self.held is None and self._files.held < self._files.max_held:
            self.held = file
            self._files.held += 1
        elif self.held is None:
            self._unheld = file
        return file

    def cut_unfinished(self) -> None:
        """Remove, durably, the bytes of a failed write beyond the end: no old bytes may remain behind, or among, new
        ones, or after a crash they would look like damage.
        """
        if self._files.disk.file_size(self.log_path) > self.size:
            file = self.file()
            file.truncate(self.size)
            file.sync()

    def hold(self) -> bool:
        """Whether the file is kept open until it is synced; False when too many are, and it should be synced soon."""
        return self.held is not None

    def let_go(self) -> None:
        """The file is synced and need not be held; it still is, for the next append, while there is room."""
        self._unheld = None
        if self._files.held > self._files.max_held // 2:
            self.release()

    def write_indexes(self) -> list[File]:
        """Bring the index files up to what is in memory; returns them, to be synced."""
        return self._active_indexes().write(self._files, self.path(INDEX), self.path(TIME_INDEX))

    def close(self) -> list[File]:
        """Close the active segment: complete and write its indexes, and drop them from memory."""
        written = self.begin_close()
        self.end_close()
        return written

    def begin_close(self) -> list[File]:
        """Complete and write the indexes; returns their files, to be synced. It is active still, and may stay so."""
        self._active_indexes().complete()
        if self.txn_index.has_unwritten:
            self.txn_index.write()
        return [*self.write_indexes(), *self.txn_index.written_files()]

    def end_close(self) -> None:
        """Drop the indexes from memory."""
        self._indexes = None
        self._forget_indexes()  # what was loaded when it was closed before, and cut since

    def _active_indexes(self) -> GrowingIndexes:
        if self._indexes is None:
            raise AssertionError(f"{self} is not active")
        return self._indexes

    def _begin(self, first_timestamp: int) -> None:
        # A record without a timestamp has no age to count from.
        self._first_timestamp = first_timestamp
        self._closes_at = first_timestamp + self._max_age_ms if first_timestamp >= 0 else FOREVER

    # Opening, cutting, removing.

    def activate(self) -> int:
        """Take the last segment of a cleanly closed log as the active one; returns the log's end offset.

        Reads the indexes and the headers after their last entry, nothing more.
        """
        try:
            index, time_index = self._parse_offset_index(), self._parse_time_index()
            self._check_entry(index)
        except DamagedIndex:
            return self.start_rebuilding(self.size)
        self._become_active(index, time_index).note_written()
        return self._note_rest()

    def known_position(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`, from the index file when that can be trusted."""
        try:
            entry_offset, position = self._parse_offset_index().lookup(offset - 1 - self.base_offset)
        except DamagedIndex:
            return 0
        head = self.file().read(position, HEADER_SIZE)
        try:
            header = read_header(head)
        except BarnabasError:
            return 0
        return position if header.last_offset - self.base_offset == entry_offset else 0

    def start_rebuilding(self, position: int) -> int:
        """Become active with good data up to `position` only; returns the offset after it.

        `note_batch` then adds what a scan finds.
        """
        try:
            index, time_index = self._parse_offset_index(), self._parse_time_index()
            index.truncate(position)
            # While a segment is active its index files are not synced, and a crash may leave more of one than of the
            # other. What the time index does not reach is gone through again, or its largest time might be missed.
            time_index.truncate(index.last()[0] + 1)
            index.truncate_after(time_index.last()[1])
            self._check_entry(index)
        except DamagedIndex:
            index, time_index = OffsetIndex(), TimeIndex()
        self._size = position
        self._become_active(index, time_index)
        return self._note_rest()

    def _become_active(self, index: OffsetIndex, time_index: TimeIndex) -> GrowingIndexes:
        self._indexes = GrowingIndexes(self.base_offset, self._index_interval_bytes, index, time_index)
        return self._indexes

    def _note_rest(self) -> int:
        """Go through the headers from the last one with an index entry on; returns the offset after the last."""
        indexes = self._active_indexes()
        end_offset = self.base_offset
        for found, header in self.headers(indexes.entry_position):
            self._note(indexes, found, header.last_offset, header.max_timestamp)
            end_offset = header.next_offset
        return end_offset

    def note_batch(self, position: int, header: BatchHeader) -> None:
        """A scan found the next batch to be good."""
        indexes = self._indexes
        assert position == self._size
        assert indexes is not None
        last_offset = header.base_offset + header.last_offset_delta
        if 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:  # recovery does this for every batch
            indexes.note(position, last_offset, header.max_timestamp)
        else:
            self._note(indexes, position, last_offset, header.max_timestamp)  # says what is wrong
        self._size = position + header.batch_length + LOG_OVERHEAD

    def truncate(self, position: int, *, end_offset: int) -> None:
        """Truncate an active segment to `position`, durably, so that no old byte can reappear behind new ones."""
        indexes = self._active_indexes()
        index, time_index = indexes.offsets, indexes.times
        index.truncate(position)
        time_index.truncate(end_offset - self.base_offset)
        # The files of the indexes go: were they only written over, a crash could bring back entries of what is cut.
        self._files.remove(self.path(INDEX))
        self._files.remove(self.path(TIME_INDEX))
        file = self.file()
        file.truncate(position)
        file.sync()
        self._size = position
        self.txn_index.cut(end_offset)
        try:
            self._check_entry(index)
        except DamagedIndex:
            index, time_index = OffsetIndex(), TimeIndex()
        self._become_active(index, time_index)
        self._note_rest()
        self._first_timestamp = None

    def remove(self) -> None:
        """Remove the files; their readers can read on."""
        self.retire()
        for suffix in SEGMENT_SUFFIXES:
            self._files.remove(self.path(suffix))
