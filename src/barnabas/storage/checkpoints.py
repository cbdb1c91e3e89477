"""The text files that say where each log stands: Kafka's offset and leader-epoch checkpoints.

An offset checkpoint has a version line, a count, then ``topic partition offset`` a line; an epoch checkpoint has
``epoch start_offset``. Both are replaced whole. `Checkpoints` owns the offset files of one data directory:

- recovery points: below it a log is on disk for certain, and recovery need not look;
- log starts: below it records are deleted, whatever files are still there;
- cleaner offsets: below it a log is compacted.

A recovery point that is too low costs time, one that is too high costs data. So raising one may wait for the
next checkpoint, and lowering one (`lower_recovery_point`) is durable before it returns.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.core.errors import CorruptLog
from barnabas.core.model import TopicPartition
from barnabas.core.replica.leader_epochs import EpochStart
from barnabas.storage.disk import Disk
from barnabas.storage.names import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS
from barnabas.storage.small_file import read_file, replace_file

VERSION = 0


class Checkpoints:
    """The offset checkpoints of a data directory, loaded once and written when they change."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._files = {
            name: OffsetFile(f"{directory}/{name}", _read_offsets(disk, f"{directory}/{name}"))
            for name in (RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)
        }

    def recovery_point(self, partition: TopicPartition) -> int:
        # What is compacted was synced before, and has gaps that a recovery from lower down would take for loss.
        return max(self._files[RECOVERY_POINTS].offsets.get(partition, 0), self.cleaned_to(partition))

    def log_start(self, partition: TopicPartition) -> int:
        return self._files[LOG_STARTS].offsets.get(partition, 0)

    def cleaned_to(self, partition: TopicPartition) -> int:
        return self._files[CLEANER_OFFSETS].offsets.get(partition, 0)

    def set_recovery_point(self, partition: TopicPartition, offset: int) -> None:
        self._files[RECOVERY_POINTS].set(partition, offset)

    def set_log_start(self, partition: TopicPartition, offset: int) -> None:
        self._files[LOG_STARTS].set(partition, offset)

    def set_cleaned_to(self, partition: TopicPartition, offset: int) -> None:
        self._files[CLEANER_OFFSETS].set(partition, offset)

    def lower_recovery_point(self, partition: TopicPartition, offset: int) -> None:
        """Make sure, durably, that recovery looks at everything from `offset` on.

        Nor is it clean from there on: what comes in the place of what is cut must be compacted, or a tombstone in
        it would one day go before the older value that it deletes.
        """
        if self.recovery_point(partition) > offset:
            self.set_recovery_point(partition, offset)
        if self.cleaned_to(partition) > offset:
            self.set_cleaned_to(partition, offset)
        self._write(self._files[RECOVERY_POINTS])
        self._write(self._files[CLEANER_OFFSETS])

    def forget(self, partition: TopicPartition) -> None:
        """Drop a partition that is deleted."""
        for file in self._files.values():
            file.is_dirty |= file.offsets.pop(partition, None) is not None

    def write(self) -> None:
        """Make every change durable."""
        for file in self._files.values():
            self._write(file)

    def write_log_starts(self) -> None:
        """Make the starts of logs durable, which must come before files below them are removed."""
        self._write(self._files[LOG_STARTS])

    def _write(self, file: "OffsetFile") -> None:
        if file.is_dirty:
            lines = (f"{name.topic} {name.partition} {offset}" for name, offset in sorted(file.offsets.items()))
            replace_file(self._disk, file.path, _encode_lines(lines))
            file.is_dirty = False


@dataclass(slots=True)
class OffsetFile:
    """One offset checkpoint in memory."""

    path: str
    offsets: dict[TopicPartition, int]
    is_dirty: bool = False

    def set(self, partition: TopicPartition, offset: int) -> None:
        if self.offsets.get(partition) != offset:
            self.offsets[partition] = offset
            self.is_dirty = True


def read_epochs(disk: Disk, path: str) -> list[EpochStart]:
    """The leader epochs in a checkpoint; none when there is no file."""
    return [EpochStart(int(epoch), int(start)) for epoch, start in _read_lines(disk, path, fields=2)]


def write_epochs(disk: Disk, path: str, epochs: Iterable[EpochStart]) -> None:
    replace_file(disk, path, _encode_lines(f"{entry.epoch} {entry.start_offset}" for entry in epochs))


def _read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partition, offset in _read_lines(disk, path, fields=3)
    }


def _encode_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([str(VERSION), str(len(entries)), *entries, ""]).encode()


def _read_lines(disk: Disk, path: str, *, fields: int) -> list[list[str]]:
    data = read_file(disk, path)
    if data is None:
        return []
    lines = data.decode("ascii", "replace").splitlines()
    rows = [line.split(" ") for line in lines[2:]]
    if lines[:2] != [str(VERSION), str(len(rows))] or any(
        len(row) != fields or not all(part.isdecimal() for part in row[-2:]) for row in rows
    ):
        raise CorruptLog(f"{path} is damaged; remove it to have every log below it checked in full")
    return rows
