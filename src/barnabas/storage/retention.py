"""Retention: whole segments go from the front of a log when they are too old or the log is too large.

Deciding is separate from doing: `first_retained` decides how many segments are deleted. What follows is in
steps, so that the log's owner need not wait for a disk, and a crash between any two leaves nothing half deleted:

    removal = begin_retention(log, ...)   # the owner; None when nothing is due
    removal.note_start()                  # any thread: makes the new start durable
    removal.cut()                         # the owner: from now on readers see the new start
    removal.remove_files()                # any thread

`apply_retention` does all of it, here and now.

A segment is as old as its newest record. Records without a timestamp have no age: their segment goes by size alone.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.storage.config import LogConfig
from barnabas.storage.log import Log
from barnabas.storage.segment import Segment
from barnabas.storage.truncate import keep_producers


class SegmentAge(NamedTuple):
    """What retention asks of a segment."""

    size: int
    end_offset: int
    newest_timestamp: int


class Retained(NamedTuple):
    """What a round of retention removed."""

    segments: int
    bytes: int
    log_start_offset: int


def first_retained(
    segments: Iterable[SegmentAge], config: LogConfig, *, log_size: int, end_offset: int, now_ms: int
) -> int:
    """How many of the oldest segments go. Nothing at or beyond `end_offset` does."""
    excess = log_size - config.retention_bytes if config.retention_bytes >= 0 else -1
    oldest_kept_ms = now_ms - config.retention_ms if config.retention_ms >= 0 else 0
    count = 0
    for segment in segments:
        is_old = 0 <= segment.newest_timestamp < oldest_kept_ms
        is_over = 0 < segment.size <= excess
        if segment.end_offset > end_offset or not (is_old or is_over):
            break
        excess -= segment.size
        count += 1
    return count


class Removal:
    """The segments that retention is about to remove."""

    def __init__(self, log: Log, first_kept: int, new_start: int) -> None:
        self._log = log
        self._first_kept = first_kept
        self._new_start = new_start
        self._write_epochs = log.begin_write_epochs()
        self._write_start = self._begin_start()
        self._dropped: list[Segment] = []

    def _begin_start(self) -> Callable[[], None]:
        self._log.context.checkpoints.set_log_start(self._log.partition, self._new_start)
        return self._log.context.checkpoints.begin_write_log_starts()

    def note_start(self) -> None:
        """Make the new start durable; an OSError means that the data directory must go offline."""
        # Once the start is noted a crash removes the segments, too: what only they could tell is kept before.
        self._log.producer_files.sync(self._first_kept)
        self._log.context.files.disk.sync_dir(self._log.directory)
        if self._write_epochs is not None:
            self._write_epochs()
        self._write_start()

    def cut(self) -> Retained:
        """Start the log there, and drop the segments before it."""
        log = self._log
        self._new_start = max(self._new_start, log.log_start_offset)
        segments = log.segments
        keep = 0
        while keep + 1 < len(segments) and segments[keep + 1].base_offset <= self._new_start:
            keep += 1
        self._dropped = list(segments[:keep])
        self._first_kept = segments[keep].base_offset
        log.cut_start(list(segments[keep:]), log_start_offset=self._new_start)
        self._write_start = self._begin_start()  # a checkpoint that came in between knew the old one
        return Retained(keep, sum(segment.size for segment in self._dropped), self._new_start)

    def remove_files(self) -> None:
        """Remove the files of the dropped segments; an OSError means that the data directory must go offline."""
        self._write_start()
        for segment in self._dropped:
            segment.remove()
        self._log.producer_files.remove_below(self._first_kept)


def apply_retention(log: Log, *, now_ms: int, end_offset: int | None = None) -> Retained:
    """Delete what the log's configuration says is due, up to `end_offset` (the high watermark) at most."""
    removal = begin_retention(log, now_ms=now_ms, end_offset=end_offset)
    if removal is None:
        return Retained(0, 0, log.log_start_offset)
    with log.context.health.guarded():
        removal.note_start()
        retained = removal.cut()
        removal.remove_files()
    return retained


def is_all_due(log: Log, *, now_ms: int, end_offset: int | None = None) -> bool:
    """Whether `close_expired` closes the active segment: that waits for the disk, unless the log was flushed before."""
    with log.context.health.guarded():
        return bool(log.active.size) and _count_due(log, now_ms, end_offset) == len(log.segments)


def close_expired(log: Log, *, now_ms: int, end_offset: int | None = None) -> bool:
    """Whether anything of the log is due. When all of it is, the active segment is closed, so that it can go, too."""
    with log.context.health.guarded():
        count = _count_due(log, now_ms, end_offset)
        if count == len(log.segments):
            if log.active.size == 0:
                count -= 1
            else:
                log.roll()
    return count > 0


def _count_due(log: Log, now_ms: int, end_offset: int | None) -> int:
    if not log.config.is_deleted:
        return 0
    bound = log.end_offset if end_offset is None else end_offset
    ages = _ages(log.segments, log.end_offset)
    return first_retained(ages, log.config, log_size=log.size, end_offset=bound, now_ms=now_ms)


def begin_retention(log: Log, *, now_ms: int, end_offset: int | None = None) -> Removal | None:
    """What is due of the log, up to `end_offset` (the high watermark) at most; None when nothing is.

    The returned object is void once the log is deleted. Does not wait for the disk if the log was flushed
    since its newest segment began.
    """
    bound = log.end_offset if end_offset is None else end_offset
    if not close_expired(log, now_ms=now_ms, end_offset=bound):
        return None
    segments = log.segments
    with log.context.health.guarded():
        # Not the active one: after `close_expired` that is never due, unless it is empty.
        count = first_retained(
            _ages(segments[:-1], log.active.base_offset), log.config, log_size=log.size, end_offset=bound, now_ms=now_ms
        )
        first_kept = segments[count].base_offset
        new_start = max(first_kept, log.log_start_offset)
        _flush_to(log, new_start)
        keep_producers(log, first_kept)
        return Removal(log, first_kept, new_start)


def _flush_to(log: Log, new_start: int) -> None:
    """Or a crash would leave a log that ends before its start, or no segment at all."""
    plan = log.begin_flush()
    if plan is not None and (plan.directories or len(plan.files) > 1 or log.flushed_offset < new_start):
        log.flush()


def _ages(segments: tuple[Segment, ...], log_end_offset: int) -> Iterable[SegmentAge]:
    """Computed lazily, since the newest timestamp of a segment is in its index, which must be loaded."""
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    for segment, end in zip(segments, ends, strict=True):
        yield SegmentAge(segment.size, end, segment.newest_timestamp())
