"""The log of one partition: segments in a directory, appended at one end and read anywhere.

Owns the order of offsets, the active segment, the leader-epoch history and the producers of the log. One task owns
a log and calls everything that changes it; reads that were located (`Slice`) may run in any thread.

Invariants: log_start_offset <= flushed_offset <= end_offset; segments are in order of their base offsets and the last
is active; offsets only grow and are never given twice; a refused append leaves no trace.

Must not know: the network, replication, who waits for an append. Time arrives as an argument.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, cast

from barnabas.core.errors import (
    CorruptRecord,
    FencedLeaderEpoch,
    InvalidRecord,
    OffsetOutOfRange,
    StorageError,
    StorageExhausted,
)
from barnabas.core.model import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from barnabas.core.records.batch import (
    HIGHEST_PLAIN_ATTRIBUTES,
    LOG_OVERHEAD,
    MIN_RECORD_SIZE,
    BatchHeader,
    TimestampType,
    assign_offset,
    check_batch,
    iter_batches,
    pack_place,
    read_alone,
    read_header,
    read_plain,
)
from barnabas.core.records.control import read_marker
from barnabas.core.replica.leader_epochs import EpochEnd
from barnabas.core.replica.producers import WrittenBatch
from barnabas.storage.checkpoints import encode_epochs
from barnabas.storage.config import FlushPolicy, LogConfig
from barnabas.storage.log_parts import Contents, LogContext
from barnabas.storage.names import EPOCH_CHECKPOINT, LOG, segment_file
from barnabas.storage.new_batches import check_new, stamp
from barnabas.storage.offset_index import MAX_RELATIVE_OFFSET
from barnabas.storage.producer_files import ProducerFiles, aborted_entry
from barnabas.storage.reading import ReadPlan, Slice
from barnabas.storage.segment import Segment
from barnabas.storage.small_file import ReplacedFile
from barnabas.storage.unsynced import FlushPlan, Unsynced

SNAPSHOT_INTERVAL_BYTES: Final = 4 * 1024 * 1024  # how much log a recovery may have to walk below its recovery point


class Appended(NamedTuple):
    """Where a batch is in the log. A retry of one already written gets the offsets that one has."""

    first_offset: int
    last_offset: int
    log_append_time: int
    is_duplicate: bool = False


_new_appended: Final = cast("Callable[[type[Appended], tuple[int, int, int, bool]], Appended]", tuple.__new__)


class Log:
    """One partition's log, made by `recovery.open_log`."""

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
        self.producer_files = ProducerFiles(context.files.disk, directory)
        self._context = context
        self._health = context.health
        self._segments = contents.segments
        self._bases = [segment.base_offset for segment in contents.segments]
        self._active = contents.segments[-1]
        self._unsynced = Unsynced(context.files.disk, directory, is_new=contents.is_new)
        self._epochs_changed = False
        self._epochs_file = ReplacedFile(context.files.disk, f"{directory}/{EPOCH_CHECKPOINT}")
        self.is_deleted = False
        self._cuts = 0  # truncations so far
        self._opened_at = contents.end_offset
        self._opened_clean_at = contents.end_offset if contents.was_clean else -1
        self._checkpointed = (-1, -1, -1)
        self._snapshot_size = 0  # of the active segment when producers were last written
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
        """How often the end was cut: after that, offsets and segments may hold something else."""
        return self._cuts

    @property
    def size(self) -> int:
        """Bytes of record batches."""
        return sum(segment.size for segment in self._segments)

    # Appending

    def append(self, data: bytearray | memoryview, *, leader_epoch: int, now_ms: int) -> Appended:
        """Take batches as the leader: check them, give them the next offsets in place, write them in one go.

        `data` becomes the log's: its batches carry their offsets afterwards.

        This is the short way that most appends go; whatever is not plain goes through `_append_any`.
        """
        active = self._active
        if (
            leader_epoch != self.epochs.latest
            or self._stamps_time
            or active.held is None
            or self._health.offline_reason is not None
            or (plain := read_plain(data, self._max_batch_length)) is None
        ):
            return self._append_any(data, leader_epoch=leader_epoch, now_ms=now_ms)
        length, last_offset_delta, max_timestamp = plain
        first_offset = self.end_offset
        last_offset = first_offset + last_offset_delta
        pack_place(data, 0, first_offset, length, leader_epoch)
        try:
            if not active.append(data, last_offset, max_timestamp):
                self.roll()
                self._active.append(data, last_offset, max_timestamp)
        except OSError as error:
            raise self._fail_append(error) from error
        self.end_offset = last_offset + 1
        if self._active.held is None:
            self._hold_active()
        return _new_appended(Appended, (first_offset, last_offset, NO_TIMESTAMP, False))

    def _append_any(self, data: bytearray | memoryview, *, leader_epoch: int, now_ms: int) -> Appended:
        self._health.check()
        latest_epoch = self.epochs.latest
        if leader_epoch < latest_epoch:
            raise FencedLeaderEpoch(
                f"{self.partition} was written by leader epoch {latest_epoch}; epoch {leader_epoch} is over"
            )
        header = read_alone(data)
        if header is None:
            return self._append_several(data, leader_epoch=leader_epoch, now_ms=now_ms)
        has_producer = header.producer_id != NO_PRODUCER_ID
        if (
            header.batch_length > self._max_batch_length
            or header.record_count != header.last_offset_delta + 1
            or header.record_count * MIN_RECORD_SIZE > header.batch_length
            or (header.attributes > HIGHEST_PLAIN_ATTRIBUTES and not has_producer)
        ):
            check_new(header, self.partition, self._config)  # says which
        if has_producer:
            written = self._check_producer(data, header)
            if written is not None:
                return Appended(written.first_offset, written.last_offset, NO_TIMESTAMP, is_duplicate=True)
        first_offset = self.end_offset
        last_offset = first_offset + header.last_offset_delta
        assign_offset(data, 0, header, base_offset=first_offset, leader_epoch=leader_epoch)
        stamped = stamp(data, 0, header, now_ms) if self._stamps_time else NO_TIMESTAMP
        timestamp = header.max_timestamp if stamped == NO_TIMESTAMP else stamped
        try:
            if not self._active.append(data, last_offset, timestamp):
                self.roll()
                self._active.append(data, last_offset, timestamp)
        except OSError as error:
            raise self._fail_append(error) from error
        self.end_offset = last_offset + 1
        if leader_epoch != latest_epoch:
            self._epochs_changed |= self.epochs.assign(leader_epoch, first_offset)
        if has_producer:
            if header.is_control:
                self._apply_producer(data, read_header(data))
            else:
                self.producers.note_data(
                    header, first_offset=first_offset, last_offset=last_offset, timestamp=timestamp
                )
        if self._active.held is None:
            self._hold_active()
        return _new_appended(Appended, (first_offset, last_offset, stamped, False))

    def _append_several(self, data: bytearray | memoryview, *, leader_epoch: int, now_ms: int) -> Appended:
        batches = list(iter_batches(data))
        for position, header in batches:
            check_batch(data, position, header)
            check_new(header, self.partition, self._config)
            if header.has_producer:
                raise InvalidRecord("a batch of an idempotent producer must come alone")
        offset = first_offset = self.end_offset
        placed, stamped = [], NO_TIMESTAMP
        for position, header in batches:
            assign_offset(data, position, header, base_offset=offset, leader_epoch=leader_epoch)
            stamped = stamp(data, position, header, now_ms) if self._stamps_time else NO_TIMESTAMP
            timestamp = header.max_timestamp if stamped == NO_TIMESTAMP else stamped
            placed.append((position, offset + header.last_offset_delta, timestamp))
            offset += header.last_offset_delta + 1
        self._write_several(data, placed)
        if leader_epoch != self.epochs.latest:
            self._epochs_changed |= self.epochs.assign(leader_epoch, first_offset)
        self._hold_active()
        return Appended(first_offset, offset - 1, stamped)

    def append_as_follower(self, data: bytearray | memoryview) -> Appended:
        """Take batches that the leader has given their offsets, exactly as they are."""
        self._health.check()
        batches = list(iter_batches(data))
        offset, latest_epoch = self.end_offset, self.epochs.latest
        placed = []
        for position, header in batches:
            check_batch(data, position, header)
            if header.is_control and header.has_producer:
                read_marker(data, position, header)  # refused now, not when it is written
            if header.base_offset < offset:
                raise OffsetOutOfRange(
                    f"{self.partition} ends at {offset}; the leader sent a batch at {header.base_offset}"
                )
            if header.leader_epoch < latest_epoch:
                raise FencedLeaderEpoch(
                    f"the leader sent a batch of epoch {header.leader_epoch} after one of {latest_epoch}"
                )
            latest_epoch = header.leader_epoch
            placed.append((position, header.last_offset, header.max_timestamp))
            offset = header.next_offset
        if not placed:
            raise CorruptRecord("no batch to append")
        if offset - 1 - self.end_offset > MAX_RELATIVE_OFFSET:
            return self._append_with_gap(data, batches)
        self._write_several(data, placed)
        for position, header in batches:
            self._epochs_changed |= self.epochs.assign(header.leader_epoch, header.base_offset)
            if header.has_producer:
                self._apply_producer(memoryview(data)[position : position + header.size], header)
        self._hold_active()
        return Appended(batches[0][1].base_offset, offset - 1, NO_TIMESTAMP)

    def _append_with_gap(self, data: bytearray | memoryview, batches: Sequence[tuple[int, BatchHeader]]) -> Appended:
        """Take batches that reach farther than a segment can: compaction left the leader a gap of 2**31 offsets."""
        if len(batches) == 1:
            self._leap_to(batches[0][1].base_offset)
        view = memoryview(data)
        appended = [self.append_as_follower(view[at : at + header.size]) for at, header in batches]
        return Appended(appended[0].first_offset, appended[-1].last_offset, NO_TIMESTAMP)

    def note_leader_epoch(self, epoch: int) -> None:
        """A leader begins `epoch` here, with nothing written in it yet."""
        self._epochs_changed |= self.epochs.assign(epoch, self.end_offset)

    def _check_producer(self, data: bytearray | memoryview, header: BatchHeader) -> WrittenBatch | None:
        """The batch that this one repeats, if it does; refused when it does not follow."""
        if header.is_control:
            self.producers.check_marker(header, read_marker(data, 0, header))
            return None
        return self.producers.admit(header)

    def _apply_producer(self, data: bytearray | memoryview, header: BatchHeader) -> None:
        marker = read_marker(data, 0, header) if header.is_control else None
        completed = self.producers.apply(
            header, marker if marker is not None and marker.type.ends_transaction else None
        )
        if completed is not None and completed.is_aborted:
            self._active.note_aborted(aborted_entry(self.producers, completed))
            self._unsynced.note_names()
            # The marker is in the log by now. Where there is no room for this a flush sees to it, or does not succeed.
            with suppress(StorageExhausted):
                self._write_aborted()

    def _write_aborted(self) -> None:
        with self._health.guarded():
            self._unsynced.add(self._active.write_aborted())

    def _fail_append(self, error: OSError) -> StorageError:
        """A write failed: what there is of it must leave no trace. Returns the refusal to raise."""
        refusal = self._health.fail(error)
        if isinstance(refusal, StorageExhausted):
            try:
                self._active.cut_unfinished()
            except OSError as failure:
                return self._health.fail_for_good(failure)
        return refusal

    def _write_several(self, data: bytearray | memoryview, placed: Sequence[tuple[int, int, int]]) -> None:
        try:
            if not self._active.append_several(data, placed):
                self.roll()
                self._active.append_several(data, placed)
        except OSError as error:
            raise self._fail_append(error) from error
        self.end_offset = placed[-1][1] + 1

    def _hold_active(self) -> None:
        """The last step of an append: a flush must find all of it done."""
        if self._active.hold():
            return
        if self._must_sync:
            self.flush()  # as many files wait for their sync as may be open: this one waits for its own
        else:
            self._active.let_go()

    def roll(self) -> None:
        """Close the active segment and start the next one at the end of the log."""
        if self._active.size:
            self._roll_at(self.end_offset)

    def _leap_to(self, base_offset: int) -> None:
        """Go on at `base_offset` in a segment of its own.

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
        if self._active.has_unwritten_aborted:
            self._write_aborted()
        with self._health.reading():
            active = self._active.file()
        return unsynced.plan(active, end_offset=self.end_offset, cuts=self._cuts)

    def end_flush(self, plan: FlushPlan) -> None:
        """The plan ran: what it covered is durable."""
        self._unsynced.end(plan)
        if plan.cuts != self._cuts:
            return  # a truncation came in between: the offsets may lead to other records by now
        self.flushed_offset = max(self.flushed_offset, plan.end_offset)
        if self.flushed_offset == self.end_offset:
            self._active.let_go()

    @property
    def has_closed_files(self) -> bool:
        """Whether closed segments wait for their sync, which they should get soon whatever the policy."""
        return self._unsynced.has_files

    def flush(self) -> None:
        """Make everything appended so far durable, here and now."""
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
        """Write what spares the next recovery work, and note the recovery point to be checkpointed."""
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
        """The partition is deleted: nothing may be opened here by name any more."""
        self.is_deleted = True
        for segment in self._segments:
            segment.retire()

    def forget_files(self) -> None:
        """Let go of everything open: the directory is gone."""
        for segment in self._segments:
            segment.forget_files()

    def write_epochs(self) -> None:
        """Make the history of epochs durable, if it changed."""
        write = self.begin_write_epochs()
        if write is not None:
            write()

    def begin_write_epochs(self) -> Callable[[], None] | None:
        """The function that does so, on whatever thread; None when nothing changed."""
        if self._epochs_changed:
            self._epochs_file.note_change()
            self._epochs_changed = False
        if self._epochs_file.is_durable:
            return None
        entries = self.epochs.entries
        return self._epochs_file.begin(lambda: encode_epochs(entries))

    # Reading

    def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> Slice | None:
        """The batches from the one that holds `offset` on: up to `max_bytes` of one segment, none that reaches
        `end_offset`, but at least one. None when there is nothing below `end_offset`.

        The last batch may be incomplete; consumers of the protocol expect that.
        """
        plan = self.begin_read(offset, end_offset=end_offset)
        return None if plan is None else plan.locate(max_bytes)

    def begin_read(self, offset: int, *, end_offset: int | None = None) -> ReadPlan | None:
        """What a read from `offset` on has to look at; None when there is nothing below `end_offset`."""
        bound = self.end_offset if end_offset is None else min(end_offset, self.end_offset)
        if self._health.offline_reason is not None:
            bound = min(bound, self.flushed_offset)  # of the rest nobody knows what the disk has made
        self.check_readable(offset)
        if offset >= bound:
            return None
        first = self._segment_index(offset)
        return ReadPlan(
            offset=offset,
            bound=bound,
            segments=self._segments[first : bisect_left(self._bases, bound, lo=first)],
            # Now: by the time somebody looks, more may be there.
            end_position=self._active.size if bound == self.end_offset else None,
            is_fresh=first == len(self._segments) - 1 and offset >= self._opened_at,
            health=self._health,
        )

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ended: what a follower or a consumer checks its own history against."""
        return self.epochs.end_offset_for(epoch, log_end_offset=self.end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where `read_committed` may read."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def segments_from(self, offset: int) -> Iterator[Segment]:
        """The segments that hold `offset` and everything after it."""
        return iter(self._segments[self._segment_index(offset) :])

    def check_readable(self, offset: int) -> None:
        """Refuse an offset that is not in the log."""
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.partition}, which has {self.log_start_offset} to {self.end_offset}"
            )

    def _segment_index(self, offset: int) -> int:
        return max(bisect_right(self._bases, offset) - 1, 0)

    # Cutting. What goes first and what must be durable in between is in `truncate`, `retention` and `compaction`.

    def set_segments(self, segments: list[Segment]) -> None:
        """Take these as the segments of the log, the last one active."""
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
        self._epochs_changed |= self.epochs.truncate_to(end_offset)
        self.write_epochs()

    def forget_epochs(self) -> None:
        """Everything is removed: what the log takes next may come from any epoch."""
        self._epochs_changed |= self.epochs.truncate_to(0)
        self.write_epochs()

    def cut_start(self, segments: list[Segment], *, log_start_offset: int) -> None:
        """The log now starts at `log_start_offset`, with these segments."""
        self.set_segments(segments)
        self.log_start_offset = log_start_offset
        self._epochs_changed |= self.epochs.truncate_before(log_start_offset)

    @property
    def context(self) -> LogContext:
        return self._context
