"""Which part of a log may be compacted, and whether it is due now. Values in, values out.

A log has three parts. Below `dirty_start` it is *clean*: every key has one record there. From there to `end_offset`
it is *dirty*: that is what a round of compaction reads into its key map. What follows cannot be touched yet: the
active segment, transactions whose end is not known, what is not durable or not replicated, and what is too young.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from barnabas.core.model import NO_TIMESTAMP
from barnabas.storage.config import LogConfig


class SegmentFacts(NamedTuple):
    """What the decision needs of a segment. Timestamps that are not needed may stay unknown."""

    base_offset: int
    size: int
    first_timestamp: int = NO_TIMESTAMP
    newest_timestamp: int = NO_TIMESTAMP


class LogFacts(NamedTuple):
    """Where a log stands. `segments` has all of them, the active one last."""

    segments: Sequence[SegmentFacts]
    log_start_offset: int
    end_offset: int
    flushed_offset: int
    stable_offset: int
    cleaned_to: int


class Cleanable(NamedTuple):
    """The dirty part of a log, and how much of the log it is."""

    dirty_start: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The dirty part's share of all bytes that may be compacted: the dirtiest log is the one to take next."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Whether the log is dirty enough, or has waited long enough."""
        is_dirty = self.dirty_ratio >= config.min_cleanable_dirty_ratio
        return self.dirty_bytes > 0 and (is_dirty or self.is_overdue)


def find_cleanable(log: LogFacts, config: LogConfig, *, now_ms: int) -> Cleanable:
    """The dirty part of a log, which may be empty."""
    dirty_start = first_dirty_offset(log.cleaned_to, log_start_offset=log.log_start_offset, end_offset=log.end_offset)
    end_offset = max(dirty_start, _end_offset(log, config, dirty_start, now_ms))
    clean_bytes = dirty_bytes = 0
    is_overdue = False
    for segment, following in itertools.pairwise(log.segments):
        if following.base_offset <= dirty_start:
            clean_bytes += segment.size
        elif segment.base_offset < end_offset:
            # One that an earlier round cleaned in part counts as dirty, or its rest might wait forever.
            dirty_bytes += segment.size
            is_overdue |= _is_older(segment.first_timestamp, config.max_compaction_lag_ms, now_ms)
    return Cleanable(dirty_start, end_offset, clean_bytes, dirty_bytes, is_overdue)


def first_dirty_offset(cleaned_to: int, *, log_start_offset: int, end_offset: int) -> int:
    """Where the dirty part begins, given the offset that an earlier round got to."""
    # Beyond the end it speaks of records that are gone: nothing is known to be clean then.
    return max(cleaned_to if cleaned_to <= end_offset else 0, log_start_offset)


def must_roll(active: SegmentFacts, config: LogConfig, *, now_ms: int) -> bool:
    """Whether the active segment must be closed for its records to be compacted within `max.compaction.lag.ms`.

    Kafka closes it at the first append after that time; here it also happens to a log without appends.
    """
    return active.size > 0 and _is_older(active.first_timestamp, config.max_compaction_lag_ms, now_ms)


def _end_offset(log: LogFacts, config: LogConfig, dirty_start: int, now_ms: int) -> int:
    bound = min(log.segments[-1].base_offset, log.flushed_offset, log.stable_offset)
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        for segment, following in itertools.pairwise(log.segments):
            # Records without a timestamp have no age, so they hold nothing back.
            if following.base_offset > dirty_start and segment.newest_timestamp > youngest_ms:
                return min(bound, segment.base_offset)
    return bound


def _is_older(timestamp: int, age_ms: int, now_ms: int) -> bool:
    return 0 <= timestamp < now_ms - age_ms
