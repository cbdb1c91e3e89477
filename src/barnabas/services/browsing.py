"""Browsing the records of a topic without a consumer: pages from a position on, forwards or backwards.

Nothing is kept between pages: a `Position` says for each partition which offsets are still to come, and the client
brings it back. A page ends when it has enough records, when all are read, or when the budget of time or bytes is used
up: then it may have found nothing, and says how far it came. What belongs to transactions that were aborted is left out
for those who read what is committed; markers are left out for everybody.

Records are in order of time over all partitions, from page to page, too: what one partition has further on than another
was looked at waits for that, and comes with the next page. So partitions are read a piece at a time, the one that
is furthest behind in time first. Times may be out of order within a partition, offsets not: a record counts as no
earlier in that order than the one before it in its partition.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import BatchHeader, TimestampType, iter_whole_batches
from barnabas.core.records.hidden import Hidden
from barnabas.core.records.record import Record, iter_records
from barnabas.runtime.offload import Offload
from barnabas.runtime.other_leaders import FetchedBatches
from barnabas.services.reading import ClusterReader
from barnabas.services.record_filter import Test

PIECE_BYTES: Final = 256 * 1024
MIN_PIECE_BYTES: Final = 16 * 1024
MAX_WINDOW_BYTES: Final = 4 * 1024 * 1024  # of a partition that is read backwards, at once
AT_ONCE: Final = 8  # partitions that are read at the same time
WINDOW: Final = 500  # offsets of a partition that are read at once, backwards
MAX_OPENED_BYTES: Final = 64 * 1024 * 1024  # of one batch when it is decompressed


class Span(NamedTuple):
    """Offsets of a partition that are still to come: from the first up to the end, which is exclusive."""

    first: int
    end: int


Position = Mapping[int, Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a page is to have, and what it may cost."""

    limit: int
    is_newest_first: bool = False
    is_committed: bool = True
    passes: Test | None = None
    max_s: float = 2.0
    max_bytes: int = 16 * 1024 * 1024


class Found(NamedTuple):
    """A record of a partition."""

    partition: int
    record: Record
    is_log_append_time: bool = False


