"""Loading the metadata of the cluster: the newest snapshot that can be read, and the log after it.

Of the log of several voters nobody knows at first how much is committed: only its voters are looked for. Of the log of
a sole voter all is. Of a commit without its end nothing is applied. Where another leader epoch follows, nothing is left
to do. At the end of the log its end may still come, from the leader that began it, so the reader is kept with it.

A snapshot that is damaged is passed over when an older one, or the beginning of the log, and the log from there on make
up for it. All other damage is `CorruptLog`, and nothing is changed.
"""

from collections.abc import Iterator

from barnabas.core.errors import CorruptLog, CorruptRecord, InvalidMetadata
from barnabas.core.metadata.commits import CommitReader
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import decode_record
from barnabas.core.raft.control_records import voters_in
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT
from barnabas.core.raft.voters import BOOTSTRAP_OFFSET, NO_VOTERS, ReplicaKey, VotersAt, VoterSet
from barnabas.storage.log import Log
from barnabas.storage.metadata_snapshot import MetadataSnapshots, SnapshotId
from barnabas.storage.scan import FoundBatch


def load_metadata(log: Log, *, replica: ReplicaKey, static_voters: VoterSet = NO_VOTERS) -> "LoadedMetadata":
    """Load the newest snapshot that can be read, and find the voters; the sole voter replays the log after it, too."""
    try:
        loaded = LoadedMetadata(log, replica, static_voters)
        if loaded.is_sole_voter:
            loaded.replay()
    except (InvalidMetadata, CorruptRecord) as error:
        # Its checksum was right: it was written so, most likely by a version that knows more.
        raise CorruptLog(f"{log.directory} holds metadata that cannot be applied: {error}") from error
    loaded.remove_damaged()
    return loaded


class LoadedMetadata:
    """The state that a log and its snapshots yield."""

    def __init__(self, log: Log, replica: ReplicaKey, static_voters: VoterSet) -> None:
        self._log = log
        self._replica = replica
        self._static_voters = static_voters
        self.snapshots = MetadataSnapshots(log.context.files.disk, log.directory)
        self.notes: list[str] = []
        """Findings for the operator."""
        self.image = Image()
        self.voters: list[VotersAt] = []
        """The voters of the snapshot and those that the log has after it."""
        self._damaged: list[SnapshotId] = []
        self.snapshot = self._load_snapshot()
        self.applied_offset = self.snapshot.end_offset if self.snapshot else log.log_start_offset
        """Up to where the image has the log."""
        self.replayed_bytes = self.replayed_records = 0
        self.reader = CommitReader()
        """What has read the log so far, perhaps with a commit whose end may come."""
        self._find_voters()
        self._add_first_voters()

    @property
    def is_sole_voter(self) -> bool:
        """Whether this node is all of the quorum: then all that is in its log is committed, or will be."""
        voters = self.voters[-1].voters if self.voters else self._static_voters
        return len(voters.voters) == 1 and voters.find(self._replica) is not None

    def _load_snapshot(self) -> SnapshotId | None:
        """The newest snapshot that can be read and goes on in the log."""
        log, ids = self._log, self.snapshots.ids()
        for snapshot in reversed(ids):
            if snapshot == BOOTSTRAP_SNAPSHOT:
                continue  # it holds voters alone
            if snapshot.end_offset < log.log_start_offset:
                break  # with a gap after it
            try:
                contents = self.snapshots.read(snapshot)
            except CorruptLog as error:
                if snapshot.end_offset > log.end_offset:
                    raise self._segments_missing(snapshot) from error
                self.notes.append(str(error))
                self._damaged.append(snapshot)
                continue
            if contents.voters.voters:
                self.voters.append(VotersAt(snapshot.end_offset - 1, contents.voters))
            if snapshot.end_offset > log.end_offset and self.is_sole_voter:
                raise self._segments_missing(snapshot)  # nobody else votes, so nobody else has sent it
            for record in contents.records:
                self.image.apply(decode_record(record))
            return snapshot
        if log.log_start_offset > 0:
            raise CorruptLog(
                f"{log.directory} begins at offset {log.log_start_offset}, and no snapshot there can be read that "
                f"reaches so far{''.join(f'; {note}' for note in self.notes)}. Restore one from a backup"
            )
        return None

    def _segments_missing(self, snapshot: SnapshotId) -> CorruptLog:
        return CorruptLog(
            f"{self._log.directory} ends at offset {self._log.end_offset}, but has a snapshot up to "
            f"{snapshot.end_offset}: segments are missing; restore them from a backup"
        )

    def _find_voters(self) -> None:
        """Note the voters in the log after the snapshot. Only control batches are read, of others the headers."""
        start_offset = self.applied_offset
        if start_offset >= self._log.end_offset:
            return
        for segment in self._log.segments_from(start_offset):
            found = segment.find(start_offset)
            for position, header in segment.headers(found[0]) if found else ():
                if header.is_control and header.base_offset >= start_offset:
                    entry = voters_in(segment.file().read(position, header.size), header)
                    self.voters += [] if entry is None else [entry]

    def _add_first_voters(self) -> None:
        """Note the voters that the node was formatted with: they rule before those in the log."""
        is_whole = self._log.log_start_offset == 0 and self.snapshot is None
        if BOOTSTRAP_SNAPSHOT not in self.snapshots.ids() or not (is_whole or not self.voters):
            return
        try:
            first = self.snapshots.read(BOOTSTRAP_SNAPSHOT).voters
        except CorruptLog as error:
            if not self.voters:
                raise
            self.notes.append(str(error))
            return
        if first.voters:
            self.voters.insert(0, VotersAt(BOOTSTRAP_OFFSET, first))

    def replay(self) -> None:
        """Apply the log after the snapshot, up to its end."""
        for batch in self._batches_from(self.applied_offset):
            self.replayed_bytes += batch.header.size
            for records in self.reader.read(batch.data, batch.header):
                self.replayed_records += len(records)
                for record in records:
                    self.image.apply(record)
        self.applied_offset = self._log.end_offset

    def remove_damaged(self) -> None:
        """Remove the snapshots that cannot be read: others have all of it, and these must not pass for a reserve."""
        for snapshot in self._damaged:
            self.snapshots.remove(snapshot)

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
