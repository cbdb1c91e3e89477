"""Finding single things in a log: a record by its offset, an offset by its time, the aborted transactions of a range.

These read and decode batches, so they belong in a thread when the data may be cold; the owner of the log may go on
meanwhile, removing and replacing segments.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from barnabas.core.errors import CorruptLog, UnknownTopicOrPartition
from barnabas.core.records.record import Record, decode_batch, decode_record
from barnabas.storage.log import Log
from barnabas.storage.offset_index import DamagedIndex
from barnabas.storage.producer_files import find_aborted
from barnabas.storage.readable_segment import SegmentGone
from barnabas.storage.segment import Segment
from barnabas.storage.txn_index import AbortedTransaction

T = TypeVar("T")


class TimedOffset(NamedTuple):
    """A record's place in time and in the log."""

    timestamp: int
    offset: int
    leader_epoch: int


def get_record(log: Log, offset: int) -> Record | None:
    """The record at `offset`; None when compaction removed it or it is a transaction marker."""
    return _look(log, lambda: _get_record(log, offset))


def _get_record(log: Log, offset: int) -> Record | None:
    log.check_readable(offset)
    for segment in log.segments_from(offset):
        found = segment.find(offset)
        if found is None or found[1].base_offset > offset:
            # A gap of compaction, or a flipped bit in the header of the batch that should be here.
            segment.check_before(offset)
        if found is None:
            continue
        position, header = found
        if header.base_offset > offset:
            return None
        batch = segment.read_batch(position, header)
        return None if batch.header.is_control else decode_record(batch.data, 0, batch.header, offset)
    return None


def offset_for_timestamp(log: Log, timestamp: int) -> TimedOffset | None:
    """The first record, in order of offset, that is not older than `timestamp`."""
    return _look(log, lambda: _offset_for_timestamp(log, timestamp))


def _offset_for_timestamp(log: Log, timestamp: int) -> TimedOffset | None:
    for segment in log.segments_from(log.log_start_offset):
        if segment.newest_timestamp() < timestamp:
            continue
        for batch in segment.find_time(timestamp):
            if batch.header.is_control:
                continue
            for record in decode_batch(batch.data):
                if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
                    return TimedOffset(record.timestamp, record.offset, batch.header.leader_epoch)
    return None


def offset_of_newest_timestamp(log: Log) -> TimedOffset | None:
    """The first record that has the largest timestamp of the log."""
    return _look(log, lambda: _offset_of_newest_timestamp(log))


def _offset_of_newest_timestamp(log: Log) -> TimedOffset | None:
    newest = max(segment.newest_timestamp() for segment in log.segments)
    if newest < 0:
        return None
    found = _offset_for_timestamp(log, newest)
    # Or that time is of a marker, or of a record deleted from the front.
    return found if found is not None else _newest_of_records(log)


def _newest_of_records(log: Log) -> TimedOffset | None:
    newest: TimedOffset | None = None
    for segment in log.segments_from(log.log_start_offset):
        for position, header in segment.headers():
            is_behind = newest is not None and header.max_timestamp <= newest.timestamp
            if is_behind or header.is_control or header.last_offset < log.log_start_offset:
                continue
            for record in decode_batch(segment.read_batch(position, header).data):
                is_newer = record.timestamp >= 0 and (newest is None or record.timestamp > newest.timestamp)
                if is_newer and record.offset >= log.log_start_offset:
                    newest = TimedOffset(record.timestamp, record.offset, header.leader_epoch)
    return newest


def aborted_transactions(log: Log, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in [start, end): what a `read_committed` consumer must skip."""
    return _look(log, lambda: _aborted_transactions(log, start_offset, end_offset))


def _aborted_transactions(log: Log, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    found = []
    for segment in log.segments_from(start_offset):
        for transaction in aborted_in(log, segment):
            if transaction.last_offset >= start_offset and transaction.first_offset < end_offset:
                found.append(transaction)
            if transaction.last_stable_offset >= end_offset:
                return found  # every later abort began at or after this one's last stable offset
    return found


def aborted_in(log: Log, segment: Segment) -> list[AbortedTransaction]:
    """The transactions aborted in a segment; a damaged index is rebuilt from the log."""
    try:
        return segment.txn_index.aborted()
    except DamagedIndex:
        rebuild_aborted(log, segment)
        return segment.txn_index.aborted()


def rebuild_aborted(log: Log, segment: Segment) -> None:
    """Make a segment's transaction index from the producers before it and the markers in it."""
    segments = [each for each in log.segments if each.base_offset <= segment.base_offset]
    segment.txn_index.replace(find_aborted(log.producer_files, segments, end_position=segment.size))


def _look(log: Log, lookup: Callable[[], T]) -> T:
    """Search, and repeat if the segments were removed, replaced or truncated meanwhile by the owner of the log."""
    while True:
        cuts = log.cuts
        try:
            return lookup()
        except (SegmentGone, CorruptLog, OSError) as error:
            if log.is_deleted:
                raise UnknownTopicOrPartition(f"{log.partition} was deleted") from error
            if isinstance(error, OSError):
                raise log.context.health.fail(error) from error
            if isinstance(error, CorruptLog) and log.cuts == cuts:
                raise
