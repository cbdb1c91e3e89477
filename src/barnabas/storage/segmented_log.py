"""The segments of one partition's log and their durability: rolling, flushing, checkpoints, truncation.

Owns which segments there are and which is active, where the log starts, ends and is flushed to, and the files beside
the segments: producer snapshots and the history of leader epochs. What may be appended, and reading, is `log.Log`.

Invariants: log_start_offset <= flushed_offset <= end_offset; segments are in order of their base offsets and the last
is active.

Must not know: what is in a batch.
"""

from collections.abc import Callable
from typing import Final

from barnabas.core.errors import StorageExhausted
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import LOG_OVERHEAD, TimestampType
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.epoch_file import EpochFile
from barnabas.storage.log_parts import Contents, LogContext
from barnabas.storage.names import LOG, segment_file
from barnabas.storage.producer_files import ProducerFiles
from barnabas.storage.segment import Segment
from barnabas.storage.unsynced import FlushPlan, Unsynced

SNAPSHOT_INTERVAL_BYTES: Final = 4 * 1024 * 1024  # how much log a recovery may have to walk below its recovery point


class SegmentedLog:
    """The segments of a log, the last one active."""

    def __init__(
        self,
        partition: TopicPartition,
        directory: str,
        config: LogConfig,
        context: LogContext,
        contents: Contents,
    ) -> None:
        self.partition = partition
        self.directory = directory
        self.epochs = contents.epochs
        self.producers = contents.producers
        self.log_start_offset = contents.log_start_offset
        self.end_offset = self.flushed_offset = contents.end_offset
        if contents.flushed_offset is not None:
            self.flushed_offset = contents.flushed_offset
        self.producer_files = ProducerFiles(context.files.disk, directory)
        self._context = context
        self._health = context.health
        self._segments = contents.segments
        self._bases = [segment.base_offset for segment in contents.segments]
        self._active = contents.segments[-1]
        self._unsynced = Unsynced(context.files.disk, directory, is_new=contents.is_new)
        self._epoch_file = EpochFile(context.files.disk, directory, contents.epochs)
        self._epoch_file.note_if(contents.has_unwritten_epochs)
        self.is_deleted = False
        self._cuts = 0  # truncations so far
        self._opened_at = contents.end_offset
        self._opened_clean_at = contents.end_offset if contents.was_clean else -1
        self._checkpointed = (-1, -1, -1)
        self._snapshot_size = 0  # of the active segment when producers were last written
        self._unwritten: tuple[Segment, ...] = ()
        if contents.flushed_offset is not None:
            self._unwritten = tuple(segment for segment in contents.segments if segment.txn_index.has_unwritten)
            self._unsynced.note_names()
        self.config = config

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        # What every append asks for, without the way through the configuration.
        self._max_batch_length = config.max_message_bytes - LOG_OVERHEAD
        self._must_sync = config.flush_policy is FlushPolicy.FSYNC
        self._flush_messages = config.flush_messages
        self.flush_ms = config.flush_ms
        self._stamps_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
        self._limit_active()

    def __repr__(self) -> str:
        return f"Log({self.partition}, {self.log_start_offset}..{self.end_offset})"

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def active(self) -> Segment:
        return self._active

    @property
    def cuts(self) -> int:
        """How often the log was truncated: after that, offsets and segments may hold other records."""
        return self._cuts

    @property
    def size(self) -> int:
        """Bytes of record batches."""
        return sum(segment.size for segment in self._segments)

    @property
    def is_directory_new(self) -> bool:
        """Whether the name of the log's directory may still be lost: until its first flush."""
        return self._unsynced.is_new

    def sync_with_first(self, path: str) -> None:
        """Have a file in the directory of a new log be durable with its first records."""
        self._unsynced.make_first(path)

    # Rolling

    def roll(self) -> None:
        """Close the active segment and start the next one at the end of the log."""
        if self._active.size:
            self._roll_at(self.end_offset)

    def _leap_to(self, base_offset: int) -> None:
        """Continue at `base_offset` in a new segment.

        Recovery takes a gap between segments for loss, unless the recovery point lies behind it: so it does, durably,
        before anything is written there.
        """
        self.flush()
        with self._health.guarded():
            self._roll_at(base_offset)
        self.end_offset = base_offset
        self.flush()
        self.prepare_checkpoint()
        with self._health.guarded():
            self._context.checkpoints.write()

    def _roll_at(self, base_offset: int) -> None:
        if self._unsynced.is_new:
            # The first segment of a new log: were its name lost and the next one's not, the log would begin in a hole.
            self.flush()
        # Whatever may fail comes first, and can be done again: until then the active segment is the active segment.
        file = self._active.file()
        snapshot = self.producer_files.write(self.end_offset, self.producers)
        indexes = self._active.begin_close()
        if base_offset <= self.log_start_offset:
            # All that is closed here is deleted, and once the next segment has a name a crash removes it.
            snapshot.sync()
            self._context.files.disk.sync_dir(self.directory)
        segment = self._create_segment(base_offset)
        self._active.release()
        self._active.end_close()
        self._unsynced.add(file, *indexes, snapshot)
        self._active = segment
        self._limit_active()
        self._segments.append(segment)
        self._bases.append(base_offset)
        self._snapshot_size = 0

    def _create_segment(self, base_offset: int) -> Segment:
        self._unsynced.note_names()
        files = self._context.files
        try:
            return Segment.create(
                files, self.directory, base_offset, index_interval_bytes=self.config.index_interval_bytes
            )
        except OSError:
            # A file of this name would one day be taken for a part of the log.
            path = segment_file(self.directory, base_offset, LOG)
            files.forget(path)
            with self._health.guarded(is_final=True):
                if files.disk.exists(path):
                    files.disk.remove(path)
            raise

    # Durability

    def begin_flush(self) -> FlushPlan | None:
        """What to sync for all that is appended so far; None when nothing is. Then run it, then `end_flush`.

        Plans may overlap: what one covers stays on the list until it has ended.
        """
        self._health.check()
        unsynced = self._unsynced
        if self.flushed_offset == self.end_offset and not unsynced.has_files and not unsynced.has_names:
            return None
        if self._unwritten or self._active.txn_index.has_unwritten:
            self._write_aborted()
        try:  # as `health.reading`, which every flush would make a generator for
            active = self._active.file()
            return unsynced.plan(active, end_offset=self.end_offset, cuts=self._cuts)
        except OSError as error:
            raise self._health.fail(error) from error

    def end_flush(self, plan: FlushPlan) -> None:
        """The plan ran: what it covered is durable."""
        self._unsynced.end(plan)
        if plan.cuts != self._cuts:
            return  # a truncation came in between: the offsets may lead to other records by now
        self.flushed_offset = max(self.flushed_offset, plan.end_offset)
        if self.flushed_offset == self.end_offset:
            self._active.let_go()

    def is_flush_due(self) -> bool:
        """Whether what was appended should be flushed soon: by the policy, by its amount, or as a segment is closed."""
        return (
            self._must_sync
            or self.end_offset - self.flushed_offset >= self._flush_messages
            or bool(self._unsynced.files)
        )

    @property
    def has_closed_files(self) -> bool:
        """Whether closed segments wait for their sync, which they should get soon whatever the policy."""
        return self._unsynced.has_files

    def _write_aborted(self) -> None:
        """Bring transaction indexes up to what is in memory: that of the active segment, and after a recovery without
        room those of others.
        """
        unwritten, self._unwritten = self._unwritten, ()
        for segment in (*unwritten, self._active):
            if segment.txn_index.has_unwritten:
                try:
                    with self._health.guarded():
                        self._unsynced.note_names()
                        self._unsynced.add(segment.txn_index.write())
                except StorageExhausted:
                    self._unwritten = unwritten
                    raise

    def flush(self) -> None:
        """Make everything appended so far durable, and wait for it."""
        if not self._unsynced.has_files and not self._unsynced.has_names and self._health.offline_reason is None:
            self._flush_active()
            return
        plan = self.begin_flush()
        if plan is not None:
            with self._health.guarded():
                plan.run()
            self.end_flush(plan)

    def _flush_active(self) -> None:
        """The common case of a flush: only the active segment has anything to sync."""
        if self.flushed_offset == self.end_offset:
            return
        try:
            self._active.file().sync()
        except OSError as error:
            raise self._health.fail(error) from error
        self.flushed_offset = self.end_offset
        self._active.let_go()

    def prepare_checkpoint(self) -> None:
        """Write what saves the next recovery work, and note the recovery point to be checkpointed."""
        if self._checkpointed != (self.flushed_offset, self.end_offset, self._cuts):
            with self._health.guarded():
                self.write_epochs()
                self._active.write_indexes()
                if self._active.size - self._snapshot_size >= SNAPSHOT_INTERVAL_BYTES:
                    self._write_producers()
            self._checkpointed = (self.flushed_offset, self.end_offset, self._cuts)
        self._context.checkpoints.set_recovery_point(self.partition, self.flushed_offset)
        self._context.checkpoints.set_log_start(self.partition, self.log_start_offset)

    def begin_checkpoint(self) -> Callable[[], None] | None:
        """As `prepare_checkpoint`, without waiting for the disk: a history of epochs that is not durable is left to the
        function that is returned, for a thread, and the recovery point to the next checkpoint.
        """
        write = self.begin_write_epochs()
        if write is None:
            self.prepare_checkpoint()
        return write

    def close(self) -> None:
        """Make the records durable and write indexes and producers, so that opening again need not look.

        Those are not synced one by one: the data directory does so once for all its logs.
        """
        self.flush()
        if self.end_offset != self._opened_clean_at or self._cuts:
            self.prepare_checkpoint()
            with self._health.guarded():
                self._active.write_indexes()
                self._write_producers()
        self._context.checkpoints.set_recovery_point(self.partition, self.flushed_offset)
        self._context.checkpoints.set_log_start(self.partition, self.log_start_offset)
        self.forget_files()

    def _write_producers(self) -> None:
        self.producer_files.write(self.end_offset, self.producers)
        self.producer_files.remove_between(self._active.base_offset, self.end_offset)
        self._snapshot_size = self._active.size

    def retire(self) -> None:
        """The partition is deleted: its files must not be opened by name any more."""
        self.is_deleted = True
        for segment in self._segments:
            segment.retire()

    def forget_files(self) -> None:
        """Drop everything open: the directory is gone."""
        for segment in self._segments:
            segment.forget_files()

    def write_epochs(self) -> None:
        """Make the history of epochs durable, if it changed."""
        self._epoch_file.write()

    def begin_write_epochs(self) -> Callable[[], None] | None:
        """The function that does so, on any thread; None if nothing changed."""
        return self._epoch_file.begin_write()

    # Cutting. What goes first and what must be durable in between is in `truncate`, `retention` and `compaction`.

    def set_segments(self, segments: list[Segment]) -> None:
        """Set the segments of the log, the last one active."""
        assert segments[-1].is_active
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]
        self._limit_active()

    def _limit_active(self) -> None:
        self._active.set_limits(max_size=self._config.segment_bytes, max_age_ms=self._config.segment_ms)

    def cut_end(self, segments: list[Segment], *, end_offset: int) -> None:
        """The log now ends at `end_offset` with these segments, all of it durable."""
        self.set_segments(segments)
        self._cuts += 1
        self._unsynced.forget_files()
        self.end_offset = self.flushed_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self._snapshot_size = 0
        self._epoch_file.note_if(self.epochs.truncate_to(end_offset))

    def cut_epochs(self, end_offset: int) -> None:
        """Forget epochs that begin at `end_offset` or after it: leaders that wrote nothing that is here."""
        self._epoch_file.note_if(self.epochs.truncate_to(end_offset))

    def forget_epochs(self) -> None:
        """Everything was removed: the next append may be of any epoch."""
        self._epoch_file.note_if(self.epochs.truncate_to(0))
        self.write_epochs()

    def cut_start(self, segments: list[Segment], *, log_start_offset: int) -> None:
        """The log now starts at `log_start_offset`, with these segments."""
        self.set_segments(segments)
        self.log_start_offset = log_start_offset
        self._epoch_file.note_if(self.epochs.truncate_before(log_start_offset))

    @property
    def context(self) -> LogContext:
        return self._context
