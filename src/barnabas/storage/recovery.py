"""Opening a partition directory: at once after a clean shutdown, and at the last good batch after a crash.

After a crash the recovery point R divides the log. Below R everything was synced and is not read again, but for
batch headers since the last snapshot of the producers. From R on every byte is checked: a batch that an interrupted
write explains is cut away with all that follows it, for none of it was ever acknowledged as durable. A batch that
is whole and wrong is damage. It is reported as `CorruptLog` and nothing is cut. What is good is written back as it was
read (`renewal`) and synced: that it can be read does not mean that it is on disk.

What the names in the directory say is settled first (`interrupted`).
"""

import errno
from contextlib import suppress
from typing import Final

from barnabas.core.errors import CorruptLog
from barnabas.core.metadata.names import METADATA_TOPIC
from barnabas.core.model import NO_PRODUCER_ID, TopicPartition
from barnabas.core.replica.leader_epochs import EpochStart, LeaderEpochs
from barnabas.core.replica.producers import ProducerStates
from barnabas.storage.checkpoints import read_epochs, write_epochs
from barnabas.storage.config import LogConfig
from barnabas.storage.disk import SyncFailed
from barnabas.storage.interrupted import settle_names
from barnabas.storage.log import Log
from barnabas.storage.log_parts import Contents, LogContext
from barnabas.storage.names import (
    ACCEPT_LOSS,
    EPOCH_CHECKPOINT,
    INDEX,
    PARTITION_METADATA,
)
from barnabas.storage.offset_index import DamagedIndex
from barnabas.storage.producer_files import ProducerFiles, aborted_entry, find_aborted, replay_batch
from barnabas.storage.recovery_report import RecoveryReport, metadata_missing
from barnabas.storage.renewal import Rewriting, renew_names, rewrite_file
from barnabas.storage.scan import BadBatch, FoundBatch, scan_batches, walk_headers
from barnabas.storage.segment import Segment

# What is wrong with one path, not with the disk.
_OF_ONE_LOG: Final = frozenset(
    {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP, errno.EACCES, errno.EPERM}
)


def open_log(
    partition: TopicPartition,
    directory: str,
    config: LogConfig,
    context: LogContext,
    *,
    is_clean: bool,
    is_new: bool = False,
) -> tuple[Log, RecoveryReport]:
    """Open the log in `directory`, making it if there is none. `is_clean` says that it was closed properly; `is_new`
    that the name of the directory may not be durable, even if it is there: making it may have failed half way.
    """
    with context.health.guarded():
        try:
            return _Opening(partition, directory, config, context).open(is_clean=is_clean, is_new=is_new)
        except OSError as error:
            if error.errno not in _OF_ONE_LOG or isinstance(error, SyncFailed):
                raise
            raise CorruptLog(
                f"{directory} cannot be opened: {error}. Its files are missing or replaced, or they belong to "
                "another user: stop the node, correct that or restore the directory from a backup, and start it"
            ) from error


