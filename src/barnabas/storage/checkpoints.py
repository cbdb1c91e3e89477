"""Kafka's offset and leader-epoch checkpoints, as text files.

An offset checkpoint has a version line, a count, then ``topic partition offset`` a line; an epoch checkpoint has
``epoch start_offset``. Both are replaced whole. `Checkpoints` owns the offset files of one data directory:

- recovery points: below it a log is on disk for certain, and recovery need not look;
- log starts: below it records are deleted, even if their files still exist. Nothing else records that, and without it
  they would reappear: so there is a copy, which is read when the file itself is damaged or was removed;
- cleaner offsets: below it a log is compacted;
- high watermarks, of partitions with several replicas: below it every replica in sync had everything. One that is too
  low is raised again by the replicas, so it may lag, or be lost.

A recovery point that is too low costs time, one that is too high costs data. So raising one may wait for the
next checkpoint, and lowering one (`lower_recovery_point`) is durable before it returns.

All of them are written when a data directory is made, or first used by this version, and then `META`, which says so:
from then on a file that is missing is a damaged one. Without `META` it may never have been written.

Damaged recovery points or cleaner offsets can be rebuilt by reading everything: every log is then recovered, or
compacted, from its start. Until all logs are (`end_recovery`), the damaged file of recovery points stays: without it
the next start would know of none, and take the gaps that compaction leaves for loss.

One task owns the offsets. Files may be written by threads meanwhile (`begin_write`), older offsets never over newer
ones; a caller that needs something durable at once (`write`) waits for such a thread at most as long as it takes to
replace one file.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from barnabas.core.errors import CorruptLog
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.model import TopicPartition
from barnabas.core.replica.leader_epochs import EpochStart
from barnabas.storage import meta_properties
from barnabas.storage.disk import Disk
from barnabas.storage.names import (
    CLEANER_OFFSETS,
    COPY,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META,
    RECOVERY_POINTS,
    parse_partition,
)
from barnabas.storage.small_file import ReplacedFile, Replacement, read_file, replace_file, replace_together

VERSION = 0

_NO_COPY: Final = (
    "it says which records were deleted, and without it they would reappear: restore it from a backup, or repair it by "
    "hand (a line with 0, a line with the number of partitions, then a line with topic, partition and the first offset "
    "that is left for each)"
)


class Checkpoints:
    """The offset checkpoints of a data directory, loaded once and written when they change."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk, self._directory = disk, directory
        self._is_kept = is_kept = disk.exists(f"{directory}/{META}")
        self._files = {
            name: OffsetFile(disk, f"{directory}/{name}", is_kept=is_kept)
            for name in (RECOVERY_POINTS, CLEANER_OFFSETS)
        }
        # Of directories of earlier versions it is missing, and that says nothing.
        self._files[HIGH_WATERMARKS] = OffsetFile(disk, f"{directory}/{HIGH_WATERMARKS}")
        self._files[LOG_STARTS] = OffsetFile(disk, f"{directory}/{LOG_STARTS}", is_kept=is_kept, has_copy=True)
        for name, file in self._files.items():
            if not disk.exists(f"{directory}/{name}"):
                file.make()
        self._assumption = None if is_kept or disk.exists(f"{directory}/{LOG_STARTS}") else self._find_assumption()
        self.is_recovery_point_known = self._files[RECOVERY_POINTS].damage is None
        """Whether the recovery points are complete."""
        if not self.is_recovery_point_known:
            self._files[RECOVERY_POINTS].is_held = True

    @property
    def damage(self) -> str | None:
        """The damaged files whose copies are used instead."""
        return self._files[LOG_STARTS].damage

    @property
    def consequences(self) -> list[str]:
        """The damaged files that are rebuilt, with what that takes."""
        meanings = {
            RECOVERY_POINTS: "every log is checked in full, which may take a while",
            CLEANER_OFFSETS: "compacted logs are compacted from their start",
            HIGH_WATERMARKS: "high watermarks rise again as the replicas fetch",
        }
        found = [f"{damage}; {meanings[name]}" for name in meanings if (damage := self._files[name].damage) is not None]
        return found if self._assumption is None else [*found, self._assumption]

    def _find_assumption(self) -> str | None:
        if not any(parse_partition(name) for name in self._disk.list_dir(self._directory)):
            return None  # it is new
        return (
            f"{self._directory} has neither {META} nor {LOG_STARTS}: it is taken for a directory of an earlier "
            "version, from which no records were deleted"
        )

    def keep(self, meta: MetaProperties | None = None) -> None:
        """Record that all files exist, once they do; see `META`. `meta` is whose the directory is, where it is new."""
        if self._is_kept:
            return
        if meta is None:
            meta_properties.write_format(self._disk, self._directory)
        else:
            meta_properties.write(self._disk, self._directory, meta)
        self._is_kept = True

    def end_recovery(self) -> None:
        """All logs are open and their recovery points are noted: the file may be written again."""
        self._files[RECOVERY_POINTS].is_held = False

    def recovery_point(self, partition: TopicPartition) -> int:
        # What is compacted was synced before, and has gaps that a recovery from lower down would take for loss.
        return max(self._files[RECOVERY_POINTS].offsets.get(partition, 0), self.cleaned_to(partition))

    def partitions(self) -> set[TopicPartition]:
        """Every partition with an entry."""
        return {partition for file in self._files.values() for partition in file.offsets}

    def log_start(self, partition: TopicPartition) -> int:
        return self._files[LOG_STARTS].offsets.get(partition, 0)

    def cleaned_to(self, partition: TopicPartition) -> int:
        return self._files[CLEANER_OFFSETS].offsets.get(partition, 0)

    def high_watermark(self, partition: TopicPartition) -> int:
        return self._files[HIGH_WATERMARKS].offsets.get(partition, 0)

    def set_recovery_point(self, partition: TopicPartition, offset: int) -> None:
        self._files[RECOVERY_POINTS].set(partition, offset)

    def set_log_start(self, partition: TopicPartition, offset: int) -> None:
        self._files[LOG_STARTS].set(partition, offset)

    def set_cleaned_to(self, partition: TopicPartition, offset: int) -> None:
        self._files[CLEANER_OFFSETS].set(partition, offset)

    def set_high_watermark(self, partition: TopicPartition, offset: int) -> None:
        self._files[HIGH_WATERMARKS].set(partition, offset)

    def lower_recovery_point(self, partition: TopicPartition, offset: int) -> None:
        """Make sure, durably, that recovery checks everything from `offset` on.

        The log is not clean from there on either: what replaces the truncated part must be compacted, or a tombstone in
        it would one day be removed before the older value that it deletes.
        """
        if self.recovery_point(partition) > offset:
            self.set_recovery_point(partition, offset)
        if self.cleaned_to(partition) > offset:
            self.set_cleaned_to(partition, offset)
        self._files[RECOVERY_POINTS].begin_write()()
        self._files[CLEANER_OFFSETS].begin_write()()

    def forget(self, partition: TopicPartition) -> None:
        """Drop a partition that is deleted."""
        for file in self._files.values():
            file.forget(partition)

    def write(self) -> None:
        """Make every change durable."""
        self.begin_write()()

    def begin_write(self) -> Callable[[], None]:
        """The function that makes every change so far durable, on any thread."""
        begun = [write for file in self._files.values() if (write := file.begin()) is not None]
        return lambda: replace_together(begun)

    def write_log_starts(self) -> None:
        """Make the log start offsets durable, which must happen before files below them are removed."""
        self.begin_write_log_starts()()

    def begin_write_log_starts(self) -> Callable[[], None]:
        """The function that does so, on any thread."""
        return self._files[LOG_STARTS].begin_write()

    def begin_write_high_watermarks(self) -> Callable[[], None]:
        """The function that makes the high watermarks durable, on any thread."""
        return self._files[HIGH_WATERMARKS].begin_write()


