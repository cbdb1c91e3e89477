"""What a simulated node has on disk."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from barnabas.core.raft.log_view import BatchInfo, EpochStart, SnapshotId
from barnabas.core.raft.node import Restored
from barnabas.core.raft.output import QuorumState
from barnabas.core.raft.voters import NO_VOTERS, VotersAt, VoterSet


class Entry(NamedTuple):
    """A record, and the voters if it holds them."""

    epoch: int
    value: str
    voters: VoterSet | None = None


class Disk(msgspec.Struct):
    """What outlives a crash, up to `durable_end`. `entries` are all since offset 0, those before the start too."""

    quorum: QuorumState | None = None
    entries: list[Entry] = []
    start_offset: int = 0
    durable_end: int = 0
    snapshots: list[SnapshotId] = []
    bootstrap_voters: VoterSet | None = None

    def restored(self) -> Restored:
        """What a node finds when it starts."""
        last = self.snapshots[-1] if self.snapshots else None
        epochs: list[EpochStart] = []
        for offset in range(self.start_offset, len(self.entries)):
            if not epochs or epochs[-1].epoch != self.entries[offset].epoch:
                epochs.append(EpochStart(self.entries[offset].epoch, offset))
        voters = []
        snapshot_end = last.end_offset if last is not None else 0
        first_voters = self.voters_at(snapshot_end)
        if first_voters.voters:
            voters.append(VotersAt(snapshot_end - 1, first_voters))
        voters += [
            VotersAt(offset, entry.voters)
            for offset, entry in enumerate(self.entries)
            if entry.voters is not None and offset >= snapshot_end
        ]
        return Restored(
            quorum=self.quorum,
            start_offset=self.start_offset,
            end_offset=len(self.entries),
            epochs=tuple(epochs),
            snapshots=tuple(self.snapshots),
            voters=tuple(voters),
        )

    def voters_at(self, end_offset: int) -> VoterSet:
        """The voters that the log up to here makes."""
        for entry in reversed(self.entries[:end_offset]):
            if entry.voters is not None:
                return entry.voters
        return self.bootstrap_voters or NO_VOTERS


def batches_of(start: int, entries: list[Entry]) -> Iterator[BatchInfo]:
    """The batches that records at these offsets make, one each."""
    for offset, entry in enumerate(entries, start=start):
        voters = VotersAt(offset, entry.voters) if entry.voters is not None else None
        yield BatchInfo(offset, offset + 1, entry.epoch, voters)
