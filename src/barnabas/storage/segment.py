"""One segment of a log: a file of record batches, and the sparse indexes that find an offset or a time in it.

The last segment of a log is *active*: it is appended to, and its indexes live in memory. They are written when
the segment is closed, so an append is one write. All others never change; their indexes load on first use and are
let go again by `OpenFiles`. An index that is missing or wrong is rebuilt from the log file, which alone is the truth.

Invariants: `size` is the length of good data, and bytes beyond it are never read; index positions lie below `size`.
Must not know: other segments, producers, epochs.
"""

from collections.abc import Iterator, Sequence

from barnabas.core.errors import BarnabasError
from barnabas.core.model import NO_OFFSET, NO_TIMESTAMP
from barnabas.core.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, Buffer, read_header
from barnabas.storage.cache import OpenFiles
from barnabas.storage.config import FOREVER
from barnabas.storage.disk import File
from barnabas.storage.names import INDEX, LOG, SEGMENT_SUFFIXES, TIME_INDEX, TXN_INDEX, segment_file
from barnabas.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from barnabas.storage.offset_index import MAX_RELATIVE_OFFSET, DamagedIndex, OffsetIndex
from barnabas.storage.scan import BadBatch, FoundBatch, scan_batches, walk_headers
from barnabas.storage.small_file import read_file, replace_file
from barnabas.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from barnabas.storage.time_index import TimeIndex
from barnabas.storage.txn_index import AbortedTransaction, encode_aborted, parse_aborted


class SegmentGone(Exception):
    """The segment was removed or replaced while somebody else looked at it. Nothing is wrong; look again."""


