"""Loading the metadata of the cluster: the newest snapshot that can be read, and the log after it.

A commit without its end, at the end of the log, is cut off: a crash interrupted it, and nobody was told that it is
there. A snapshot that is damaged is passed over when an older one, or the beginning of the log, and the log from
there on make up for it. All other damage is `CorruptLog`, and nothing is changed.
"""

from collections.abc import Iterator

from barnabas.core.errors import CorruptLog, InvalidMetadata
from barnabas.core.metadata.commits import CommitReader
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import decode_record
from barnabas.core.records.record import decode_batch
from barnabas.storage.log import Log
from barnabas.storage.metadata_snapshot import MetadataSnapshots, SnapshotId
from barnabas.storage.scan import FoundBatch
from barnabas.storage.truncate import truncate_to


def load_metadata(log: Log) -> "LoadedMetadata":
    """Load the newest snapshot that can be read, and replay what the log has after it."""
    try:
        return LoadedMetadata(log)
    except InvalidMetadata as error:
        # Its checksum was right: it was written so, most likely by a version that knows more.
        raise CorruptLog(f"{log.directory} holds what cannot be applied: {error}") from error


class LoadedMetadata:
    """What a log and its snapshots come to."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.snapshots = MetadataSnapshots(log.context.files.disk, log.directory)
        self.notes: list[str] = []
        """What was found that somebody should read."""
        self.image = Image()
        self._damaged: list[SnapshotId] = []
        self.snapshot = self._load_snapshot()
        self.replayed_bytes = self.replayed_records = 0
        self._replay()
        for snapshot in self._damaged:
            self.snapshots.remove(snapshot)  # the log has all of it, and it must not pass for a reserve

    def _load_snapshot(self) -> SnapshotId | None:
        """The newest snapshot that can be read and goes on in the log."""
        log, ids = self._log, self.snapshots.ids()
        if ids and ids[-1].end_offset > log.end_offset:
            raise CorruptLog(
                f"{log.directory} ends at offset {log.end_offset}, but has a snapshot up to {ids[-1].end_offset}: "
                "segments are missing; restore them from a backup"
            )
        for snapshot in reversed(ids):
            if snapshot.end_offset < log.log_start_offset:
                break  # with a gap after it
            try:
                records = self.snapshots.read(snapshot)
            except CorruptLog as error:
                self.notes.append(str(error))
                self._damaged.append(snapshot)
                continue
            for record in records:
                self.image.apply(decode_record(record))
            return snapshot
        if log.log_start_offset > 0:
            raise CorruptLog(
                f"{log.directory} begins at offset {log.log_start_offset}, and no snapshot there can be read that "
                f"reaches so far{''.join(f'; {note}' for note in self.notes)}. Restore one from a backup"
            )
        return None

    def _replay(self) -> None:
        reader = CommitReader()
        start_offset = self.snapshot.end_offset if self.snapshot else self._log.log_start_offset
        for batch in self._batches_from(start_offset):
            self.replayed_bytes += batch.header.size
            for records in reader.read(decode_batch(batch.data, verify_crc=False)):
                self.replayed_records += len(records)
                for record in records:
                    self.image.apply(record)
        if reader.unfinished_at is not None:
            self.notes.append(f"cut an interrupted commit at offset {reader.unfinished_at} off {self._log.partition}")
            truncate_to(self._log, reader.unfinished_at)

    def _batches_from(self, offset: int) -> Iterator[FoundBatch]:
        """Every batch from `offset` on, checked; one that is missing is damage."""
        for segment in self._log.segments_from(offset):
            found = segment.find(offset) if offset < self._log.end_offset else None
            for batch in segment.batches(found[0]) if found else ():
                if batch.header.base_offset != offset:
                    raise CorruptLog(
                        f"{segment.log_path} goes on at offset {batch.header.base_offset} instead of {offset}: "
                        "records are missing; restore the file from a backup"
                    )
                yield batch
                offset = batch.header.next_offset
        if offset != self._log.end_offset:
            raise CorruptLog(f"{self._log.directory} ends at offset {offset} instead of {self._log.end_offset}")
