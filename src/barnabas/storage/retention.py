"""Retention: whole segments go from the front of a log when they are too old or the log is too large.

Deciding is apart from doing: `first_retained` looks at what the segments hold and says how many go; `apply_retention`
notes the new start durably and then removes files, so that a crash in between leaves nothing half deleted.

A segment is as old as its newest record. Records without a timestamp have no age: their segment goes by size alone.
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.storage.config import LogConfig
from barnabas.storage.log import Log
from barnabas.storage.segment import Segment
from barnabas.storage.truncate import drop_segments_below


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


def apply_retention(log: Log, *, now_ms: int, end_offset: int | None = None) -> Retained:
    """Delete what the log's configuration says is due, up to `end_offset` (the high watermark) at most.

    When every segment is due the active one is closed first, so that a quiet log empties, too.
    """
    bound = log.end_offset if end_offset is None else end_offset
    count = 0
    segments = log.segments
    with log.context.health.guarded():
        if log.config.is_deleted:
            count = first_retained(
                _ages(segments, log.end_offset), log.config, log_size=log.size, end_offset=bound, now_ms=now_ms
            )
        if count == len(segments):
            if log.active.size == 0:
                count -= 1
            else:
                log.roll()
        new_start = log.segments[count].base_offset if count else log.log_start_offset
        if new_start <= log.log_start_offset and count == 0:
            return Retained(0, 0, log.log_start_offset)
        new_start = max(new_start, log.log_start_offset)
        sizes = sum(segment.size for segment in segments[:count])
        dropped = drop_segments_below(log, new_start)
    return Retained(len(dropped), sizes, new_start)


def _ages(segments: tuple[Segment, ...], log_end_offset: int) -> Iterable[SegmentAge]:
    """Lazily, for finding the newest timestamp of a segment loads its index."""
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    for segment, end in zip(segments, ends, strict=True):
        yield SegmentAge(segment.size, end, segment.newest_timestamp())
