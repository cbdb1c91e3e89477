"""Which leader epoch wrote which offsets: the history that truncation is decided by (KIP-101).

Entries are (epoch, start_offset), both strictly growing. Truncating by this history, not by a high watermark,
is what keeps a restarted follower from discarding acknowledged records.

Must not know: where the history is stored (`storage.checkpoints`).
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.core.model import NO_EPOCH, NO_OFFSET


class EpochStart(NamedTuple):
    """The first offset that a leader epoch wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest known epoch not above the one asked for, and the offset at which it ended."""

    epoch: int
    end_offset: int


UNKNOWN_EPOCH_END = EpochEnd(NO_EPOCH, NO_OFFSET)


class LeaderEpochs:
    """The epoch history of one log."""

    __slots__ = ("_entries", "latest")

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries: list[EpochStart] = []
        self.latest = NO_EPOCH
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` writes from `start_offset` on; says whether that changed anything.

        An epoch that is already known keeps its start. Entries that contradict the new one, because they
        claim a later epoch or a later start, go: they came from a leader whose records were truncated.
        """
        if epoch < 0 or (self._entries and epoch == self.latest):
            return False
        while self._entries and (self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset):
            self._entries.pop()
        self._entries.append(EpochStart(epoch, start_offset))
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, *, log_end_offset: int) -> EpochEnd:
        """Where `epoch`, or the largest known one below it, ended. Unknown when it lies in the future."""
        if epoch < 0 or not self._entries or epoch > self.latest:
            return UNKNOWN_EPOCH_END
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        index = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[index].start_offset
        floor = epoch if index == 0 else self._entries[index - 1].epoch
        return EpochEnd(floor, end_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, or `NO_EPOCH` when it lies before the history."""
        index = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[index - 1].epoch if index else NO_EPOCH

    def truncate_to(self, end_offset: int) -> bool:
        """Forget epochs that start at or after `end_offset`; says whether any did."""
        count = len(self._entries)
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
        self.latest = self._entries[-1].epoch if self._entries else NO_EPOCH
        return len(self._entries) != count

    def truncate_before(self, start_offset: int) -> bool:
        """Forget epochs that ended before `start_offset`; the one that spans it now starts there."""
        index = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if index == 0 or (index == 1 and self._entries[0].start_offset == start_offset):
            return False
        spanning = EpochStart(self._entries[index - 1].epoch, start_offset)
        self._entries[:index] = [spanning]
        return True
