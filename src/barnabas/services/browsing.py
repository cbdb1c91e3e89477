"""Browsing the records of a topic without a consumer: pages from a position on, forwards or backwards.

Nothing is kept between pages: a `Position` says for each partition which offsets are still to come, and the client
brings it back. A page ends when it has enough records, when all are read, or when the budget of time or bytes is used
up: then it may have found nothing, and says how far it came. Partitions are read a piece at a time, in turns with each
other, so that one which is empty or compacted does not hold up the rest. What belongs to transactions that were aborted
is left out for those who read what is committed; markers are left out for everybody.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import BatchHeader, TimestampType, iter_whole_batches
from barnabas.core.records.record import Record, iter_records
from barnabas.runtime.offload import Offload
from barnabas.runtime.other_leaders import FetchedBatches
from barnabas.services.reading import ClusterReader
from barnabas.services.record_filter import Test

PIECE_BYTES: Final = 256 * 1024
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


class Browser:
    """Reads pages."""

    def __init__(self, reader: ClusterReader, offload: Offload) -> None:
        self._reader = reader
        self._offload = offload

    async def read(self, topic: str, position: Position, wanted: Wanted) -> Page:
        """The next page of a topic."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wanted.max_s
        left, found = dict(position), list[Found]()
        refusals: dict[int, BarnabasError] = {}
        scanned = size = 0
        while len(found) < wanted.limit and size < wanted.max_bytes and loop.time() < deadline:
            due = [index for index, span in left.items() if span.first < span.end and index not in refusals]
            if not due:
                break
            pieces = await self._read_some(topic, due, left, wanted)
            for index, piece in pieces.items():
                if isinstance(piece, BarnabasError):
                    refusals[index] = piece
                    continue
                found += piece.records
                left[index] = piece.left
                scanned += piece.scanned
                size += piece.size
            for index in pieces:
                left[index] = left.pop(index)  # the others are next
        chosen, left = _cut(found, left, wanted)
        return Page(chosen, left, scanned, size, refusals)

    async def _read_some(
        self, topic: str, due: list[int], left: Mapping[int, Span], wanted: Wanted
    ) -> dict[int, "_Piece | BarnabasError"]:
        # Newest first is by time over all partitions: each must have been looked at.
        chosen = due if wanted.is_newest_first else due[:AT_ONCE]
        outcomes: dict[int, _Piece | BarnabasError] = {}
        for at in range(0, len(chosen), AT_ONCE):
            some = chosen[at : at + AT_ONCE]
            done = await asyncio.gather(*(self._read_one(topic, index, left[index], wanted) for index in some))
            outcomes.update(zip(some, done, strict=True))
        return outcomes

    async def _read_one(self, topic: str, index: int, span: Span, wanted: Wanted) -> "_Piece | BarnabasError":
        first, end = span
        if wanted.is_newest_first:
            first = max(first, end - max(WINDOW, wanted.limit if wanted.passes is None else WINDOW))
        name = TopicPartition(topic, index)
        records, scanned, size, at = list[Found](), 0, 0, first
        try:
            while at < end:
                batches = await self._reader.read(name, at, max_bytes=PIECE_BYTES, is_committed=wanted.is_committed)
                some, after, count = await self._offload.run(partial(open_batches, batches, index, at, end, wanted))
                records += some
                scanned += count
                size += len(batches.records)
                if after <= at:
                    at = end  # nothing more can be read: it was deleted, or is compacted away
                    break
                at = after
                if not wanted.is_newest_first or size >= wanted.max_bytes:
                    break
        except BarnabasError as error:
            return error.with_traceback(None)
        if wanted.is_newest_first:
            return _Piece(records, Span(span.first, first), scanned, size)
        return _Piece(records, Span(min(at, end), end), scanned, size)


def open_batches(
    batches: FetchedBatches, index: int, first: int, end: int, wanted: Wanted
) -> tuple[list[Found], int, int]:
    """The records of batches from an offset up to an end; where they go on; how many were looked at. On a thread."""
    aborted = sorted(batches.aborted, key=lambda each: each[1])
    gone: set[int] = set()
    found: list[Found] = []
    after, scanned = first, 0
    for position, header in iter_whole_batches(batches.records):
        if header.base_offset >= end:
            break
        while aborted and aborted[0][1] <= header.last_offset:
            gone.add(aborted.pop(0)[0])
        after = max(after, header.next_offset)
        if header.is_control:
            gone.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in gone and wanted.is_committed:
            continue
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        for record in _records_of(batches.records, position, header):
            if first <= record.offset < end:
                scanned += 1
                if wanted.passes is None or wanted.passes(record, index):
                    found.append(Found(index, record, is_append_time))
                    if not wanted.is_newest_first and len(found) >= wanted.limit:
                        return found, record.offset + 1, scanned
    return found, after, scanned


def _records_of(data: bytes, position: int, header: BatchHeader) -> list[Record]:
    return list(iter_records(data, position, header, max_bytes=MAX_OPENED_BYTES))


def _cut(found: list[Found], left: dict[int, Span], wanted: Wanted) -> tuple[list[Found], dict[int, Span]]:
    """The records of the page in order of time, and the position behind it: what is over the limit comes again.

    Times may be out of order within a partition, offsets not: what a page leaves out must lie behind what it has. So a
    record counts as no older than the one before it.
    """
    ordered = _in_order(found, is_newest_first=wanted.is_newest_first)
    chosen, rest = ordered[: wanted.limit], ordered[wanted.limit :]
    for each in rest:
        span, offset = left[each.partition], each.record.offset
        if wanted.is_newest_first:
            left[each.partition] = Span(span.first, max(span.end, offset + 1))
        else:
            left[each.partition] = Span(min(span.first, offset), span.end)
    return chosen, left


def _in_order(found: list[Found], *, is_newest_first: bool) -> list[Found]:
    bounds: dict[int, int] = {}
    keyed: list[tuple[int, int, int, Found]] = []
    sign = -1 if is_newest_first else 1
    for each in sorted(found, key=lambda each: (each.partition, sign * each.record.offset)):
        time = sign * each.record.timestamp
        bounds[each.partition] = time = max(bounds.get(each.partition, time), time)
        keyed.append((time, each.partition, sign * each.record.offset, each))
    return [each for *_, each in sorted(keyed, key=lambda key: key[:3])]
