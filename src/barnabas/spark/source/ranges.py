"""Ranges that are wanted, against what the partitions have: what can be read, and what is lost."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.core.model import TopicPartition
from barnabas.spark.source.conditions import Conditions
from barnabas.spark.source.data_loss import Backwards, Beyond, Loss, Uncommitted, report_loss, report_uncommitted
from barnabas.spark.source.lookup import Lookup
from barnabas.spark.source.offsets import EARLIEST, LATEST
from barnabas.spark.source.options import ReadOptions
from barnabas.spark.source.planning import OffsetRange
from barnabas.spark.source.resolving import resolve_end, resolve_start

Problem: TypeAlias = Loss | Backwards | Uncommitted


@dataclass(frozen=True, slots=True)
class Extent:
    """What a partition has: `end_offset` is what may be read now, `high_watermark` with open transactions."""

    earliest: int
    end_offset: int
    high_watermark: int


def batch_ranges(lookup: Lookup, keys: list[TopicPartition], options: ReadOptions) -> list[OffsetRange]:
    """What a batch reads of partitions that exist; what cannot be read is refused, or left out with a warning.

    Partitions that the conditions of the query leave out are not among it.
    """
    keys = [key for key in keys if options.conditions.wants(key.partition)]
    starts = resolve_start(lookup, keys, options)
    ends = resolve_end(lookup, keys, options)
    wanted = [OffsetRange(key, starts[key], ends[key]) for key in keys]
    if options.start.offsets or options.end.offsets:
        ranges, problems = fit(wanted, extents(lookup, keys))
    else:  # earliest, latest and times were just looked up
        ranges = wanted
        problems = [Backwards(each.key, each.start_offset, each.end_offset) for each in wanted if each.count < 0]
    fail = options.fail_on_data_loss
    report_loss([_as_asked(each) for each in problems if not isinstance(each, Uncommitted)], fail=fail)
    waiting = [each for each in problems if isinstance(each, Uncommitted)]
    report_uncommitted(waiting, fail=fail)
    readable = {each.key: each.start_offset for each in waiting}
    committed = [
        OffsetRange(each.key, each.start_offset, min(each.end_offset, readable.get(each.key, each.end_offset)))
        for each in ranges
    ]
    return _under_conditions(lookup, committed, options.conditions)


def _as_asked(problem: Loss | Backwards) -> Loss | Backwards | Beyond:
    """What options name behind the end of a partition need never have been there, as what a stream has planned was."""
    if not isinstance(problem, Loss) or problem.end_offset is None or problem.latest is None:
        return problem
    is_behind = problem.start_offset >= problem.latest
    return Beyond(problem.key, problem.end_offset, problem.latest) if is_behind else problem


def _under_conditions(lookup: Lookup, ranges: Iterable[OffsetRange], conditions: Conditions) -> list[OffsetRange]:
    """What conditions leave of ranges."""
    clipped = [conditions.clip(each) for each in ranges]
    first_ms = conditions.not_before_ms
    if first_ms is None:
        return clipped
    firsts = lookup.offsets({each.key: first_ms for each in clipped if each.count > 0})
    return [_from(each, firsts.get(each.key, -1)) for each in clipped]


def _from(range_: OffsetRange, first: int) -> OffsetRange:
    """A range without what is before an offset; with -1, of which nothing is behind, nothing of it."""
    start = range_.end_offset if first < 0 else min(max(first, range_.start_offset), range_.end_offset)
    return OffsetRange(range_.key, start, range_.end_offset)


def available(lookup: Lookup, wanted: Iterable[OffsetRange]) -> tuple[list[OffsetRange], list[Loss]]:
    """The parts of ranges that exist, and the losses; partitions that do not exist must have been left out.

    Records behind the start of an open transaction exist: their readers wait for its end.
    """
    asked = [each for each in wanted if each.count > 0]
    found, problems = fit(asked, extents(lookup, [each.key for each in asked]))
    return found, [each for each in problems if isinstance(each, Loss)]


def extents(lookup: Lookup, keys: Iterable[TopicPartition]) -> dict[TopicPartition, Extent]:
    wanted = list(keys)
    earliest = lookup.offsets(dict.fromkeys(wanted, EARLIEST))
    ends = lookup.offsets(dict.fromkeys(wanted, LATEST))
    watermarks = lookup.high_watermarks(wanted)
    return {key: Extent(earliest[key], ends[key], watermarks[key]) for key in wanted}


def fit(wanted: Iterable[OffsetRange], there: dict[TopicPartition, Extent]) -> tuple[list[OffsetRange], list[Problem]]:
    """The parts of ranges that exist, in the order of the ranges, and the problems of the others."""
    found: list[OffsetRange] = []
    problems: list[Problem] = []
    for each in wanted:
        extent = there[each.key]
        problems += _problems(each, extent)
        first = min(max(each.start_offset, extent.earliest), max(each.start_offset, each.end_offset))
        found.append(OffsetRange(each.key, first, max(min(each.end_offset, extent.high_watermark), first)))
    return found, problems


def _problems(wanted: OffsetRange, extent: Extent) -> list[Problem]:
    key, start, end = wanted.key, wanted.start_offset, wanted.end_offset
    if end < start:
        # Behind the start of an open transaction, up to which "latest" reads, is no mistake: nothing is there yet.
        is_waiting = end == extent.end_offset and start <= extent.high_watermark
        return [] if is_waiting else [Backwards(key, start, end)]
    bounds = extent.earliest, extent.high_watermark
    problems: list[Problem] = []
    if start < min(extent.earliest, end):
        problems.append(Loss(key, start, min(extent.earliest, end), *bounds))
    if max(start, extent.high_watermark) < end:
        problems.append(Loss(key, max(start, extent.high_watermark), end, *bounds))
    elif max(start, extent.end_offset) < end:
        problems.append(Uncommitted(key, max(start, extent.end_offset), end))
    return problems
