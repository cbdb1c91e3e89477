"""The snapshots of a log's producers: which there are, the newest that can be read, and replay on top of it."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from barnabas.core.records.batch import BatchHeader
from barnabas.core.records.control import read_marker
from barnabas.core.replica.producers import CompletedTransaction, Producer, ProducerStates
from barnabas.storage.disk import Disk, File
from barnabas.storage.names import SNAPSHOT, base_offset_of, segment_file
from barnabas.storage.producer_snapshot import DamagedSnapshot, encode_snapshot, parse_snapshot
from barnabas.storage.renewal import rewrite_file
from barnabas.storage.segment import Segment
from barnabas.storage.small_file import read_file
from barnabas.storage.txn_index import AbortedTransaction


class ProducerFiles:
    """The ``.snapshot`` files of one partition directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def offsets(self) -> list[int]:
        """The offsets of all snapshots, ascending."""
        names = self._disk.list_dir(self._directory)
        return sorted(offset for name in names if (offset := base_offset_of(name, SNAPSHOT)) is not None)

    def write(self, offset: int, producers: ProducerStates) -> File:
        """Write the state as of `offset`; returns the file, to be synced."""
        data = encode_snapshot(producers)
        file = self._disk.open(segment_file(self._directory, offset, SNAPSHOT), create=True)
        file.write(0, data)
        file.truncate(len(data))
        return file

    def sync(self, offset: int) -> None:
        """Make the bytes of a snapshot durable, an earlier process's, too; its name is the directory's."""
        rewrite_file(self._disk, segment_file(self._directory, offset, SNAPSHOT))

    def newest_offset(self, *, at_most: int) -> int | None:
        """The offset of the newest readable snapshot not beyond `at_most`."""
        found = self.newest(at_most=at_most)
        return None if found is None else found[0]

    def newest(self, *, at_most: int) -> tuple[int, list[Producer]] | None:
        """The newest readable snapshot not beyond `at_most`. One that is damaged is passed over."""
        for offset in reversed(self.offsets()):
            if offset > at_most:
                continue
            data = read_file(self._disk, segment_file(self._directory, offset, SNAPSHOT))
            try:
                return offset, parse_snapshot(data or b"")
            except DamagedSnapshot:
                continue
        return None

    def remove_between(self, after: int, before: int) -> None:
        """Remove snapshots in (after, before): older points in the active segment are no longer needed."""
        self.remove(offset for offset in self.offsets() if after < offset < before)

    def beyond(self, offset: int) -> list[int]:
        """The offsets of snapshots beyond a truncation at `offset`."""
        return [found for found in self.offsets() if found > offset]

    def remove_beyond(self, offset: int) -> None:
        """Remove snapshots beyond a truncation."""
        self.remove(self.beyond(offset))

    def remove_below(self, offset: int) -> None:
        """Remove snapshots of what was deleted from the front."""
        self.remove(found for found in self.offsets() if found < offset)

    def remove(self, offsets: Iterable[int]) -> None:
        """Remove the snapshots at these offsets."""
        for offset in list(offsets):
            with suppress(FileNotFoundError):  # retention removes those below the start on a thread of its own
                self._disk.remove(segment_file(self._directory, offset, SNAPSHOT))


def find_aborted(files: ProducerFiles, segments: Sequence[Segment], *, end_position: int) -> list[AbortedTransaction]:
    """The transactions aborted in the last of these segments, from the producers before it and the markers in it."""
    last = segments[-1]
    producers = ProducerStates()
    start_offset = segments[0].base_offset
    snapshot = files.newest(at_most=last.base_offset)
    if snapshot is not None and snapshot[0] >= start_offset:
        start_offset, entries = snapshot
        producers.restore(entries)
    first = max(index for index, segment in enumerate(segments) if segment.base_offset <= start_offset)
    aborted = []
    for segment in segments[first:]:
        for position, header in segment.headers(end=end_position if segment is last else None):
            completed = None
            if header.base_offset >= start_offset:
                completed = replay_batch(producers, segment, position, header)
            if completed is not None and completed.is_aborted and segment is last:
                aborted.append(aborted_entry(producers, completed))
    return aborted


def aborted_entry(producers: ProducerStates, completed: CompletedTransaction) -> AbortedTransaction:
    """The entry of the transaction index for a transaction that was just aborted."""
    stable = producers.last_stable_offset_after(completed)
    return AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)


def replay_batch(
    producers: ProducerStates, segment: Segment, position: int, header: BatchHeader
) -> CompletedTransaction | None:
    """Bring producers up to date with one batch of the log; a control batch is read from `segment`."""
    if not header.has_producer:
        return None
    if not header.is_control:
        return producers.apply(header)
    marker = read_marker(segment.read_batch(position, header).data, 0, header)
    return producers.apply(header, marker if marker.type.ends_transaction else None)
