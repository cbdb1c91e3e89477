"""Mending a segment of an open log with what another replica has: which bytes are damaged, and how they are replaced.

What is put in place of the damaged bytes is whole batches whose checksums hold, over no other offsets than are missing,
of the leader epochs that this log's own history has there. So it takes nothing back that was acknowledged: the log ends
where it ended, and every other batch stays.

Replicas store the same bytes, so the batches are usually as long as the damaged bytes, and are written over them: a
crash in the middle of it leaves damage where there was damage. Where compaction has made replicas different, the
segment is written anew beside the old one and takes its place as a compacted one does (`compaction.swap`).

What finds damage or writes files beside the log may run on any thread; what changes the log is its owner's.
"""

import errno
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.core.errors import CorruptLog, CorruptRecord
from barnabas.core.model import NO_EPOCH
from barnabas.core.records.batch import BatchHeader, Buffer, check_batch, iter_whole_batches
from barnabas.core.replica.leader_epochs import LeaderEpochs
from barnabas.storage.compaction.filter import KeptBatch
from barnabas.storage.compaction.output import CleanedSegment, FinishedSegment, remove_files
from barnabas.storage.compaction.swap import replace_segments
from barnabas.storage.damage import check_some
from barnabas.storage.disk import File
from barnabas.storage.log import Log
from barnabas.storage.scan import BadBatch, scan_batches
from barnabas.storage.segment import Segment

PIECE_BYTES: Final = 1024 * 1024
MAX_SEARCH_BYTES: Final = 16 * 1024 * 1024
MAX_GAPS_BYTES: Final = 64 * 1024 * 1024  # of one segment: what replaces them is held in memory


_SECTOR_SIZE: Final = 4096  # what a disk cannot read is lost in pieces of this size


class Gap(NamedTuple):
    """Damaged bytes of a segment, and the offsets that they stood for."""

    position: int
    end_position: int
    first_offset: int
    end_offset: int
    """Where the log goes on."""

    @property
    def size(self) -> int:
        return self.end_position - self.position


class Mend(NamedTuple):
    """A gap, and the batches for it."""

    gap: Gap
    data: bytes


def find_gaps(file: File, base_offset: int, *, size: int, end_offset: int) -> list[Gap]:
    """All damage in a segment of this size, which the log follows with `end_offset`; on any thread."""
    gaps: list[Gap] = []
    file = _Readable(file)
    position, offset = 0, base_offset
    while position < size:
        checked = check_some(
            file,
            position,
            size,
            min_offset=offset,
            end_offset=end_offset,
            max_work=PIECE_BYTES,
            max_search_bytes=MAX_SEARCH_BYTES,
        )
        position, offset = checked.position, checked.next_offset
        if checked.damage is not None:
            damage = checked.damage
            after = end_offset if damage.end_position == size else offset
            gaps.append(Gap(damage.position, damage.end_position, damage.first_offset, after))
    return gaps


class _Readable:
    """A file that can be read all through: zeros stand for what the disk cannot read, so it counts as damaged."""

    def __init__(self, file: File) -> None:
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    def read(self, position: int, size: int) -> bytes:
        try:
            return self._file.read(position, size)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            within = min(size, _SECTOR_SIZE - position % _SECTOR_SIZE)
            if within == size:
                return bytes(size)
        return b"".join(
            self.read(start, min(size - (start - position), _SECTOR_SIZE - start % _SECTOR_SIZE))
            for start in (position, *range(position + within, position + size, _SECTOR_SIZE))
        )

    def read_nowait(self, position: int, size: int) -> Buffer | None:
        return self._file.read_nowait(position, size)

    def write(self, position: int, data: Buffer) -> None:
        self._file.write(position, data)

    def size(self) -> int:
        return self._file.size()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._file.sync()

    def fileno(self) -> int:
        return self._file.fileno()


def missing_from(data: bytes, gap: Gap, epochs: LeaderEpochs, offset: int) -> tuple[bytes, int]:
    """Of what another replica has from `offset` on: the batches that belong in the gap, and the offset after them.

    Refused if they cannot be what was there: then this log and that of the other replica are not the same.
    """
    size = 0
    for position, header in iter_whole_batches(data):
        if header.base_offset >= gap.end_offset:
            return data[:size], gap.end_offset
        check_batch(data, position, header)
        _check_place(header, gap, epochs, offset)
        size, offset = position + header.size, header.next_offset
    return data[:size], offset


def _check_place(header: BatchHeader, gap: Gap, epochs: LeaderEpochs, offset: int) -> None:
    if header.base_offset < offset or header.next_offset > gap.end_offset:
        raise CorruptRecord(
            f"the other replica has a batch of offsets {header.base_offset} to {header.last_offset}, and missing are "
            f"{offset} to {gap.end_offset - 1}"
        )
    epoch = epochs.epoch_at(header.base_offset)
    if epoch not in (NO_EPOCH, header.leader_epoch):
        raise CorruptRecord(
            f"the other replica has offset {header.base_offset} of leader epoch {header.leader_epoch}, this one of "
            f"{epoch}"
        )


def fits_in_place(mends: Sequence[Mend]) -> bool:
    """Whether everything is as long as what it replaces."""
    return all(len(mend.data) == mend.gap.size for mend in mends)


def write_in_place(file: File, mends: Sequence[Mend]) -> None:
    """Write over the damaged bytes, in the turn in which the log is known to be as it was; to be synced."""
    for gap, data in mends:
        file.write(gap.position, data)


def write_beside(
    log: Log, segment: Segment, file: File, mends: Sequence[Mend], *, end_base_offset: int
) -> FinishedSegment:
    """Write a closed segment anew, durably, under temporary names; on any thread."""
    output = CleanedSegment(
        log.context.files.disk,
        log.directory,
        segment.base_offset,
        file,
        index_interval_bytes=log.config.index_interval_bytes,
    )
    try:
        _copy(output, file, segment.size, mends, segment.base_offset)
        finished = output.finish(end_base_offset, list(segment.txn_index.aborted()))
        log.context.files.disk.sync_dir(log.directory)
    except BaseException:
        output.discard()
        raise
    return finished


def _copy(output: CleanedSegment, file: File, size: int, mends: Sequence[Mend], base_offset: int) -> None:
    output.part_from_source()
    position = 0
    for mend in (*mends, None):
        end = size if mend is None else mend.gap.position
        try:
            for batch in scan_batches(file, position, end, min_offset=base_offset):
                output.append(KeptBatch(batch.data, batch.header))
        except BadBatch as bad:
            raise CorruptLog(f"{bad}: it was damaged while it was mended") from bad
        if mend is not None:
            for at, header in iter_whole_batches(mend.data):
                output.append(KeptBatch(memoryview(mend.data)[at : at + header.size], header))
            position = mend.gap.end_position


def put_in_place(log: Log, finished: FinishedSegment) -> None:
    """Put a segment that was written beside the log in its place. The log must be as it was."""
    replace_segments(log, (finished,))


def discard(log: Log, finished: FinishedSegment) -> None:
    """Remove what was written beside the log."""
    remove_files(log.context.files.disk, log.directory, (finished,))
