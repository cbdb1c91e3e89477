"""Reading a log in two steps: the owner plans it (`ReadPlan`), and any thread carries it out (`Slice`)."""

from typing import NamedTuple

from barnabas.core.records.batch import Buffer
from barnabas.storage.disk import File
from barnabas.storage.health import DirectoryHealth
from barnabas.storage.readable_segment import SegmentGone
from barnabas.storage.segment import Segment


class Slice(NamedTuple):
    """Bytes of one segment that were located but not read: for `read`, or for sendfile."""

    file: File
    position: int
    size: int

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)

    def read_nowait(self) -> Buffer | None:
        """The bytes if they are in memory; None if the disk is needed, which is work for a thread."""
        return self.file.read_nowait(self.position, self.size)


class ReadPlan(NamedTuple):
    """The segments that a read may find its batches in. They are looked at on any thread."""

    offset: int
    bound: int
    segments: list[Segment]
    end_position: int | None  # of the bound in the last segment, where that is known
    is_fresh: bool  # appended by this process to the segment that is still active: in memory, most likely
    health: DirectoryHealth

    def locate(self, max_bytes: int) -> Slice | None:
        """Up to `max_bytes` of batches of one segment, but at least one; None when there is none below the bound.

        A segment may be replaced or removed meanwhile by its owner: `SegmentGone` means that a new plan is needed.
        """
        try:
            for segment in self.segments:
                found = segment.find(self.offset)
                if found is None:
                    continue  # compaction emptied the rest of this segment
                position, header = found
                if header.last_offset >= self.bound:
                    return None
                size = max(min(max_bytes, self._end_of(segment) - position), header.size)
                return Slice(segment.file(), position, size)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and any(segment.is_gone for segment in self.segments):
                raise SegmentGone(str(error)) from error
            raise self.health.fail(error) from error
        return None

    def _end_of(self, segment: Segment) -> int:
        """Where the batches of a segment that lie wholly below the bound end."""
        if segment is not self.segments[-1]:
            return segment.size
        if self.end_position is not None:
            return self.end_position
        found = segment.find(self.bound)
        return segment.size if found is None else found[0]