class OffsetFile:
    """One offset checkpoint in memory."""

    __slots__ = ("_file", "damage", "is_held", "offsets")

    def __init__(self, disk: Disk, path: str, *, is_kept: bool = False, has_copy: bool = False) -> None:
        copy = path + COPY
        self._file = ReplacedFile(disk, path, copies=(copy,) if has_copy else ())
        self.damage: str | None = None
        self.is_held = False  # whether the file is left as it is for now
        if has_copy and disk.exists(copy):
            self.offsets = self._read_either(disk, path, copy)
        elif has_copy:
            if is_kept and not disk.exists(path):
                raise CorruptLog(f"{path} is missing, and so is its copy; {_NO_COPY}")
            self.offsets = _read_offsets(disk, path, advice=_NO_COPY)
            self._file.note_change()  # a copy is due
        elif is_kept and not disk.exists(path):
            self.offsets, self.damage = {}, f"{path} is missing"
            self._file.note_change()
        else:
            self.offsets = self._read_or_none(disk, path)

    def _read_or_none(self, disk: Disk, path: str) -> dict[TopicPartition, int]:
        try:
            return _read_offsets(disk, path)
        except CorruptLog as error:
            self.damage = str(error)
            self._file.note_change()
            return {}

    def _read_either(self, disk: Disk, path: str, copy: str) -> dict[TopicPartition, int]:
        try:
            if disk.exists(path):
                return _read_offsets(disk, path)
            self.damage = f"{path} is missing"
        except CorruptLog:
            self.damage = f"{path} is damaged"
        self._file.note_change()
        return _read_offsets(disk, copy, advice=_NO_COPY)

    def set(self, partition: TopicPartition, offset: int) -> None:
        if self.offsets.get(partition) != offset:
            self.offsets[partition] = offset
            self._file.note_change()

    def make(self) -> None:
        """Write the file, even if it is empty."""
        self._file.note_change()

    def forget(self, partition: TopicPartition) -> None:
        if self.offsets.pop(partition, None) is not None:
            self._file.note_change()

    def begin(self) -> Replacement | None:
        """What makes every change so far durable; None where there is none to be made."""
        if self._file.is_durable or self.is_held:
            return None
        offsets = self.offsets.copy()
        return self._file.begin(lambda: _encode_offsets(offsets))

    def begin_write(self) -> Callable[[], None]:
        """The function that does so, on any thread."""
        return self.begin() or _nothing


