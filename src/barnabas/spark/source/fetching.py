"""What a task does: one offset range from the partition's leader, decoded natively, as Spark's rows.

Runs in a Python worker, which Spark uses again for later tasks: connections are kept for them, by cluster, login, topic
and isolation. A reader that was left in the middle (a LIMIT was reached, the task was killed) closes its connections,
because an answer may still be on its way.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from barnabas.client.fetcher import EARLIEST, LATEST, Fetched, Fetcher
from barnabas.core.errors import OffsetOutOfRange, RecordTooLarge, UnknownTopicOrPartition
from barnabas.core.records.batch import iter_whole_batches
from barnabas.spark.source import steps
from barnabas.spark.source.data_loss import Loss, report_loss
from barnabas.spark.source.options import ReadOptions
from barnabas.spark.source.planning import OffsetRange
from barnabas.spark.source.rows import RowLayout
from barnabas.spark.source.steps import SourceStep

# Of records in one Arrow batch; a single record batch may be larger.
_MAX_BATCH_BYTES: Final = 128 * 1024 * 1024

_MOST_IDLE: Final = 32

# Everything that a reader depends on: bootstrap, client id, topic, isolation and the settings of its connections.
_Identity: TypeAlias = tuple[str, str, str, bool, tuple[tuple[str, str], ...]]

# This process's readers that wait for another task; those used last are last.
_idle: OrderedDict[_Identity, Fetcher] = OrderedDict()


def read_ranges(options: ReadOptions, ranges: Iterable[OffsetRange], layout: RowLayout) -> Iterator[Any]:
    """The rows of ranges, one after another, in Arrow batches."""
    for each in ranges:
        yield from _read_range(options, each, layout)


def _read_range(options: ReadOptions, range_: OffsetRange, layout: RowLayout) -> Iterator[Any]:
    fetcher = _take_fetcher(options, range_.key.topic)
    is_clean = False
    try:
        yield from _read_on(fetcher, options, range_, layout)
        is_clean = True
    finally:
        if is_clean:
            _keep(_identity(options, range_.key.topic), fetcher)
        else:
            fetcher.close()


def _read_on(fetcher: Fetcher, options: ReadOptions, range_: OffsetRange, layout: RowLayout) -> Iterator[Any]:
    """Read a range; where a part of it is gone, report that and go on behind it."""
    from barnabas.core.records import columnar  # numba takes a second to load: not in the driver, which plans only

    at, end = range_.start_offset, range_.end_offset
    while at < end:
        newest: Fetched | None = None
        try:
            for newest in fetcher.read({range_.key.partition: (at, end)}):
                for batch in _decoded(newest, at, end, layout):
                    yield layout.rows(batch, range_.key)
                    steps.reached(SourceStep.PART_READ)
            return
        except OffsetOutOfRange:
            at = at if newest is None else columnar.next_offset(newest.records) or at
            at = _behind_the_gap(fetcher, options, OffsetRange(range_.key, at, end))
        except UnknownTopicOrPartition:
            report_loss([Loss(range_.key, at, end, None, None)], fail=options.fail_on_data_loss)
            return


def _decoded(fetched: Fetched, start: int, end: int, layout: RowLayout) -> Iterator[Any]:
    """The wanted records of an answer, in one batch if they are not too large for that once decompressed.

    Parts are windows on the whole answer, never cuts of it: which transactions were aborted is told by its markers.
    """
    from barnabas.core.records import columnar

    windows, edges = [(start, end)], list[int]()
    while windows:
        first, last = windows.pop()
        is_one = bool(edges) and not any(first < edge < last for edge in edges)
        try:
            batch = columnar.decode_arrow(
                fetched.records,
                start_offset=first,
                end_offset=last,
                columns=layout.record_columns,
                aborted=fetched.aborted,
                verify_crc=False,  # the fetcher did
                max_bytes=columnar.LARGEST_MAX_BYTES if is_one else _MAX_BATCH_BYTES,
            )
        except RecordTooLarge:
            edges = edges or [header.base_offset for _, header in iter_whole_batches(fetched.records)]
            inside = [edge for edge in edges if first < edge < last]
            if not inside:
                if is_one:
                    raise
                inside = [last]
            middle = inside[len(inside) // 2]
            windows += [(middle, last), (first, middle)] if middle < last else [(first, last)]
            continue
        if len(batch):
            yield batch


def _behind_the_gap(fetcher: Fetcher, options: ReadOptions, left: OffsetRange) -> int:
    """Where reading goes on after an offset was refused, if data may be lost."""
    id_ = left.key.partition
    first = fetcher.offsets([id_], EARLIEST)[id_]
    last = fetcher.offsets([id_], LATEST)[id_]
    if first <= left.start_offset <= last:
        return left.start_offset  # it is there after all: another replica answered
    gone_to = min(first, left.end_offset) if left.start_offset < first else left.end_offset
    report_loss([Loss(left.key, left.start_offset, gone_to, first, last)], fail=options.fail_on_data_loss)
    return gone_to


def _identity(options: ReadOptions, topic: str) -> _Identity:
    address = options.address
    return address.bootstrap, address.client_id, topic, options.is_committed, tuple(sorted(address.config.items()))


def _take_fetcher(options: ReadOptions, topic: str) -> Fetcher:
    waiting = _idle.pop(_identity(options, topic), None)
    return waiting or Fetcher(options.address.settings, topic, committed=options.is_committed)


def _keep(identity: _Identity, fetcher: Fetcher) -> None:
    """Leave a reader to the next task; a process runs one task at a time, so one of a kind is enough."""
    if identity in _idle:
        fetcher.close()
        return
    _idle[identity] = fetcher
    if len(_idle) > _MOST_IDLE:
        _idle.popitem(last=False)[1].close()
