"""Lag: how many records a reader has yet to read, and since when the first of them waits. The one definition of it.

What lies between a committed offset and the end of a log is not records alone: there are markers of transactions, and
records of transactions that were aborted, which readers of committed records are never given. Clients do not commit
behind what they were not given, so counting offsets, as Kafka's tools do, shows a lag that no reader can ever get rid
of. Here it is 0 when everything was read. The end is the last stable offset, for the same reason.

Only the first batches after the offset are looked at (`LOOK_BYTES`): further behind, markers count as records. A reader
that is far behind sees a number that is somewhat too large, one that is close an exact one.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.core.records.batch import BatchHeader, Buffer, iter_whole_batches
from barnabas.core.records.hidden import Hidden
from barnabas.core.records.record import iter_records

LOOK_BYTES: Final = 16 * 1024
MAX_OPENED_BYTES: Final = 16 * 1024 * 1024
"""The most that a compressed batch may come to; one that is larger gives the time of its first record."""


class Seen(NamedTuple):
    """What lies after an offset, as far as it was looked at: offsets that nobody gets, when the first record came."""

    hidden: int
    first_timestamp: int | None


class Unread(NamedTuple):
    """How many records are to be read, and how long the first has been waiting; None if that is not known."""

    lag: int
    age_ms: int | None


NOTHING_UNREAD: Final = Unread(0, 0)


def first_unread(offset: int, start_offset: int) -> int:
    """Where reading goes on: what was deleted meanwhile nobody can read any more."""
    return max(offset, start_offset)


def unread(first: int, end_offset: int, seen: Seen | None, *, now_ms: int) -> Unread:
    """What is unread from an offset on, with what was seen there; None: nobody looked."""
    lag = max(end_offset - first, 0)
    if seen is None:
        return Unread(lag, None) if lag else NOTHING_UNREAD
    lag = max(lag - seen.hidden, 0)
    if not lag:
        return NOTHING_UNREAD
    timestamp = seen.first_timestamp
    return Unread(lag, None if timestamp is None else max(now_ms - timestamp, 0))


def look_after(records: Buffer, offset: int, end_offset: int, aborted: Sequence[tuple[int, int]] = ()) -> Seen:
    """What these batches have from an offset on."""
    count, timestamp = 0, None
    hidden = Hidden(aborted)
    for position, header in iter_whole_batches(records):
        if header.base_offset >= end_offset:
            break
        is_hidden = hidden.hides(header)
        if header.last_offset < offset:
            continue
        if is_hidden:
            count += min(header.next_offset, end_offset) - max(header.base_offset, offset)
        elif timestamp is None:
            timestamp = _timestamp_at(records, position, header, offset)
    return Seen(count, timestamp)


def _timestamp_at(records: Buffer, position: int, header: BatchHeader, offset: int) -> int:
    if header.base_offset >= offset:
        return header.base_timestamp
    later = (
        record.timestamp
        for record in iter_records(records, position, header, max_bytes=MAX_OPENED_BYTES)
        if record.offset >= offset
    )
    return next(later, header.max_timestamp)