def read_epochs(disk: Disk, path: str) -> list[EpochStart]:
    """The leader epochs in a checkpoint; none when there is no file."""
    return [EpochStart(int(epoch), int(start)) for epoch, start in _read_lines(disk, path, fields=2)]


def write_epochs(disk: Disk, path: str, epochs: Iterable[EpochStart]) -> None:
    replace_file(disk, path, encode_epochs(epochs))


def encode_epochs(epochs: Iterable[EpochStart]) -> bytes:
    """The content of an epoch checkpoint."""
    return _encode_lines(f"{entry.epoch} {entry.start_offset}" for entry in epochs)


def _read_offsets(disk: Disk, path: str, *, advice: str = "") -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partition, offset in _read_lines(disk, path, fields=3, advice=advice)
    }


def _encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _encode_lines(f"{name.topic} {name.partition} {offset}" for name, offset in sorted(offsets.items()))


def _encode_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([str(VERSION), str(len(entries)), *entries, ""]).encode()


def _read_lines(disk: Disk, path: str, *, fields: int, advice: str = "") -> list[list[str]]:
    data = read_file(disk, path)
    if data is None:
        return []
    lines = data.decode("ascii", "replace").splitlines()
    rows = [line.split(" ") for line in lines[2:]]
    if lines[:2] != [str(VERSION), str(len(rows))] or any(
        len(row) != fields or not all(part.isdecimal() for part in row[-2:]) for row in rows
    ):
        raise CorruptLog(f"{path} is damaged{advice and '; ' + advice}")
    return rows


def _nothing() -> None:
    """Nothing is left to write."""
