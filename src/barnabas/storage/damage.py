"""Damage in a segment file: where it is, and where the next good batch begins.

A damaged batch is found by its checksum or, since that does not cover offset and length, because it does not follow the
batch before it. The data after it is usually good: it is found by the length of the damaged batch, or by searching for
the next bytes that are a batch with a valid checksum.
"""

import struct
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError
from barnabas.core.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    Codec,
    check_batch,
    read_header,
)
from barnabas.core.records.checksum import crc32c
from barnabas.storage.disk import File
from barnabas.storage.offset_index import MAX_RELATIVE_OFFSET
from barnabas.storage.scan import BadBatch, scan_batches

BATCH_WORK: Final = 1024
"""Bytes that every batch counts for beyond its own: to check a small one is more work than to read it."""

_WINDOW: Final = 1024 * 1024
_LAST_CODEC: Final = max(Codec)
_CODEC_BITS: Final = 0x07
# Base offset, length, magic, checksum, attributes, last offset delta, records.
_unpack_checked: Final = struct.Struct(">qi4xbIhi30xi").unpack_from
_MAGIC: Final = bytes([MAGIC])
_offset_and_length: Final = struct.Struct(">qi").unpack_from


class Damage(NamedTuple):
    """Bytes of a segment file that are not a valid batch."""

    position: int
    end_position: int
    first_offset: int
    """What the log has before it ends before this offset."""
    reason: str
    is_torn: bool
    """Whether an interrupted write explains it."""


class Checked(NamedTuple):
    """How far a check got, and the damage it found there, which lies before that position."""

    position: int
    next_offset: int
    work: int
    """Its bytes, and `BATCH_WORK` for each batch."""
    damage: Damage | None = None


def check_some(
    file: File,
    position: int,
    end: int,
    *,
    min_offset: int,
    end_offset: int,
    max_work: int,
    max_search_bytes: int,
) -> Checked:
    """Check every byte of the batches from `position` on: about `max_work` of them, or up to the first damage.

    No batch may reach `end_offset`: an offset is not under the checksum. After damage the next batch is looked for in
    `max_search_bytes`; not found, the rest of the file counts as damaged.
    """
    data = file.read(position, min(max_work, end - position))
    size, offset, work = _pass_sound(data, min_offset, end_offset=end_offset, max_work=max_work)
    if size:
        return Checked(position + size, offset, work)
    start, offset = position, min_offset
    try:
        for batch in scan_batches(file, position, end, min_offset=min_offset, chunk=max_work):
            check_place(file, batch.position, batch.header, end, next_offset=offset, end_offset=end_offset)
            position, offset = batch.position + batch.header.size, batch.header.next_offset
            work += batch.header.size + BATCH_WORK
            if work >= max_work:
                break
    except BadBatch as bad:
        found = find_next(file, bad.position, end, min_offset=offset, max_bytes=max_search_bytes)
        end_position, next_offset = (end, offset) if found is None else (found[0], found[1].base_offset)
        damage = Damage(bad.position, end_position, offset, bad.reason, bad.is_torn)
        return Checked(end_position, next_offset, end_position - start, damage)
    return Checked(position, offset, work)


def _pass_sound(data: bytes, offset: int, *, end_offset: int, max_work: int) -> tuple[int, int, int]:
    """Pass the batches that are right and follow each other without a gap, which most do, at little cost for each.

    Returns where they end, the offset after them, and the work they were. What comes then says nothing of itself.
    """
    view = memoryview(data)
    size, at, work = len(data), 0, 0
    while size - at >= HEADER_SIZE and work < max_work:
        base_offset, length, magic, crc, attributes, last_offset_delta, count = _unpack_checked(data, at)
        stop = at + LOG_OVERHEAD + length
        if (
            base_offset != offset
            or magic != MAGIC
            or not HEADER_SIZE <= stop - at <= size - at
            or attributes & _CODEC_BITS > _LAST_CODEC
            or last_offset_delta < 0
            or count < 0
            or offset + last_offset_delta >= end_offset
            or crc32c(view[at + ATTRIBUTES_AT : stop]) != crc
        ):
            break
        work += stop - at + BATCH_WORK
        at, offset = stop, offset + last_offset_delta + 1
    return at, offset, work


def check_place(file: File, position: int, header: BatchHeader, end: int, *, next_offset: int, end_offset: int) -> None:
    """Refuse a batch with an impossible offset: its checksum does not cover the offset.

    It may not reach `end_offset`. It may leave out offsets after `next_offset`, for compaction does so, but not go
    beyond the batch that follows it.
    """
    if header.last_offset >= end_offset:
        reason = f"offset {header.last_offset} is beyond {end_offset - 1}"
        raise BadBatch(file.path, position, is_torn=False, reason=reason)
    if header.base_offset > next_offset:
        following = _batch_at(file, position + header.size, end, next_offset)
        if following is not None and following.base_offset <= header.last_offset:
            reason = f"offset {header.base_offset} comes before {following.base_offset}"
            raise BadBatch(file.path, position, is_torn=False, reason=reason)


def find_next(
    file: File, position: int, end: int, *, min_offset: int, max_bytes: int
) -> tuple[int, BatchHeader] | None:
    """The first good batch after the bad one at `position` that may follow `min_offset`, looked for byte by byte."""
    head = file.read(position, min(HEADER_SIZE, end - position))
    if len(head) == HEADER_SIZE:
        length = _offset_and_length(head)[1]
        if length > 0:
            found = _batch_at(file, position + LOG_OVERHEAD + length, end, min_offset)
            if found is not None:
                return position + LOG_OVERHEAD + length, found
    start, stop = position + 1, min(end, position + max_bytes)
    while start < stop:
        window = file.read(start, min(_WINDOW + HEADER_SIZE, end - start))
        at = window.find(_MAGIC, MAGIC_AT)
        while 0 <= at < MAGIC_AT + _WINDOW:
            candidate = start + at - MAGIC_AT
            if _may_be_batch(window, at - MAGIC_AT, end - candidate, min_offset):
                found = _batch_at(file, candidate, end, min_offset)
                if found is not None:
                    return candidate, found
            at = window.find(_MAGIC, at + 1)
        start += _WINDOW
    return None


def _may_be_batch(window: bytes, at: int, left: int, min_offset: int) -> bool:
    if len(window) - at < LOG_OVERHEAD:
        return False
    offset: int
    length: int
    offset, length = _offset_and_length(window, at)
    return (
        HEADER_SIZE - LOG_OVERHEAD <= length <= left - LOG_OVERHEAD
        and min_offset <= offset <= min_offset + MAX_RELATIVE_OFFSET
    )


def _batch_at(file: File, position: int, end: int, min_offset: int) -> BatchHeader | None:
    """The header of a whole, good batch at this very position."""
    head = file.read(position, min(HEADER_SIZE, max(end - position, 0)))
    if len(head) < HEADER_SIZE or not _may_be_batch(head, 0, end - position, min_offset):
        return None
    try:
        header = read_header(head)
        check_batch(file.read(position, header.size), 0, header)
    except BarnabasError:
        return None
    return header
