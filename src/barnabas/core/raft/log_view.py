"""What Raft knows of the log: where it begins and ends, what of it is on disk, and which epoch wrote what.

The records themselves stay with the driver. Invariants: ``start <= end``, ``durable_end <= end``; epochs grow with the
offsets; two logs that have the same epoch at the same offset are the same up to there.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.core.raft.voters import VotersAt


class SnapshotId(NamedTuple):
    """Where a snapshot ends: the offset after its last record, and the epoch of that record."""

    end_offset: int
    epoch: int


BOOTSTRAP_SNAPSHOT = SnapshotId(0, 0)
"""What a node is formatted with. It is never sent: the first leader repeats it in the log."""


class EpochStart(NamedTuple):
    """The first offset that an epoch wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest epoch of a log that is not above the one asked for, and where it ends."""

    epoch: int
    end_offset: int


class BatchInfo(NamedTuple):
    """What Raft has to know of a record batch; `voters` if the batch holds a set of voters."""

    base_offset: int
    end_offset: int
    epoch: int
    voters: VotersAt | None = None


class LogView:
    """The log of one replica as Raft sees it."""

    def __init__(
        self,
        *,
        start_offset: int = 0,
        end_offset: int = 0,
        epochs: Iterable[EpochStart] = (),
        snapshots: Iterable[SnapshotId] = (),
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.durable_end = end_offset
        """Everything below is on disk: only that counts."""
        self._epochs = list(epochs)
        self._snapshots = self._not_before_start(snapshots)

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """Which epoch starts where."""
        return tuple(self._epochs)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 if there never was one."""
        return self._epochs[-1].epoch if self._epochs else self._epoch_before_start

    @property
    def first_snapshot(self) -> SnapshotId | None:
        """The oldest snapshot."""
        return self._snapshots[0] if self._snapshots else None

    @property
    def last_snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""
        return self._snapshots[-1] if self._snapshots else None

    @property
    def unreached_snapshot(self) -> SnapshotId | None:
        """The newest snapshot, if the log does not lead up to it: fetched just before a crash, it replaces the log."""
        last = self.last_snapshot
        if last is None or last == BOOTSTRAP_SNAPSHOT:
            return None
        epoch = self.epoch_at(last.end_offset - 1) if last.end_offset > self.start_offset else last.epoch
        return last if last.end_offset > self.end_offset or epoch != last.epoch else None

    def _not_before_start(self, snapshots: Iterable[SnapshotId]) -> list[SnapshotId]:
        """A snapshot that ends before the log begins leads nowhere."""
        return sorted(one for one in snapshots if one.end_offset >= self.start_offset)

    @property
    def _epoch_before_start(self) -> int:
        return max((one.epoch for one in self._snapshots if one.end_offset <= self.start_offset), default=0)

    def has_snapshot(self, snapshot: SnapshotId) -> bool:
        """Whether there is this snapshot."""
        return snapshot in self._snapshots

    def epoch_at(self, offset: int) -> int | None:
        """The epoch that wrote the record at `offset`; None if it lies before what is known."""
        index = bisect_right(self._epochs, offset, key=lambda entry: entry.start_offset)
        return self._epochs[index - 1].epoch if index else None

    def end_of(self, epoch: int) -> EpochEnd:
        """Where `epoch`, or the largest one below it that wrote something, ended."""
        index = bisect_right(self._epochs, epoch, key=lambda entry: entry.epoch)
        if index == 0:
            return EpochEnd(self._epoch_before_start, self.start_offset)
        is_last = index == len(self._epochs)
        end_offset = self.end_offset if is_last else self._epochs[index].start_offset
        return EpochEnd(self._epochs[index - 1].epoch, end_offset)

    def append(self, end_offset: int, epoch: int) -> None:
        """Records of `epoch` were appended."""
        assert end_offset > self.end_offset
        assert epoch >= self.last_epoch
        if not self._epochs or self._epochs[-1].epoch < epoch:
            self._epochs.append(EpochStart(epoch, self.end_offset))
        self.end_offset = end_offset

    def flushed(self, end_offset: int, epoch: int) -> bool:
        """Everything below `end_offset`, whose last record is of `epoch`, is on disk; says whether that is news.

        The epoch tells a sync of records that were truncated since from one of what is at the same offsets now.
        """
        if not self.durable_end < end_offset <= self.end_offset or self.epoch_at(end_offset - 1) != epoch:
            return False
        self.durable_end = end_offset
        return True

    def truncate_to(self, end_offset: int) -> None:
        """The records from `end_offset` on are gone."""
        assert self.start_offset <= end_offset <= self.end_offset
        while self._epochs and self._epochs[-1].start_offset >= end_offset:
            self._epochs.pop()
        self.end_offset = end_offset
        self.durable_end = min(self.durable_end, end_offset)

    def reset(self, snapshot: SnapshotId) -> None:
        """The whole log is replaced by a snapshot."""
        self.start_offset = self.end_offset = self.durable_end = snapshot.end_offset
        self._epochs.clear()
        self._snapshots = self._not_before_start({*self._snapshots, snapshot})

    def keep(self, snapshots: Iterable[SnapshotId], *, start_offset: int) -> None:
        """These are the snapshots now, and the log begins here: the driver took one, or removed what is old."""
        assert self.start_offset <= start_offset <= self.end_offset
        self.start_offset = start_offset
        self.durable_end = max(self.durable_end, start_offset)  # the snapshot is, and all before it is in there
        self._snapshots = self._not_before_start(snapshots)
        index = bisect_right(self._epochs, start_offset, key=lambda entry: entry.start_offset)
        if index:
            self._epochs[:index] = [EpochStart(self._epochs[index - 1].epoch, start_offset)]
