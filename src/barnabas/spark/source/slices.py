"""What a task of a batch reads: slices of partitions, laid over the offsets that there are when the task runs.

Spark asks for the tasks of a frame once and keeps them with it: every later job of that frame, of a view or of the
static side of a stream, runs the same ones. So a task has no offsets that were found earlier. The tasks of a partition
cut all offsets there can be between them; the first has no start and the last no end, and "earliest" and "latest" are
looked up when a task begins, as the tasks of Spark's own Kafka source do. One task also looks for partitions that were
not there when the tasks were made.

A task that is run again finds its bounds again, and may then read what was appended in between.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql.datasource import InputPartition

from barnabas.core.model import TopicPartition
from barnabas.spark.source.data_loss import Loss, MadeAnew, report_loss
from barnabas.spark.source.options import ReadOptions
from barnabas.spark.source.planning import OffsetRange

if TYPE_CHECKING:
    from barnabas.spark.source.lookup import Lookup

# Among so many tasks partitions are dealt out that are empty when the tasks are made.
_TASKS_OF_EMPTY: Final = 8
_MOST_IDLE: Final = 8
_LOOKS: Final = 3
_LOOK_AGAIN_S: Final = 0.25

_Identity: TypeAlias = tuple[str, str, bool, tuple[tuple[str, str], ...]]

# This process's lookups that wait for another task; those used last are last.
_idle: "OrderedDict[_Identity, Lookup]" = OrderedDict()


@dataclass(frozen=True, slots=True)
class Slice:
    """The offsets of a partition from `start_offset` on and before `end_offset`; None is no bound."""

    key: TopicPartition
    start_offset: int | None = None
    end_offset: int | None = None

    def cut(self, range_: OffsetRange) -> OffsetRange:
        """What lies in the slice of a range of its partition."""
        start, end = range_.start_offset, range_.end_offset
        first = start if self.start_offset is None else max(start, self.start_offset)
        last = end if self.end_offset is None else min(end, self.end_offset)
        return OffsetRange(self.key, first, max(first, last))


@dataclass(frozen=True, slots=True)
class Task:
    """Slices that are read one after another; with `known`, also all partitions that are not among those."""

    slices: tuple[Slice, ...]
    topic_ids: Mapping[str, str]
    known: tuple[TopicPartition, ...] | None = None


class TaskPartition(InputPartition):
    """A task on its way through Spark."""

    def __init__(self, task: Task) -> None:
        super().__init__(
            (
                tuple((*each.key, each.start_offset, each.end_offset) for each in task.slices),
                dict(task.topic_ids),
                None if task.known is None else tuple(tuple(key) for key in task.known),
            )
        )

    @property
    def task(self) -> Task:
        slices, topic_ids, known = self.value
        return Task(
            tuple(Slice(TopicPartition(topic, id_), start, end) for topic, id_, start, end in slices),
            topic_ids,
            None if known is None else tuple(TopicPartition(*key) for key in known),
        )


def slice_up(
    planned: Sequence[OffsetRange], keys: Iterable[TopicPartition], topic_ids: Mapping[str, str], options: ReadOptions
) -> list[Task]:
    """Tasks for the ranges that were found, in order, and for partitions that appear later."""
    tasks = [[each] for _, ranges in groupby(planned, lambda range_: range_.key) for each in _cut(list(ranges))]
    if not _is_fixed(options):
        covered = {each.key for each in planned}
        empty = [Slice(key) for key in keys if key not in covered]
        tasks = tasks or [[] for _ in empty[:_TASKS_OF_EMPTY]] or [[]]
        for at, each in enumerate(empty):
            tasks[at % len(tasks)].append(each)
    made = [Task(tuple(each), _ids_of(each, topic_ids)) for each in tasks]
    if made and not _is_fixed(options) and not options.selection.partitions:
        made[0] = Task(made[0].slices, made[0].topic_ids, tuple(keys))
    return made


def bind(options: ReadOptions, task: Task) -> list[OffsetRange]:
    """The offsets that a task reads, as the partitions are now."""
    from barnabas.spark.source.ranges import batch_ranges
    from barnabas.spark.source.resolving import check_named, select

    with _lookup(options) as lookup:
        slices = _existing(lookup, options, task)
        if task.known is not None:
            new = sorted(set(select(lookup, options.selection)) - set(task.known))
            for bound in (options.start, options.end) if new else ():
                check_named([*task.known, *new], bound)
            slices += [Slice(key) for key in new]
        ranges = {each.key: each for each in batch_ranges(lookup, [each.key for each in slices], options)}
    return [each.cut(ranges[each.key]) for each in slices if each.key in ranges]


def _cut(ranges: list[OffsetRange]) -> list[Slice]:
    """Slices between the starts of a partition's ranges, open at both ends."""
    starts = [None, *(each.start_offset for each in ranges[1:])]
    ends = [*starts[1:], None]
    return [Slice(ranges[0].key, start, end) for start, end in zip(starts, ends, strict=True)]


def _ids_of(slices: Iterable[Slice], topic_ids: Mapping[str, str]) -> dict[str, str]:
    return {each.key.topic: topic_ids[each.key.topic] for each in slices if each.key.topic in topic_ids}


def _is_fixed(options: ReadOptions) -> bool:
    """Whether the options say which offsets are read, of each partition."""
    bounds = (options.start, options.end)
    return all(bound.offsets and min(bound.offsets.values()) >= 0 for bound in bounds)


def _existing(lookup: "Lookup", options: ReadOptions, task: Task) -> list[Slice]:
    """The slices of partitions that there are; that others are gone is reported."""
    topics = {each.key.topic for each in task.slices}
    gone: list[Slice] = []
    for look in range(_LOOKS):  # a broker that just started may not know of all topics yet
        time.sleep(_LOOK_AGAIN_S if look else 0)
        there = lookup.partitions(topics) if topics else {}
        gone = [each for each in task.slices if each.key.partition not in there.get(each.key.topic, ())]
        if not gone:
            break
    losses = [Loss(each.key, each.start_offset or 0, each.end_offset, None, None) for each in gone]
    report_loss([*losses, *_made_anew(lookup, options, task)], fail=options.fail_on_data_loss)
    return [each for each in task.slices if each not in gone]


def _made_anew(lookup: "Lookup", options: ReadOptions, task: Task) -> list[MadeAnew]:
    """Topics that are others than those that the offsets of the options were meant for."""
    if not options.start.offsets and not options.end.offsets:
        return []
    now = lookup.topic_ids
    return [MadeAnew(topic) for topic, before in sorted(task.topic_ids.items()) if now.get(topic, before) != before]


@contextmanager
def _lookup(options: ReadOptions) -> Iterator["Lookup"]:
    """A lookup that an earlier task left, or a new one; left to the next task if all goes well."""
    from barnabas.spark.source.resolving import open_lookup

    address = options.address
    identity = address.bootstrap, address.client_id, options.is_committed, tuple(sorted(address.config.items()))
    lookup = _idle.pop(identity, None) or open_lookup(options)
    try:
        yield lookup
    except BaseException:
        lookup.close()
        raise
    _idle[identity] = lookup
    if len(_idle) > _MOST_IDLE:
        _idle.popitem(last=False)[1].close()
