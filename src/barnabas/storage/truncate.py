"""Truncating a log: a follower's end (`truncate_to`), deleted records at the front (`delete_before`), or all of it.

The order is what makes a crash harmless. Before the end is cut, the recovery point is durably below the cut: what is
appended afterwards must not pass for known-good data. Before the front is cut, the new start is durable: files
that a crash brings back are then known to be deleted.

Once the first file is truncated or removed there is no way back. Everything that has to be opened or read comes before,
where it can be refused without a trace.
"""

from barnabas.core.errors import OffsetOutOfRange
from barnabas.core.replica.producers import ProducerStates
from barnabas.storage.log import Log
from barnabas.storage.lookup import aborted_in
from barnabas.storage.producer_files import replay_batch
from barnabas.storage.segment import Segment


def truncate_to(log: Log, offset: int) -> int:
    """Remove every batch that ends at or after `offset`; returns the new end offset.

    The batch that holds `offset` goes as a whole, and a gap that compaction left ends where the batch before it
    does, so the log may end below `offset`. Epochs that begin there go, too, though no record of them may be here.
    """
    if offset >= log.end_offset:
        log.cut_epochs(offset)
        return log.end_offset
    if offset <= log.segments[0].base_offset:
        reset_to(log, offset)
        return offset
    segments = list(log.segments)
    last = max(index for index, segment in enumerate(segments) if segment.base_offset <= offset)
    kept, cut = segments[last], segments[last + 1 :]
    health = log.context.health
    with health.guarded():
        found = kept.find(offset)
        position = kept.size if found is None else found[0]
        end_offset = kept.end_offset_before(offset)
        if end_offset < log.log_start_offset:
            reset_to(log, end_offset)
            return end_offset
        log.flush()  # what stays counts as durable from now on
        aborted_in(log, kept)  # whole, before it is cut
        producers = producers_at(log, end_offset)
        snapshots = log.producer_files.beyond(end_offset)
        opened = log.context.files.disk.open_dir(log.directory)
        _prepare_cut(log, kept, end_offset)
    with health.guarded(is_final=True):
        for segment in reversed(cut):
            segment.remove()
        kept.truncate(position, end_offset=end_offset)
        log.producer_files.remove(snapshots)
        opened.sync()
        log.cut_end(segments[: last + 1], end_offset=end_offset)
        log.producers = producers
    with health.sparing():
        log.write_epochs()  # or with the next checkpoint: recovery drops epochs behind the recovery point by itself
    return end_offset


def _prepare_cut(log: Log, kept: Segment, end_offset: int) -> None:
    """Make a segment active, its file open, and the transactions that are about to go gone from their index."""
    checkpoints, name = log.context.checkpoints, log.partition
    recovery_point, cleaned_to = checkpoints.recovery_point(name), checkpoints.cleaned_to(name)
    was_active = kept.is_active
    if not was_active:
        kept.activate()
    try:
        kept.open_to_write()
        checkpoints.lower_recovery_point(name, end_offset)
        kept.txn_index.cut(end_offset)
    except OSError:
        checkpoints.set_recovery_point(name, recovery_point)
        checkpoints.set_cleaned_to(name, cleaned_to)
        if not was_active:
            kept.release()
            kept.end_close()
        raise


def reset_to(log: Log, offset: int, *, is_repeated: bool = False) -> None:
    """Remove everything and continue at `offset`: for a follower whose leader no longer has its records.

    Every step can be taken again. `is_repeated`: where there is no room half way, the caller does so until there is,
    and does nothing else to the log meanwhile.
    """
    with log.context.health.guarded():
        log.flush()  # the names of a new log; the rest is about to go
        log.context.checkpoints.lower_recovery_point(log.partition, 0)
        # Of a start that only the name of the first segment tells, nothing would be left.
        log.context.checkpoints.set_log_start(log.partition, log.log_start_offset)
        log.context.checkpoints.write_log_starts()
    with log.context.health.guarded(is_final=not is_repeated):
        for segment in reversed(log.segments):
            segment.remove()
        log.producer_files.remove_beyond(-1)
        log.context.files.disk.sync_dir(log.directory)
        # In between: with the old files it might lie beyond their end, without it the new one below the old start.
        log.context.checkpoints.set_log_start(log.partition, offset)
        log.context.checkpoints.write_log_starts()
        log.forget_epochs()
        segment = Segment.create(
            log.context.files, log.directory, offset, index_interval_bytes=log.config.index_interval_bytes
        )
        segment.file().sync()
        log.context.files.disk.sync_dir(log.directory)
        log.producers = ProducerStates()
        log.cut_end([segment], end_offset=offset)
        log.log_start_offset = offset


def delete_before(log: Log, offset: int) -> int:
    """Make `offset` the first readable one and remove the segments wholly below it; returns the new start."""
    if offset > log.end_offset:
        raise OffsetOutOfRange(f"{log.partition} ends at {log.end_offset}, before {offset}")
    if offset <= log.log_start_offset:
        return log.log_start_offset
    log.context.health.check()
    with log.context.health.guarded():
        if offset == log.end_offset:
            log.roll()  # so that the active segment can go, too
        drop_segments_below(log, offset)
    return offset


def drop_segments_below(log: Log, log_start_offset: int) -> list[Segment]:
    """Start the log at `log_start_offset`, note that durably, and then remove the segments before it."""
    segments = list(log.segments)
    keep = 0
    while keep + 1 < len(segments) and segments[keep + 1].base_offset <= log_start_offset:
        keep += 1
    dropped = segments[:keep]
    if dropped or log_start_offset > log.flushed_offset:
        log.flush()  # or a crash would leave a log that ends before its start, or no segment at all
    if dropped:
        # Once the start is noted a crash removes the segments, too: what only they could tell is kept before.
        keep_producers(log, segments[keep].base_offset)
        log.producer_files.sync(segments[keep].base_offset)
        log.context.files.disk.sync_dir(log.directory)
        log.write_epochs()
    log.context.checkpoints.set_log_start(log.partition, log_start_offset)
    log.context.checkpoints.write_log_starts()
    log.cut_start(segments[keep:], log_start_offset=log_start_offset)
    for segment in dropped:
        segment.remove()
    if dropped:
        log.producer_files.remove_below(segments[keep].base_offset)
    return dropped


def keep_producers(log: Log, offset: int) -> None:
    """Write a snapshot at `offset`, to be synced: it is all that remains of the producers of removed records."""
    if log.producer_files.newest_offset(at_most=offset) != offset:  # a crash took it, or it is damaged
        log.producer_files.write(offset, producers_at(log, offset))


def producers_at(log: Log, end_offset: int) -> ProducerStates:
    """The producers of the log up to `end_offset`: the newest snapshot and the headers after it."""
    producers = ProducerStates()
    snapshot = log.producer_files.newest(at_most=end_offset)
    start_offset = log.segments[0].base_offset
    if snapshot is not None and snapshot[0] >= start_offset:
        start_offset, entries = snapshot
        producers.restore(entries)
    for segment in log.segments_from(start_offset):
        found = segment.find(start_offset) if segment.base_offset < end_offset else None
        if found is None:
            continue
        for position, header in segment.headers(found[0]):
            if start_offset <= header.base_offset < end_offset:
                replay_batch(producers, segment, position, header)
    return producers
