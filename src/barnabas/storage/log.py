"""The log of one partition: appended at one end and read anywhere.

Owns the order of offsets, what may be appended, and the producers of the log; the files belong to `SegmentedLog`, on
which it is built. One task owns a log and calls everything that changes it; reads that were located (`Slice`) may run
in any thread.

Invariants: offsets only grow and are never given twice; a refused append leaves no trace.

Must not know: the network, replication, who waits for an append. Time arrives as an argument.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, cast

from barnabas.core.errors import FencedLeaderEpoch, InvalidRecord, OffsetOutOfRange, StorageError, StorageExhausted
from barnabas.core.model import NO_PRODUCER_ID, NO_TIMESTAMP
from barnabas.core.records.batch import (
    HIGHEST_PLAIN_ATTRIBUTES,
    MIN_RECORD_SIZE,
    BatchHeader,
    PlainBatch,
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
from barnabas.storage.new_batches import check_followed, check_new, stamp
from barnabas.storage.offset_index import MAX_RELATIVE_OFFSET
from barnabas.storage.producer_files import aborted_entry
from barnabas.storage.reading import ReadPlan, Slice
from barnabas.storage.segment import Segment
from barnabas.storage.segmented_log import SegmentedLog


class Appended(NamedTuple):
    """Where a batch is in the log. A retry of one already written gets the offsets that one has."""

    first_offset: int
    last_offset: int
    log_append_time: int
    is_duplicate: bool = False


_new_appended: Final = cast("Callable[[type[Appended], tuple[int, int, int, bool]], Appended]", tuple.__new__)


class Log(SegmentedLog):
    """One partition's log, made by `recovery.open_log`."""

    # Appending

    def append(self, data: bytearray | memoryview, *, leader_epoch: int, now_ms: int) -> Appended:
        """Append batches as the leader: check them, assign the next offsets in place, write them at once.

        `data` becomes the log's: its batches carry their offsets afterwards.

        """
        plain = None if self._stamps_time or self._active.held is None else read_plain(data)
        first_offset = None if plain is None else self.append_plain(data, plain, leader_epoch)
        if plain is None or first_offset is None:
            return self._append_any(data, leader_epoch=leader_epoch, now_ms=now_ms)
        return _new_appended(Appended, (first_offset, first_offset + plain[1], NO_TIMESTAMP, False))

    def append_plain(self, data: bytearray | memoryview, plain: PlainBatch, leader_epoch: int) -> int | None:
        """As `append`, for a batch that was found to be plain; returns its first offset.

        This is the fast path of most appends. None, with nothing done, means that something is not as it mostly is.
        """
        active = self._active
        length, last_offset_delta, max_timestamp = plain
        if (
            leader_epoch != self.epochs.latest
            or self._stamps_time
            or active.held is None
            or self._health.offline_reason is not None
            or length > self._max_batch_length
        ):
            return None
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
        return first_offset

    def _append_any(self, data: bytearray | memoryview, *, leader_epoch: int, now_ms: int) -> Appended:
        self._health.check()
        latest_epoch = self.epochs.latest
        if leader_epoch < latest_epoch:
            raise FencedLeaderEpoch(
                f"{self.partition} was written by leader epoch {latest_epoch}; epoch {leader_epoch} is stale"
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
            self._epoch_file.note_if(self.epochs.assign(leader_epoch, first_offset))
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
            self._epoch_file.note_if(self.epochs.assign(leader_epoch, first_offset))
        self._hold_active()
        return Appended(first_offset, offset - 1, stamped)

    def append_as_follower(self, data: bytearray | memoryview) -> Appended:
        """Append batches unchanged, with the offsets assigned by the leader."""
        self._health.check()
        batches = list(iter_batches(data))
        placed = check_followed(
            data, batches, self.partition, end_offset=self.end_offset, latest_epoch=self.epochs.latest
        )
        last_offset = placed[-1][1]
        if last_offset - self.end_offset > MAX_RELATIVE_OFFSET:
            return self._append_with_gap(data, batches)
        self._write_several(data, placed)
        for position, header in batches:
            self._epoch_file.note_if(self.epochs.assign(header.leader_epoch, header.base_offset))
            if header.has_producer:
                self._apply_producer(memoryview(data)[position : position + header.size], header)
        self._hold_active()
        return Appended(batches[0][1].base_offset, last_offset, NO_TIMESTAMP)

    def _append_with_gap(self, data: bytearray | memoryview, batches: Sequence[tuple[int, BatchHeader]]) -> Appended:
        """Append batches whose offsets span more than a segment can: compaction left a gap of 2**31 offsets."""
        if len(batches) == 1:
            self._leap_to(batches[0][1].base_offset)
        view = memoryview(data)
        appended = [self.append_as_follower(view[at : at + header.size]) for at, header in batches]
        return Appended(appended[0].first_offset, appended[-1].last_offset, NO_TIMESTAMP)

    def note_leader_epoch(self, epoch: int) -> None:
        """A leader begins `epoch` here, with nothing written in it yet."""
        self._epoch_file.note_if(self.epochs.assign(epoch, self.end_offset))

    def _check_producer(self, data: bytearray | memoryview, header: BatchHeader) -> WrittenBatch | None:
        """The batch that this one repeats, if it does; refused when it does not follow."""
        if header.is_control:
            self.producers.check_marker(header, read_marker(data, 0, header))
            return None
        return self.producers.admit(header, self._context.max_producers)

    def _apply_producer(self, data: bytearray | memoryview, header: BatchHeader) -> None:
        marker = read_marker(data, 0, header) if header.is_control else None
        completed = self.producers.apply(
            header, marker if marker is not None and marker.type.ends_transaction else None
        )
        if completed is not None and completed.is_aborted:
            self._active.txn_index.note(aborted_entry(self.producers, completed))
            self._unsynced.note_names()
            # The marker is in the log by now. Where there is no room for this a flush sees to it, or does not succeed.
            with suppress(StorageExhausted):
                self._write_aborted()

    def _fail_append(self, error: OSError) -> StorageError:
        """A write failed: remove every trace of it. Returns the refusal to raise."""
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
            # As many files wait for their sync as may be open: this one waits for its own. Where that has to wait, too,
            # the file stays open until its flush. The records are in the log either way, and are not refused.
            with suppress(StorageExhausted):
                self.flush()
        else:
            self._active.let_go()

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
