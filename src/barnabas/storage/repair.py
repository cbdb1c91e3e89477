"""Repairing the files of a partition that no node has open.

Two kinds of batches stop readers: one that is damaged (`storage.damage`), and one with invalid records and a valid
checksum, written by a client before records were checked. Either is replaced by an empty batch over the same offsets,
as compaction leaves one, so that no offset changes its meaning and consumers skip it. A batch of which only offset,
length or format are damaged, which the checksum does not cover, is restored instead. The replaced bytes are kept in a
separate file. A segment is written anew beside the old one and takes its place by a rename, so that a crash leaves the
old one or the new one; its indexes are removed before that, and rebuilt from the log.

What an interrupted write explains at the end of a log is left alone: the next start cuts it, as after any crash.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from barnabas.core.errors import BarnabasError, StorageError
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, TopicPartition
from barnabas.core.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MIN_RECORD_SIZE,
    BatchHeader,
    Buffer,
    check_batch,
    pack_place,
    read_header,
)
from barnabas.core.records.checking import OK
from barnabas.core.records.control import read_marker
from barnabas.core.records.record import decode_records, payload
from barnabas.storage.checkpoints import Checkpoints
from barnabas.storage.compaction.filter import emptied
from barnabas.storage.damage import check_place, find_next
from barnabas.storage.disk import Disk, File
from barnabas.storage.names import (
    INDEX,
    LOG,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    base_offset_of,
    parent_of,
    segment_file,
)
from barnabas.storage.offset_index import MAX_RELATIVE_OFFSET
from barnabas.storage.scan import BadBatch, FoundBatch, scan_batches

QUARANTINE: Final = ".quarantine"
_COPY_BYTES: Final = 1024 * 1024

RecordCheck = Callable[[Buffer, int, int], tuple[int, int]]
Keep = Callable[[str, bytes], None]
"""Writes bytes durably to a new file that only its owner may read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Bytes of a segment that cannot be read, and their replacement."""

    partition: TopicPartition
    base_offset: int
    """Of the segment."""
    path: str
    position: int
    end_position: int
    first_offset: int
    last_offset: int
    reason: str
    replacement: bytes
    is_restored: bool = False
    """Whether nothing is lost: the checksum is valid."""


def find_unreadable(
    disk: Disk, data_dir: str, partition: TopicPartition, *, check: RecordCheck | None = None
) -> Iterator[Finding]:
    """What cannot be read in a partition, in order. Reads all of it and changes nothing.

    `check` is a quick check of records: batches that pass it are not decoded.
    """
    directory = f"{data_dir}/{partition}"
    recovery_point = Checkpoints(disk, data_dir).recovery_point(partition)
    bases = sorted(base for name in disk.list_dir(directory) if (base := base_offset_of(name, LOG)) is not None)
    for index, base in enumerate(bases):
        end_offset = bases[index + 1] if index + 1 < len(bases) else None
        yield from _Search(disk, directory, partition, base, end_offset, recovery_point, check).run()


def repair_segment(disk: Disk, findings: list[Finding], keep: Keep) -> None:
    """Replace what was found in one segment, in order of positions; durable when this returns."""
    path, base = findings[0].path, findings[0].base_offset
    directory = parent_of(path)
    if any(name.endswith(SWAP) for name in disk.list_dir(directory)):
        raise StorageError(f"{directory} has an interrupted compaction: start the node once, which finishes it")
    source = disk.open(path)
    for finding in findings:
        removed = source.read(finding.position, finding.end_position - finding.position)
        keep(_quarantine_file(disk, directory, finding.first_offset), removed)
    temporary = path + TEMPORARY
    if disk.exists(temporary):
        disk.remove(temporary)
    target = disk.open(temporary, create=True)
    _write_repaired(source, target, findings)
    target.sync()
    for suffix in (INDEX, TIME_INDEX):
        if disk.exists(segment_file(directory, base, suffix)):
            disk.remove(segment_file(directory, base, suffix))
    disk.sync_dir(directory)
    disk.rename(temporary, path)
    disk.sync_dir(directory)


def _write_repaired(source: File, target: File, findings: list[Finding]) -> None:
    position, written, size = 0, 0, source.size()
    for finding in (*findings, None):
        end = size if finding is None else finding.position
        for start in range(position, end, _COPY_BYTES):
            piece = source.read(start, min(_COPY_BYTES, end - start))
            target.write(written, piece)
            written += len(piece)
        if finding is not None:
            target.write(written, finding.replacement)
            written += len(finding.replacement)
            position = finding.end_position


def _quarantine_file(disk: Disk, directory: str, offset: int) -> str:
    path, number = f"{directory}/{offset:020d}{QUARANTINE}", 1
    while disk.exists(path):
        path, number = f"{directory}/{offset:020d}.{number}{QUARANTINE}", number + 1
    return path


class _Search:
    """Goes through one segment."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        partition: TopicPartition,
        base_offset: int,
        end_offset: int | None,
        recovery_point: int,
        check: RecordCheck | None,
    ) -> None:
        self._partition = partition
        self._base_offset = base_offset
        self._end_offset = end_offset  # where the next segment begins; None: this is the last
        self._recovery_point = recovery_point
        self._check = check
        self._path = segment_file(directory, base_offset, LOG)
        self._file = disk.open(self._path)
        self._end = self._file.size()
        self._bound = base_offset + MAX_RELATIVE_OFFSET + 1 if end_offset is None else end_offset
        self._next_offset = base_offset
        self._leader_epoch = 0

    def run(self) -> Iterator[Finding]:
        position = 0
        while position < self._end:
            try:
                for batch in scan_batches(self._file, position, self._end, min_offset=self._next_offset):
                    check_place(
                        self._file,
                        batch.position,
                        batch.header,
                        self._end,
                        next_offset=self._next_offset,
                        end_offset=self._bound,
                    )
                    reason = self._problem(batch)
                    if reason is not None:
                        yield self._poisoned(batch, reason)
                    self._next_offset = batch.header.next_offset
                    self._leader_epoch = batch.header.leader_epoch
                    position = batch.position + batch.header.size
            except BadBatch as bad:
                finding = self._damaged(bad)
                if finding is None:
                    return
                yield finding
                position, self._next_offset = finding.end_position, finding.last_offset + 1

    def _problem(self, batch: FoundBatch) -> str | None:
        """Why the records of a batch with a valid checksum cannot be read."""
        header = batch.header
        try:
            if header.is_control:
                read_marker(batch.data, 0, header)
                return None
            is_complete = 0 < header.record_count == header.last_offset_delta + 1
            if self._check is not None and is_complete:
                section = payload(batch.data, 0, header)
                if self._check(section, header.record_count, header.base_timestamp)[0] == OK:
                    return None
            decode_records(batch.data, 0, header)
        except BarnabasError as error:
            return str(error)
        return None

    def _poisoned(self, batch: FoundBatch, reason: str) -> Finding:
        header = batch.header
        if header.is_control:  # it ends no transaction any more, and must not look as if it did
            empty = self._empty(header.base_offset, header.last_offset, header.leader_epoch)
        else:
            empty = bytes(emptied(header).data)
        end_position = batch.position + header.size
        return self._finding(batch.position, end_position, header.base_offset, header.last_offset, reason, empty)

    def _damaged(self, bad: BadBatch) -> Finding | None:
        first = self._next_offset
        found = find_next(self._file, bad.position, self._end, min_offset=first, max_bytes=self._end)
        is_last = found is None and self._end_offset is None
        if is_last and bad.is_torn and first >= self._recovery_point:
            return None
        end_position = self._end if found is None else found[0]
        data = bytearray(self._file.read(bad.position, end_position - bad.position))
        last = self._last_of(data, found)
        restored = self._restored(data, first)
        # A batch fills what is between its neighbours, or its offset is anybody's guess: compaction leaves gaps. Not at
        # the end of a log, though.
        if restored is not None and (is_last or read_header(restored).last_offset == last):
            last = read_header(restored).last_offset
            return self._finding(bad.position, end_position, first, last, bad.reason, restored, is_restored=True)
        empty = self._empty(first, last, self._leader_epoch) if last >= first else b""
        return self._finding(bad.position, end_position, first, last, bad.reason, empty)

    def _last_of(self, data: bytearray, found: tuple[int, BatchHeader] | None) -> int:
        """The last of the offsets that damaged bytes stood for."""
        if found is not None:
            return found[1].base_offset - 1
        if self._end_offset is not None:
            return self._end_offset - 1
        # The end of the log. Too many offsets are no harm, too few would be given twice.
        last = max(self._recovery_point - 1, self._next_offset + len(data) // MIN_RECORD_SIZE)
        try:
            header = read_header(data)
        except BarnabasError:
            return last
        is_sane = header.base_offset == self._next_offset and 0 <= header.last_offset_delta <= len(data)
        return max(self._recovery_point - 1, header.last_offset) if is_sane else last

    def _empty(self, first: int, last: int, leader_epoch: int) -> bytes:
        """An empty batch over these offsets, without a producer."""
        return bytes(
            emptied(
                BatchHeader(
                    base_offset=first,
                    batch_length=0,
                    leader_epoch=leader_epoch,
                    magic=MAGIC,
                    crc=0,
                    attributes=0,
                    last_offset_delta=min(last - first, MAX_RELATIVE_OFFSET),
                    base_timestamp=NO_TIMESTAMP,
                    max_timestamp=NO_TIMESTAMP,
                    producer_id=NO_PRODUCER_ID,
                    producer_epoch=NO_PRODUCER_EPOCH,
                    base_sequence=NO_SEQUENCE,
                    record_count=0,
                )
            ).data
        )

    def _restored(self, data: bytearray, first: int) -> bytes | None:
        """The batch, if only what is not under its checksum is damaged."""
        if len(data) < HEADER_SIZE:
            return None
        restored = bytearray(data)
        pack_place(restored, 0, first, len(data) - LOG_OVERHEAD, self._leader_epoch)
        restored[MAGIC_AT] = MAGIC
        try:
            header = read_header(restored)
            check_batch(restored, 0, header)
            decode_records(restored, 0, header)
        except BarnabasError:
            return None
        return bytes(restored)

    def _finding(
        self, position: int, end_position: int, first: int, last: int, reason: str, data: bytes, **facts: bool
    ) -> Finding:
        return Finding(
            self._partition, self._base_offset, self._path, position, end_position, first, last, reason, data, **facts
        )