class Page(NamedTuple):
    """Records, where to go on, and what it took."""

    records: list[Found]
    position: Position
    scanned: int  # records that were looked at
    scanned_bytes: int
    refusals: Mapping[int, BarnabasError]  # of partitions that could not be read now

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left."""
        return all(span.first >= span.end for span in self.position.values())


class _Piece(NamedTuple):
    records: list[Found]
    left: Span
    scanned: int
    size: int
    bound: int | None  # the place in time of what was looked at last; None: nothing was


class Opened(NamedTuple):
    """What batches had: records, where the log goes on, how many were looked at, and how far that is in time."""

    records: list[Found]
    after: int
    scanned: int
    bound: int | None


class Browser:
    """Reads pages."""

    def __init__(self, reader: ClusterReader, offload: Offload) -> None:
        self._reader = reader
        self._offload = offload

    async def read(self, topic: str, position: Position, wanted: Wanted) -> Page:
        """The next page of a topic."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wanted.max_s
        merge = Merge(position, wanted)
        piece_bytes = max(min(PIECE_BYTES, wanted.max_bytes // max(len(position), 1)), MIN_PIECE_BYTES)
        while merge.size < wanted.max_bytes and loop.time() < deadline and (due := merge.due()):
            for at in range(0, len(due), AT_ONCE):
                some = due[at : at + AT_ONCE]
                pieces = await asyncio.gather(
                    *(self._read_one(topic, index, merge.left[index], wanted, piece_bytes) for index in some)
                )
                for index, piece in zip(some, pieces, strict=True):
                    merge.take(index, piece)
        return merge.page()

    async def _read_one(
        self, topic: str, index: int, span: Span, wanted: Wanted, piece_bytes: int
    ) -> "_Piece | BarnabasError":
        """A piece of a partition: from its start on; backwards a window before its end, as large as may be read."""
        first, end = span
        if wanted.is_newest_first:
            first = max(first, end - max(WINDOW, wanted.limit if wanted.passes is None else WINDOW))
        name = TopicPartition(topic, index)
        records, scanned, size, at = list[Found](), 0, 0, first
        bound: int | None = None
        window_bytes = 0
        try:
            while at < end:
                batches = await self._reader.read(name, at, max_bytes=piece_bytes, is_committed=wanted.is_committed)
                opened = await self._offload.run(partial(open_batches, batches, index, at, end, wanted))
                records += opened.records
                scanned += opened.scanned
                bound = _later(bound, opened.bound)
                size += len(batches.records)
                window_bytes += len(batches.records)
                if opened.after <= at:
                    break  # nothing more can be read: it was deleted, or is compacted away
                at = opened.after
                if not wanted.is_newest_first:
                    return _Piece(records, Span(min(at, end), end), scanned, size, bound)
                if at < end and window_bytes >= MAX_WINDOW_BYTES:  # what is last comes first: a smaller window
                    first = at = at + (end - at) // 2
                    records, scanned, bound, window_bytes = [], 0, None, 0
        except BarnabasError as error:
            return error.with_traceback(None)
        left = Span(span.first, first) if wanted.is_newest_first else Span(end, end)
        return _Piece(records, left, scanned, size, bound)


class Merge:
    """What was found so far of a page, and which partitions must be looked at before it can be told.

    A place in time is a timestamp, negative backwards: what comes first is smaller.
    """

    def __init__(self, position: Position, wanted: Wanted) -> None:
        self._wanted = wanted
        self.left = dict(position)
        self.size = 0
        self._scanned = 0
        self._found: list[Found] = []
        self._bounds: dict[int, int] = {}
        """The place in time up to which each partition was looked at: nothing before it is to come."""
        self._refusals: dict[int, BarnabasError] = {}

    def _open(self) -> list[int]:
        return [index for index, span in self.left.items() if span.first < span.end and index not in self._refusals]

    def due(self) -> list[int]:
        """The partitions to look at next: none, if the page is full or all is read."""
        unseen = [index for index in self._open() if index not in self._bounds]
        if unseen:
            return unseen
        ordered = _in_order(self._found, is_newest_first=self._wanted.is_newest_first)
        last = ordered[self._wanted.limit - 1].place if len(ordered) >= self._wanted.limit else None
        behind = [index for index in self._open() if last is None or self._bounds[index] < last]
        return sorted(behind, key=self._bounds.__getitem__)[:AT_ONCE]

    def take(self, index: int, piece: _Piece | BarnabasError) -> None:
        """Add what was read of a partition."""
        if isinstance(piece, BarnabasError):
            self._refusals[index] = piece
            return
        self._found += piece.records
        self.left[index] = piece.left
        self._scanned += piece.scanned
        self.size += piece.size
        bound = _later(self._bounds.get(index), piece.bound)
        if bound is not None:
            self._bounds[index] = bound

    def page(self) -> Page:
        """The records that nothing can come before, and the position behind them: what is left out comes again."""
        ordered = _in_order(self._found, is_newest_first=self._wanted.is_newest_first)
        is_unseen = any(index not in self._bounds for index in self._open())
        until = min((self._bounds[index] for index in self._open() if not is_unseen), default=None)
        count = 0
        if not is_unseen:
            count = sum(until is None or each.place <= until for each in ordered[: self._wanted.limit])
        for each in ordered[count:]:
            index, offset = each.found.partition, each.found.record.offset
            span = self.left[index]
            if self._wanted.is_newest_first:
                self.left[index] = Span(span.first, max(span.end, offset + 1))
            else:
                self.left[index] = Span(min(span.first, offset), span.end)
        chosen = [each.found for each in ordered[:count]]
        return Page(chosen, self.left, self._scanned, self.size, self._refusals)


def _later(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)


def open_batches(batches: FetchedBatches, index: int, first: int, end: int, wanted: Wanted) -> Opened:
    """The records of batches from an offset up to an end. On a thread."""
    hidden = Hidden(batches.aborted if wanted.is_committed else ())
    found: list[Found] = []
    after, scanned, bound = first, 0, None
    sign = -1 if wanted.is_newest_first else 1
    for position, header in iter_whole_batches(batches.records):
        if header.base_offset >= end:
            break
        after = max(after, header.next_offset)
        if hidden.hides(header):
            continue
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        for record in _records_of(batches.records, position, header):
            if first <= record.offset < end:
                scanned += 1
                bound = _later(bound, sign * record.timestamp)
                if wanted.passes is None or wanted.passes(record, index):
                    found.append(Found(index, record, is_append_time))
                    if not wanted.is_newest_first and len(found) >= wanted.limit:
                        return Opened(found, record.offset + 1, scanned, bound)
    return Opened(found, after, scanned, bound)


def _records_of(data: bytes, position: int, header: BatchHeader) -> list[Record]:
    return list(iter_records(data, position, header, max_bytes=MAX_OPENED_BYTES))


class _Placed(NamedTuple):
    place: int
    found: Found


def _in_order(found: list[Found], *, is_newest_first: bool) -> list[_Placed]:
    """In order of time. Of one time, which many records of a batch may have, the partitions have their turns."""
    keyed: list[tuple[int, int, int, Found]] = []
    sign = -1 if is_newest_first else 1
    partition, bound, turn = -1, 0, 0
    for each in sorted(found, key=lambda each: (each.partition, sign * each.record.offset)):
        place = sign * each.record.timestamp
        if each.partition != partition or place > bound:
            partition, bound, turn = each.partition, place, 0
        keyed.append((bound, turn, partition, each))
        turn += 1
    return [_Placed(place, each) for place, _, _, each in sorted(keyed, key=lambda key: key[:3])]
