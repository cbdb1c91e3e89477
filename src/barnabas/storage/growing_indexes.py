"""The offset index and the time index of a segment that grows: which batches get an entry, and what is in the files.

They live in memory and are written when the segment is closed, or now and then, so that an append is one write. A
batch gets an entry when `index.interval.bytes` of log lie between it and the last one that has.

Invariant: a timestamp is in the time index, or it is not larger than `max_timestamp`; `complete` adds the largest.
Must not know: what is in the log file, or whether the files of the indexes can be trusted.
"""

from barnabas.core.model import NO_OFFSET
from barnabas.storage.cache import OpenFiles
from barnabas.storage.disk import File
from barnabas.storage.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from barnabas.storage.offset_index import OffsetIndex
from barnabas.storage.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from barnabas.storage.time_index import TimeIndex


class GrowingIndexes:
    """Both indexes of one segment. `entry_position` is that of the last batch with an entry."""

    __slots__ = (
        "_written_offsets",
        "_written_times",
        "base_offset",
        "entry_position",
        "interval_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "offsets",
        "times",
    )

    def __init__(
        self, base_offset: int, interval_bytes: int, offsets: OffsetIndex | None = None, times: TimeIndex | None = None
    ) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.offsets = OffsetIndex() if offsets is None else offsets
        self.times = TimeIndex() if times is None else times
        self.entry_position = self.offsets.last()[1]
        self.max_timestamp, relative_offset = self.times.last()
        self.max_timestamp_offset = base_offset + relative_offset if relative_offset >= 0 else NO_OFFSET
        self._written_offsets = self._written_times = 0

    def note(self, position: int, last_offset: int, max_timestamp: int) -> None:
        """The next batch is at `position`."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if position - self.entry_position > self.interval_bytes:
            self.add_entry(position, last_offset - self.base_offset)

    def add_entry(self, position: int, relative_offset: int) -> None:
        """Give the batch at `position`, which ends with that offset, an entry."""
        self.entry_position = position
        self.offsets.offsets.append(relative_offset)
        self.offsets.positions.append(position)
        if self.max_timestamp > self.times.newest:
            self.times.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def complete(self) -> None:
        """Add the largest timestamp: the segment ends here, for now."""
        if self.max_timestamp_offset >= 0:
            self.times.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def note_written(self) -> None:
        """The files have all entries."""
        self._written_offsets, self._written_times = len(self.offsets), len(self.times)

    def take(self, rebuilt: "GrowingIndexes") -> None:
        """Take the entries of indexes rebuilt from the same log. The owner may have noted more meanwhile."""
        self.offsets, self.times = rebuilt.offsets, rebuilt.times
        self._written_offsets = self._written_times = 0

    def write(self, files: OpenFiles, offsets_path: str, times_path: str) -> list[File]:
        """Write the new entries to the files; returns the files, to be synced."""
        offsets, times = files.create(offsets_path), files.create(times_path)
        if self._written_offsets == self._written_times == 0:
            # New, rebuilt or cut: what the files hold may be something else.
            offsets.truncate(0)
            times.truncate(0)
        if len(self.offsets) > self._written_offsets:
            offsets.write(self._written_offsets * OFFSET_ENTRY_SIZE, self.offsets.encode(self._written_offsets))
        if len(self.times) > self._written_times:
            times.write(self._written_times * TIME_ENTRY_SIZE, self.times.encode(self._written_times))
        self.note_written()
        return [offsets, times]