class _Opening:
    """The opening of one log; lives as long as that takes."""

    def __init__(
        self,
        partition: TopicPartition,
        directory: str,
        config: LogConfig,
        context: LogContext,
    ) -> None:
        self._partition = partition
        self._directory = directory
        self._config = config
        self._context = context
        self._disk = context.files.disk
        self._log_start = context.checkpoints.log_start(partition)
        self._recovery_point = context.checkpoints.recovery_point(partition)
        self._producer_files = ProducerFiles(self._disk, directory)
        self._producers = ProducerStates()
        self._epochs = LeaderEpochs()
        self._stored_epochs: tuple[EpochStart, ...] = ()

    def open(self, *, is_clean: bool, is_new: bool) -> tuple[Log, RecoveryReport]:
        report = RecoveryReport(self._partition, was_clean=is_clean)
        is_missing = not self._disk.exists(self._directory)
        if is_missing and self._recovery_point > self._log_start:
            raise self._missing("is missing")
        self._disk.make_dir(self._directory)
        if not is_clean and not is_missing:
            self._renew_small_files()
        segments = [
            Segment(self._context.files, self._directory, base, index_interval_bytes=self._config.index_interval_bytes)
            for base in settle_names(self._context, self._directory, self._log_start, report.notes)
        ]
        self._epochs = self._read_epochs(segments, report)
        if not segments:
            if self._recovery_point > self._log_start:
                self._accept_loss(report)
            return self._create(is_new=is_missing), report
        known_to = self._recovery_point
        end_offset = self._open_clean(segments) if is_clean else None
        if end_offset is None:
            report.was_clean = False
            end_offset = self._recover(segments, report)
        log_start = max(self._log_start, segments[0].base_offset)
        if end_offset < log_start and known_to <= log_start:
            # What a crash left of a log that was being emptied, all of it below the start.
            self._drop(segments, 0, report)
            return self._create(is_new=False), report
        if log_start > end_offset:
            raise CorruptLog(
                f"{self._directory} ends at offset {end_offset}, but records up to {log_start} were deleted from it: "
                "files are missing"
            )
        contents = Contents(
            segments,
            self._epochs,
            self._producers,
            log_start,
            end_offset,
            was_clean=report.was_clean,
            is_new=is_new or is_missing,
        )
        if any(segment.txn_index.has_unwritten for segment in segments):
            contents = contents._replace(flushed_offset=min(max(self._recovery_point, log_start), end_offset))
        return self._make_log(contents), report

    def _renew_small_files(self) -> None:
        """Make certain of the files beside the log that are durable before it, or are read whatever it holds."""
        topic_id = f"{self._directory}/{PARTITION_METADATA}"
        if self._recovery_point == 0 and self._disk.exists(topic_id):
            rewrite_file(self._disk, topic_id)
        if self._partition.topic == METADATA_TOPIC:
            self._renew_names()  # of snapshots and the quorum-state

    def _renew_names(self) -> None:
        """Have the directory be written when it is synced. Without room for that its file system has to have kept it:
        one with a journal has, or has failed for good.
        """
        with self._context.health.sparing():
            renew_names(self._disk, self._directory)

    def _read_epochs(self, segments: list[Segment], report: RecoveryReport) -> LeaderEpochs:
        """The history of leader epochs; a damaged one is rebuilt from the headers of all batches."""
        try:
            self._stored_epochs = tuple(read_epochs(self._disk, f"{self._directory}/{EPOCH_CHECKPOINT}"))
            return LeaderEpochs(self._stored_epochs)
        except CorruptLog as error:
            report.notes.append(f"{error}; it is rebuilt from the log")
        found = LeaderEpochs()
        for segment in segments:
            with suppress(BadBatch):  # torn, or for those that check every byte to find
                for _, header in walk_headers(segment.file(), 0, segment.size):
                    found.assign(header.leader_epoch, header.base_offset)
        return found

    def _missing(self, what: str) -> CorruptLog:
        if self._partition.topic == METADATA_TOPIC:
            return metadata_missing(self._directory, what)
        return CorruptLog(
            f"{self._directory} {what}, but was synced up to offset {self._recovery_point}: its records are missing. "
            "Stop the node, restore the directory from a backup and start the node again. To go on without its "
            f"records, at offset {self._recovery_point}, stop the node, make an empty file "
            f"{self._directory}/{ACCEPT_LOSS} instead and start it again"
        )

    def _accept_loss(self, report: RecoveryReport) -> None:
        """Let an empty log continue where the lost one ended, if an operator allows it: no offset is given twice."""
        marker = f"{self._directory}/{ACCEPT_LOSS}"
        if not self._disk.exists(marker) or self._partition.topic == METADATA_TOPIC:
            raise self._missing("has no segments")
        self._log_start = self._recovery_point
        self._context.checkpoints.set_log_start(self._partition, self._log_start)
        self._context.checkpoints.write_log_starts()
        self._disk.remove(marker)
        report.lost_to = self._log_start

    def _create(self, *, is_new: bool) -> Log:
        """An empty log, starting where deleted records ended. Its names are durable with its first flush."""
        # What is left of an earlier life, whose removal was cut off, goes before there is a segment it could pass for.
        self._producer_files.remove_beyond(-1)
        if self._stored_epochs:
            self._stored_epochs = ()
            write_epochs(self._disk, f"{self._directory}/{EPOCH_CHECKPOINT}", ())
        elif not is_new:
            self._disk.sync_dir(self._directory)
        self._epochs, self._producers = LeaderEpochs(), ProducerStates()
        segment = Segment.create(
            self._context.files,
            self._directory,
            self._log_start,
            index_interval_bytes=self._config.index_interval_bytes,
        )
        return self._make_log(
            Contents([segment], self._epochs, self._producers, self._log_start, self._log_start, is_new=True)
        )

    def _make_log(self, contents: Contents) -> Log:
        contents.epochs.truncate_to(contents.end_offset)
        contents.epochs.truncate_before(contents.log_start_offset)
        if contents.epochs.entries != self._stored_epochs:
            # At once, or before the next recovery point, which may pass epochs that only this recovery found, or that
            # were cut.
            contents = contents._replace(has_unwritten_epochs=True)
            with self._context.health.sparing():
                write_epochs(self._disk, f"{self._directory}/{EPOCH_CHECKPOINT}", contents.epochs.entries)
                contents = contents._replace(has_unwritten_epochs=False)
        return Log(self._partition, self._directory, self._config, self._context, contents)

    # After a clean shutdown

    def _open_clean(self, segments: list[Segment]) -> int | None:
        """The end offset, read from the last segment's tail; None if something is inconsistent after all."""
        last = segments[-1]
        try:
            end_offset = last.activate()
            last.txn_index.aborted()
        except (CorruptLog, DamagedIndex):
            return None
        snapshot = self._producer_files.newest(at_most=end_offset)
        if end_offset != max(self._recovery_point, last.base_offset) or snapshot is None:
            return None
        if snapshot[0] != end_offset:
            return None
        self._producers.restore(snapshot[1])
        return end_offset

    # After a crash

    def _recover(self, segments: list[Segment], report: RecoveryReport) -> int:
        # What comes before the first segment is deleted: its producers and epochs are known, or nobody knows them.
        recovery_point = self._recovery_point = max(self._recovery_point, segments[0].base_offset)
        first = max((i for i, each in enumerate(segments) if each.base_offset <= recovery_point), default=0)
        known_size = self._known_size(segments[first])
        self._epochs.truncate_to(recovery_point + 1)  # one that begins there may span a gap; if not, the scan says so
        self._replay_known(segments[: first + 1], known_size)
        self._cut_aborted(segments[: first + 1], known_size)
        if self._is_uncertain(segments, known_size):
            self._renew_names()
            segments[first].txn_index.renew()
        end_offset = max(recovery_point, segments[first].base_offset)
        is_whole, is_known = True, self._context.checkpoints.is_recovery_point_known
        for index in range(first, len(segments)):
            segment = segments[index]
            if index > first:
                has_gap = segment.base_offset < end_offset or (is_known and segment.base_offset > end_offset)
                if not is_whole or has_gap:
                    # Only an unsynced end of the segment before explains a gap: nothing from here on was durable.
                    # Where nobody knows what was synced, compaction explains it, too, and nothing is dropped.
                    self._drop(segments, index, report)
                    break
                self._close(segments[index - 1])
            position = known_size if index == first else 0
            # Where nobody knows what was synced, only the very end of the log passes for torn.
            may_cut = is_known or index + 1 == len(segments)
            end_offset, is_whole = self._check_segment(segment, position, end_offset, report, may_cut=may_cut)
        self._settle(segments[-1], end_offset)
        return end_offset

    def _is_uncertain(self, segments: list[Segment], known_size: int) -> bool:
        """Whether anything was done to the log after its recovery point was noted: not to one that was idle."""
        last = segments[-1]
        return (
            last.base_offset >= self._recovery_point  # as is each that was made since
            or last.size > known_size
            or any(self._was_cut(segment) for segment in segments)
        )

    def _was_cut(self, segment: Segment) -> bool:
        """Whether a segment may have been truncated, or swapped for another: its index goes first, or comes last."""
        return not self._disk.exists(segment.path(INDEX))

    def _known_size(self, segment: Segment) -> int:
        """Where the batches below the recovery point end in the segment that holds it."""
        recovery_point, end = self._recovery_point, segment.size
        start = segment.known_position(recovery_point)
        next_offset, position = segment.base_offset, start
        try:
            for position, header in walk_headers(segment.file(), start, end):
                if header.base_offset >= recovery_point:
                    return position
                next_offset = header.next_offset
                if next_offset >= recovery_point:
                    return position + header.size
        except BadBatch as bad:
            if next_offset < recovery_point:
                raise bad.as_corrupt_log() from bad
            return position
        if next_offset < recovery_point:
            raise CorruptLog(
                f"{segment.log_path} ends before offset {recovery_point}, up to which it was synced: bytes are "
                "missing; restore the file from a replica or a backup"
            )
        return end

    def _replay_known(self, segments: list[Segment], known_size: int) -> None:
        """Bring the producers up to the recovery point: the newest snapshot, then batch headers after it."""
        start_offset = segments[0].base_offset
        snapshot = self._producer_files.newest(at_most=self._recovery_point)
        if snapshot is not None and snapshot[0] >= start_offset:
            start_offset, producers = snapshot
            self._producers.restore(producers)
        first = max(i for i, each in enumerate(segments) if each.base_offset <= start_offset)
        for segment in segments[first:]:
            end = known_size if segment is segments[-1] else segment.size
            start = segment.known_position(start_offset)
            try:
                for position, header in walk_headers(segment.file(), start, end):
                    if header.base_offset >= start_offset:
                        replay_batch(self._producers, segment, position, header)
            except BadBatch as bad:
                raise bad.as_corrupt_log() from bad

    def _cut_aborted(self, segments: list[Segment], known_size: int) -> None:
        """Bring the transaction index of the segment with the recovery point back to that point."""
        try:
            segments[-1].txn_index.cut(self._recovery_point)
        except DamagedIndex:
            segments[-1].txn_index.replace(find_aborted(self._producer_files, segments, end_position=known_size))

    def _check_segment(
        self, segment: Segment, position: int, min_offset: int, report: RecoveryReport, *, may_cut: bool
    ) -> tuple[int, bool]:
        """Check every byte from `position` on and index it; a torn end is cut. (End offset, whether whole.)"""
        end = segment.size
        report.checked_bytes += end - position
        if segment.base_offset > self._recovery_point:
            segment.txn_index.clear()
        is_certain = position == end and not self._was_cut(segment)
        segment.start_rebuilding(position)
        end_offset = min_offset
        rewriting = Rewriting(segment.file(), position)
        try:
            for batch in scan_batches(segment.file(), position, end, min_offset=min_offset):
                header = batch.header
                rewriting.add(batch.data)
                segment.note_batch(batch.position, header)
                end_offset = header.base_offset + header.last_offset_delta + 1
                if header.leader_epoch != self._epochs.latest:
                    self._epochs.assign(header.leader_epoch, header.base_offset)
                if header.producer_id != NO_PRODUCER_ID:
                    self._replay_checked(segment, batch)
        except BadBatch as bad:
            if not bad.is_torn or not may_cut:
                raise bad.as_corrupt_log() from bad
            report.checked_bytes -= end - bad.position
            report.cut_bytes += end - bad.position
            report.notes.append(f"cut {end - bad.position} bytes of an interrupted write: {bad}")
            rewriting.end()
            segment.truncate(bad.position, end_offset=end_offset)
            return end_offset, False
        if not is_certain:
            rewriting.end()
        return end_offset, True

    def _replay_checked(self, segment: Segment, batch: FoundBatch) -> None:
        completed = replay_batch(self._producers, segment, batch.position, batch.header)
        if completed is not None and completed.is_aborted:
            segment.txn_index.note(aborted_entry(self._producers, completed))
            with self._context.health.sparing():
                segment.txn_index.write()  # or before the log counts as flushed

    def _drop(self, segments: list[Segment], index: int, report: RecoveryReport) -> None:
        for segment in reversed(segments[index:]):
            report.cut_bytes += segment.size
            report.cut_segments += 1
            report.notes.append(f"removed {segment.log_path}: what came before it was never synced")
            segment.remove()
        del segments[index:]

    def _close(self, segment: Segment) -> None:
        segment.file().sync()
        with self._context.health.sparing():
            for file in segment.begin_close():
                file.sync()
        segment.end_close()

    def _settle(self, active: Segment, end_offset: int) -> None:
        """Make what was found durable, since from now on it counts as durable."""
        active.file().sync()
        with self._context.health.sparing():
            for file in (*active.write_indexes(), *active.txn_index.written_files()):
                file.sync()
        self._producer_files.remove_beyond(end_offset)
        self._disk.sync_dir(self._directory)
