"""The metadata log of one node of the quorum, on disk: does what `core.raft` asks for, and says what a start finds.

Owns the log, its snapshots and the quorum-state beside them. One task calls all that changes them; what is returned as
a function may run on any thread.

Invariants: what is committed is never cut; a snapshot that another node sent has its name before the log begins anew
where it ends, so that a crash in between finds it.

Must not know: what the records say, nor who is asked for them.
"""

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.core.raft.control_records import describe_batch, encode_control
from barnabas.core.raft.log_view import BatchInfo, EpochStart, SnapshotId
from barnabas.core.raft.node import Restored
from barnabas.core.raft.output import AppendControl, AppendFetched, QuorumState
from barnabas.core.raft.voters import VotersAt, VoterSet
from barnabas.core.records.batch import Buffer, check_batch, iter_batches, iter_whole_batches
from barnabas.storage.health import DirectoryHealth
from barnabas.storage.log import Log
from barnabas.storage.metadata_snapshot import MetadataSnapshots, SnapshotContents
from barnabas.storage.names import parent_of
from barnabas.storage.quorum_state_file import read_quorum_state, write_quorum_state
from barnabas.storage.readable_segment import SegmentGone
from barnabas.storage.truncate import delete_before, reset_to, truncate_to
from barnabas.storage.unsynced import FlushPlan

_SNAPSHOTS_KEPT: Final = 2


class QuorumLog:
    """The log, the snapshots and the quorum-state of one node."""

    def __init__(self, log: Log, snapshots: MetadataSnapshots) -> None:
        self._log = log
        self._snapshots = snapshots
        self._disk = log.context.files.disk

    @property
    def health(self) -> DirectoryHealth:
        return self._log.context.health

    @property
    def start_offset(self) -> int:
        """Where the log begins; what came before is in a snapshot."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def flushed_offset(self) -> int:
        """Everything below is durable."""
        return self._log.flushed_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record in the log."""
        return self._log.epochs.latest

    def restored(self, voters: Sequence[VotersAt]) -> Restored:
        """What is there when the node starts, with the voters that loading has found."""
        log = self._log
        assert log.flushed_offset == log.end_offset, "opening a log makes durable what it finds"
        return Restored(
            quorum=read_quorum_state(self._disk, log.directory),
            start_offset=log.log_start_offset,
            end_offset=log.end_offset,
            epochs=tuple(EpochStart(*entry) for entry in log.epochs.entries),
            snapshots=tuple(self._snapshots.ids()),
            voters=tuple(voters),
        )

    def write_state(self, state: QuorumState) -> None:
        """Make the quorum-state durable; for a thread."""
        if self._log.is_directory_new:  # or its name could be lost, and the state with it
            self._disk.sync_dir(parent_of(self._log.directory))
        write_quorum_state(self._disk, self._log.directory, state)

    # The log

    def append(self, data: bytearray, *, epoch: int, now_ms: int) -> int:
        """Append records as the leader of an epoch; the new end of the log."""
        return self._log.append(data, leader_epoch=epoch, now_ms=now_ms).last_offset + 1

    def append_control(self, operation: AppendControl, *, now_ms: int) -> None:
        """Append control records as the leader."""
        assert operation.base_offset == self._log.end_offset
        batch = encode_control(
            operation.records, base_offset=operation.base_offset, epoch=operation.epoch, timestamp_ms=now_ms
        )
        self._log.append_as_follower(batch)

    def append_fetched(self, operation: AppendFetched, data: Buffer) -> None:
        """Append of the batches that a leader sent those that Raft has taken."""
        assert operation.base_offset == self._log.end_offset
        size = 0
        for position, header in iter_batches(data):
            if header.base_offset >= operation.end_offset:
                break
            size = position + header.size
        self._log.append_as_follower(bytearray(memoryview(data)[:size]))
        assert self._log.end_offset == operation.end_offset

    def truncate(self, end_offset: int) -> None:
        """Remove the records from `end_offset` on, durably."""
        truncate_to(self._log, end_offset)
        assert self._log.end_offset == end_offset, "a leader's history has gaps that this log has not"

    def begin_flush(self) -> FlushPlan | None:
        """What to sync for all that is appended so far; None when all is durable. Run it, then `end_flush`."""
        return self._log.begin_flush()

    def end_flush(self, plan: FlushPlan) -> None:
        """The plan ran: what it covered is durable."""
        self._log.end_flush(plan)

    def begin_read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> Callable[[], bytes]:
        """The function that reads whole batches from `offset` on, on any thread: about so many bytes, or one batch."""
        plan = self._log.begin_read(offset, end_offset=end_offset)
        if plan is None:
            return bytes

        def read() -> bytes:
            try:
                found = plan.locate(max_bytes)
            except SegmentGone:
                return b""  # removed meanwhile: whoever asks again is told where the log begins now
            return b"" if found is None else _whole_batches(found.read())

        return read

    # Snapshots

    @property
    def snapshots(self) -> MetadataSnapshots:
        return self._snapshots

    def write_snapshot(self, snapshot: SnapshotId, records: Sequence[bytes], voters: VoterSet) -> None:
        """Make a snapshot durable; for a thread."""
        self._snapshots.write(snapshot, records, voters)

    def forget_history(self) -> tuple[list[SnapshotId], int]:
        """Remove what came before the snapshot before the newest; which are left then, and where the log begins.

        On the loop, though it syncs a few small files: the checkpoints that it writes are those of every log here.
        """
        with self.health.guarded():
            self._log.roll()  # so that whole segments end where a snapshot does
            kept = self._snapshots.ids()[-_SNAPSHOTS_KEPT:]
            if len(kept) == _SNAPSHOTS_KEPT:
                self.forget_before(kept[0])
            return self._snapshots.ids(), self._log.log_start_offset

    def forget_before(self, snapshot: SnapshotId) -> None:
        """Remove the log and the snapshots before this one."""
        delete_before(self._log, snapshot.end_offset)
        self._remove_before(snapshot)

    def _remove_before(self, snapshot: SnapshotId) -> None:
        for each in self._snapshots.ids():
            if each < snapshot:
                self._snapshots.remove(each)

    def take_snapshot(self, snapshot: SnapshotId) -> None:
        """Have a snapshot that was received, or whose log a crash has kept from beginning anew, replace the log.

        Refused where there is no room: then it must be called again until there is, and nothing else before.
        """
        with self.health.guarded():
            if snapshot not in self._snapshots.ids():
                self._snapshots.take_received(snapshot)
        reset_to(self._log, snapshot.end_offset, is_repeated=True)
        with self.health.guarded():
            self._remove_before(snapshot)

    def check_received(self, snapshot: SnapshotId) -> SnapshotContents:
        """What is in a snapshot of which all bytes were received; `CorruptLog` if it is damaged. For a thread."""
        return self._snapshots.check_received(snapshot)


def describe_batches(data: Buffer) -> tuple[BatchInfo, ...]:
    """What Raft has to know of batches that another node sent; refused when their checksums do not fit them."""
    found = []
    view = memoryview(data)
    for position, header in iter_batches(data):
        check_batch(data, position, header)
        found.append(describe_batch(view[position : position + header.size], header))
    return tuple(found)


def _whole_batches(data: bytes) -> bytes:
    """The batches that are there whole."""
    end = 0
    for position, header in iter_whole_batches(data):
        end = position + header.size
    return data[:end]
