"""Planning a round of compaction: what the log's owner looks up before the work goes to a thread.

Everything here is called by the owner of the log. It reads no batch but the first header of a segment, and that only
when a setting asks for ages.
"""

import itertools

from barnabas.core.model import NO_TIMESTAMP
from barnabas.storage.compaction.cleaner import CompactionPlan, Source
from barnabas.storage.compaction.due import (
    Cleanable,
    LogFacts,
    SegmentFacts,
    find_cleanable,
    first_dirty_offset,
    must_roll,
)
from barnabas.storage.compaction.key_map import DEFAULT_MAP_BYTES, Engine, choose_engine, is_numba_installed
from barnabas.storage.config import FOREVER
from barnabas.storage.log import Log
from barnabas.storage.lookup import aborted_transactions
from barnabas.storage.segment import Segment


def cleanable(log: Log, *, now_ms: int, high_watermark: int | None = None) -> Cleanable:
    """What of a log may be compacted. Of several logs that are due, the one with the largest ratio comes first.

    Without a `high_watermark` all of the log counts as replicated.
    """
    cleaned_to = log.context.checkpoints.cleaned_to(log.partition)
    with log.context.health.guarded():
        facts = LogFacts(
            segments=_segment_facts(log, cleaned_to),
            log_start_offset=log.log_start_offset,
            end_offset=log.end_offset,
            flushed_offset=log.flushed_offset,
            stable_offset=_stable_offset(log, high_watermark),
            cleaned_to=cleaned_to,
        )
    return find_cleanable(facts, log.config, now_ms=now_ms)


def plan_compaction(
    log: Log,
    *,
    now_ms: int,
    hash_key: bytes,
    high_watermark: int | None = None,
    max_map_bytes: int = DEFAULT_MAP_BYTES,
    engine: Engine | None = None,
    is_forced: bool = False,
) -> CompactionPlan | None:
    """A round of compaction of `log`; None when it is not due, nor forced.

    `hash_key` is 16 random bytes, so that nobody can choose keys that collide. A plan holds for one run, and no two
    plans for one log may run at a time. Closes the active segment when `max.compaction.lag.ms` asks for it.
    """
    with log.context.health.guarded():
        if must_roll(_facts(log, log.active), log.config, now_ms=now_ms):
            log.roll()
    found = cleanable(log, now_ms=now_ms, high_watermark=high_watermark)
    if not is_forced and not found.is_due(log.config):
        return None
    sources = _sources(log, found.end_offset)
    if not sources:
        return None
    first, end = sources[0].base_offset, sources[-1].end_base_offset
    return CompactionPlan(
        disk=log.context.files.disk,
        directory=log.directory,
        sources=sources,
        cuts=log.cuts,
        dirty_start=found.dirty_start,
        dirty_end=found.end_offset,
        segment_bytes=log.config.segment_bytes,
        index_interval_bytes=log.config.index_interval_bytes,
        delete_retention_ms=log.config.delete_retention_ms,
        aborted=tuple(aborted_transactions(log, first, end)),
        producer_ids=frozenset(producer.producer_id for producer in log.producers),
        remembered=frozenset(batch.first_offset for producer in log.producers for batch in producer.batches),
        last_ends=frozenset((log.end_offset, log.end_offset if high_watermark is None else high_watermark)),
        now_ms=now_ms,
        engine=engine or choose_engine(found.clean_bytes + found.dirty_bytes, has_numba=is_numba_installed()),
        max_map_bytes=max_map_bytes,
        hash_key=hash_key,
    )


def _stable_offset(log: Log, high_watermark: int | None) -> int:
    """The offset below which the end of every transaction is known."""
    if high_watermark is not None:
        return log.last_stable_offset(high_watermark)
    # Not `last_stable_offset(log.end_offset)`, which would take that for the high watermark from then on.
    return min(log.producers.open_transactions, default=log.end_offset)


def _sources(log: Log, end_offset: int) -> tuple[Source, ...]:
    segments = log.segments
    return tuple(
        Source(segment, segment.size, following.base_offset)
        for segment, following in itertools.pairwise(segments)
        if segment.base_offset < end_offset
    )


def _segment_facts(log: Log, cleaned_to: int) -> list[SegmentFacts]:
    """Timestamps of the dirty segments only: each costs a read the first time."""
    segments = log.segments
    dirty_start = first_dirty_offset(cleaned_to, log_start_offset=log.log_start_offset, end_offset=log.end_offset)
    ends = [*(segment.base_offset for segment in segments[1:]), log.end_offset]
    return [
        _facts(log, segment) if end > dirty_start else SegmentFacts(segment.base_offset, segment.size)
        for segment, end in zip(segments, ends, strict=True)
    ]


def _facts(log: Log, segment: Segment) -> SegmentFacts:
    config = log.config
    return SegmentFacts(
        segment.base_offset,
        segment.size,
        segment.first_timestamp() if config.max_compaction_lag_ms != FOREVER else NO_TIMESTAMP,
        segment.newest_timestamp() if config.min_compaction_lag_ms > 0 else NO_TIMESTAMP,
    )