class Segment:
    """The batches from `base_offset` on, up to the next segment."""

    __slots__ = (
        "_aborted",
        "_aborted_written",
        "_closes_at",
        "_directory",
        "_entry_position",
        "_files",
        "_first_timestamp",
        "_index",
        "_index_interval_bytes",
        "_is_gone",
        "_max_age_ms",
        "_max_size",
        "_size",
        "_time_index",
        "_unheld",
        "_written_entries",
        "base_offset",
        "held",
        "log_path",
        "max_timestamp",
        "max_timestamp_offset",
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
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._aborted: list[AbortedTransaction] | None = None
        self._aborted_written = 0  # how many of those are in the file
        self._entry_position = 0
        self._written_entries = (0, 0)
        self.held: File | None = None
        self._unheld: File | None = None  # what was written to while too many are held
        self._is_gone = False
        self._first_timestamp: int | None = None
        self._max_size = self._max_age_ms = self._closes_at = FOREVER
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = NO_OFFSET

    @classmethod
    def create(cls, files: OpenFiles, directory: str, base_offset: int, *, index_interval_bytes: int) -> "Segment":
        """A new, empty, active segment. Leftovers under its names, from before a truncation, are emptied."""
        segment = cls(files, directory, base_offset, index_interval_bytes=index_interval_bytes, size=0)
        for suffix in (INDEX, TIME_INDEX, TXN_INDEX):
            segment._remove(suffix)
        files.create(segment.log_path).truncate(0)
        segment._index, segment._time_index, segment._aborted = OffsetIndex(), TimeIndex(), []
        return segment

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
        return self._index is not None

    def path(self, suffix: str) -> str:
        return segment_file(self._directory, self.base_offset, suffix)

    def file(self) -> File:
        """The log file, open. It is this segment's, whatever another may have put under its name since."""
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
        """It is removed, or another segment takes its place: nobody may open its files by name any more."""
        self._is_gone = True
        self.forget_files()

    @property
    def is_gone(self) -> bool:
        """Whether it was removed or replaced."""
        return self._is_gone

    def _check_present(self) -> None:
        if self._is_gone:
            raise SegmentGone(self.log_path)

    # Appending: the active segment only.

    def set_limits(self, *, max_size: int, max_age_ms: int) -> None:
        """Say when the active segment is full: by size, and by the age of its first record."""
        self._max_size, self._max_age_ms = max_size, max_age_ms
        if self.size:
            self._begin(self.first_timestamp())

    def append(self, data: Buffer, last_offset: int, max_timestamp: int) -> bool:
        """Write one batch at the end; False, with nothing done, when the segment is full or too old for it."""
        start = self._size
        assert start is not None
        end = start + len(data)
        if (end > self._max_size or max_timestamp > self._closes_at) and start:
            return False
        relative_offset = last_offset - self.base_offset
        if relative_offset > MAX_RELATIVE_OFFSET:
            return False
        file = self.held
        if file is None:
            file = self._open_to_write()
        file.write(start, data)
        self._size = end
        if start == 0:
            self._begin(max_timestamp)
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if start - self._entry_position > self._index_interval_bytes:
            index, time_index = self._index, self._time_index
            if index is None or time_index is None:
                raise AssertionError(f"{self} is not active")
            self._entry_position = start
            index.offsets.append(relative_offset)
            index.positions.append(start)
            if self.max_timestamp > time_index.newest:
                time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
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
        self._open_to_write().write(start, data)
        for position, each_last_offset, max_timestamp in batches:
            self._note(start + position, each_last_offset, max_timestamp)
        self._size = start + len(data)
        if start == 0:
            self._begin(batches[0][2])
        return True

    def _open_to_write(self) -> File:
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
        """Take away, durably, what a write left behind the end that failed half way: no old bytes may lie behind, or
        among, new ones, or a crash would make them look like damage.
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

    def release(self) -> None:
        """The file is synced, or gone."""
        self._unheld = None
        if self.held is not None:
            self.held = None
            self._files.held -= 1

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Add to the transaction index; written at once, for aborts are rare."""
        self.note_aborted(transaction)
        self.write_aborted()

    def note_aborted(self, transaction: AbortedTransaction) -> None:
        """Add to the transaction index in memory, where readers find it. `write_aborted` makes it count."""
        self.aborted().append(transaction)

    @property
    def has_unwritten_aborted(self) -> bool:
        return self._aborted is not None and len(self._aborted) > self._aborted_written

    def write_aborted(self) -> File:
        """Bring the file of the transaction index up to what is in memory; returns it, to be synced."""
        aborted = self.aborted()
        file = self._files.create(self.path(TXN_INDEX))
        written = self._aborted_written
        file.write(len(encode_aborted(aborted[:written])), encode_aborted(aborted[written:]))
        self._aborted_written = len(aborted)
        return file

    def write_indexes(self) -> list[File]:
        """Bring the index files up to what is in memory; returns them, to be synced."""
        index, time_index = self._index, self._time_index
        assert index is not None
        assert time_index is not None
        done, time_done = self._written_entries
        offsets, times = self._files.create(self.path(INDEX)), self._files.create(self.path(TIME_INDEX))
        if done == time_done == 0:  # new, rebuilt or cut: what the files hold may be something else
            offsets.truncate(0)
            times.truncate(0)
        if len(index) > done:
            offsets.write(done * OFFSET_ENTRY_SIZE, index.encode(done))
        if len(time_index) > time_done:
            times.write(time_done * TIME_ENTRY_SIZE, time_index.encode(time_done))
        self._written_entries = (len(index), len(time_index))
        return [offsets, times]

    def close(self) -> list[File]:
        """End the time of the active segment: complete and write its indexes, and let them go from memory."""
        written = self.begin_close()
        self.end_close()
        return written

    def begin_close(self) -> list[File]:
        """Complete and write the indexes; returns their files, to be synced. It is active still, and may stay so."""
        assert self._time_index is not None
        if self.max_timestamp_offset >= 0:
            self._time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        if self.has_unwritten_aborted:
            self.write_aborted()
        return [*self.write_indexes(), *self.txn_index_files()]

    def end_close(self) -> None:
        """Let the indexes go from memory."""
        self._index = self._time_index = None
        self._files.forget(self.path(INDEX))  # what was loaded when it was closed before, and cut since
        self._files.forget(self.path(TIME_INDEX))

    def txn_index_files(self) -> list[File]:
        """The file of the transaction index, to be synced, if there is one."""
        return [self._files.file(self.path(TXN_INDEX))] if self._aborted else []

    def _begin(self, first_timestamp: int) -> None:
        # A record without a timestamp has no age to count from.
        self._first_timestamp = first_timestamp
        self._closes_at = first_timestamp + self._max_age_ms if first_timestamp >= 0 else FOREVER

    def _note(self, position: int, last_offset: int, max_timestamp: int) -> None:
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            # The offset of a batch is not under its checksum: this is where a flipped bit shows.
            reason = f"offset {last_offset} cannot be in this segment"
            raise BadBatch(self.log_path, position, is_torn=False, reason=reason).as_corrupt_log()
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if position - self._entry_position > self._index_interval_bytes:
            self._add_entry(position, last_offset - self.base_offset)

    def _add_entry(self, position: int, relative_offset: int) -> None:
        assert self._index is not None
        assert self._time_index is not None
        self._entry_position = position
        self._index.offsets.append(relative_offset)
        self._index.positions.append(position)
        self._time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    # Finding: any segment, from any thread.

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
        return self.max_timestamp if self.is_active else self.time_index().last()[0]

    def first_timestamp(self) -> int:
        """The timestamp of the first batch, or -1 while empty: the segment's age counts from it."""
        if self._first_timestamp is None:
            if self.size == 0:
                return NO_TIMESTAMP
            _, header = next(self.headers())
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    def time_index(self) -> TimeIndex:
        if self._time_index is not None:
            return self._time_index
        try:
            return self._files.time_indexes.get(self.path(TIME_INDEX), self._load_time_index)
        except DamagedIndex:
            self.rebuild_indexes()
            return self._files.time_indexes.get(self.path(TIME_INDEX), self._load_time_index)

    def aborted(self) -> list[AbortedTransaction]:
        """The transactions whose abort marker is in this segment; a damaged index is `DamagedIndex`."""
        if self._aborted is None:
            self._aborted = parse_aborted(read_file(self._files.disk, self.path(TXN_INDEX)) or b"")
            self._aborted_written = len(self._aborted)
        return self._aborted

    # Opening, rebuilding, cutting.

    def activate(self) -> int:
        """Take the last segment of a cleanly closed log as the active one; returns the log's end offset.

        Reads the indexes and the headers after their last entry, nothing more.
        """
        try:
            index, time_index = self._parse_offset_index(), self._parse_time_index()
            self._check_entry(index)
        except DamagedIndex:
            return self.start_rebuilding(self.size)
        self._become_active(index, time_index)
        self._written_entries = (len(index), len(time_index))
        return self._note_from(self._entry_position)

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
        return self._note_from(self._entry_position)

    def _become_active(self, index: OffsetIndex, time_index: TimeIndex) -> None:
        self._index, self._time_index = index, time_index
        self._written_entries = (0, 0)
        self._entry_position = index.last()[1]
        self.max_timestamp, relative_offset = time_index.last()
        self.max_timestamp_offset = self.base_offset + relative_offset if relative_offset >= 0 else NO_OFFSET

    def _note_from(self, position: int) -> int:
        """Go through the headers from `position` on; returns the offset after the last."""
        end_offset = self.base_offset
        for found, header in self.headers(position):
            self._note(found, header.last_offset, header.max_timestamp)
            end_offset = header.next_offset
        return end_offset

    def note_batch(self, position: int, header: BatchHeader) -> None:
        """A scan found the next batch to be good."""
        assert position == self._size
        self._note(position, header.base_offset + header.last_offset_delta, header.max_timestamp)
        self._size = position + header.batch_length + LOG_OVERHEAD

    def rebuild_indexes(self) -> None:
        """Make the indexes anew from the headers of the log file."""
        rebuilt = Segment(
            self._files, self._directory, self.base_offset, index_interval_bytes=self._index_interval_bytes
        )
        rebuilt._index, rebuilt._time_index, rebuilt._aborted = OffsetIndex(), TimeIndex(), []
        end_offset = self.base_offset
        for position, header in self.headers():
            if not end_offset <= header.base_offset <= header.last_offset:
                reason = f"offsets {header.base_offset} to {header.last_offset} come after {end_offset - 1}"
                raise BadBatch(self.log_path, position, is_torn=False, reason=reason).as_corrupt_log()
            rebuilt._note(position, header.last_offset, header.max_timestamp)
            end_offset = header.next_offset
        self._check_present()
        self._files.forget(self.path(INDEX))
        self._files.forget(self.path(TIME_INDEX))
        if self.is_active:
            self._index, self._time_index = rebuilt._index, rebuilt._time_index
            self._written_entries = (0, 0)
        else:
            rebuilt.close()

    def truncate(self, position: int, *, end_offset: int) -> None:
        """Cut an active segment back to `position`, durably, so that no old byte can come back behind new ones."""
        index, time_index = self._index, self._time_index
        assert index is not None
        assert time_index is not None
        index.truncate(position)
        time_index.truncate(end_offset - self.base_offset)
        # The files of the indexes go: were they only written over, a crash could bring back entries of what is cut.
        self._remove(INDEX)
        self._remove(TIME_INDEX)
        file = self.file()
        file.truncate(position)
        file.sync()
        self._size = position
        self.cut_aborted(end_offset)
        try:
            self._check_entry(index)
        except DamagedIndex:
            index, time_index = OffsetIndex(), TimeIndex()
        self._become_active(index, time_index)
        self._note_from(self._entry_position)
        self._first_timestamp = None

    def cut_aborted(self, end_offset: int) -> None:
        """Drop transactions that ended at or after `end_offset` from the index; a damaged one is `DamagedIndex`."""
        aborted = self.aborted()
        kept = [transaction for transaction in aborted if transaction.last_offset < end_offset]
        if len(kept) != len(aborted):
            self.replace_aborted(kept)

    def forget_aborted(self) -> None:
        """Empty the transaction index, to be filled again by a scan."""
        self._remove(TXN_INDEX)
        self._aborted, self._aborted_written = [], 0

    def replace_aborted(self, aborted: list[AbortedTransaction]) -> None:
        """Write the transaction index anew, in one step: a crash leaves the old one or the new one."""
        self._files.forget(self.path(TXN_INDEX))
        replace_file(self._files.disk, self.path(TXN_INDEX), encode_aborted(aborted))
        self._aborted, self._aborted_written = aborted, len(aborted)

    def remove(self) -> None:
        """Remove the files; who still reads from them reads on."""
        self.retire()
        for suffix in SEGMENT_SUFFIXES:
            self._remove(suffix)

    def forget_files(self) -> None:
        """Let go of open files and loaded indexes."""
        self.release()
        for suffix in SEGMENT_SUFFIXES:
            self._files.forget(self.path(suffix))

    def _remove(self, suffix: str) -> None:
        path = self.path(suffix)
        self._files.forget(path)
        if self._files.disk.exists(path):
            self._files.disk.remove(path)

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
        if self._index is not None:
            return self._index
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
        return index, 8 * len(index) + 64

    def _load_time_index(self, _path: str) -> tuple[TimeIndex, int]:
        index = self._parse_time_index()
        self._check_times(index)
        return index, 12 * len(index) + 64

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
