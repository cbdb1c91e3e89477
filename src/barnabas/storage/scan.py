"""Walking the batches of a segment file: headers only, or every byte checked.

Two speeds. `walk_headers` trusts the bytes and reads little of them: small batches in one window, large ones by
their header alone. `scan_batches` reads and checks everything, and is what recovery, compaction and verification use.

Also the question recovery turns on: is a bad batch a *torn* write or *damage*? A write that a crash interrupted
leaves each 512-byte sector as written or as it was, and an appended file was nothing or zeros there. So a bad
batch that runs past the end of the file, or has a sector of zeros, is torn. One that is whole, non-zero and
wrong was written right and changed since: damage, which is never cut away. As damage may look torn (a length that
grew, a few zeros that belong there), a batch that one flipped bit explains is damage as well.
"""

import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError, CorruptLog, CorruptRecord
from barnabas.core.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    Buffer,
    check_batch,
    read_header,
)
from barnabas.core.records.checksum import crc32c
from barnabas.storage.disk import File
from barnabas.storage.flipped_bit import flipped_byte
from barnabas.storage.names import repair_command

SECTOR_SIZE: Final = 512
WINDOW: Final = 8 * 1024
CHUNK: Final = 1024 * 1024
_LIKELY_ZEROS: Final = 16


class FoundBatch(NamedTuple):
    """A batch of a segment: where it is, its header, and its bytes."""

    position: int
    header: BatchHeader
    data: memoryview


class BadBatch(Exception):
    """A scan cannot go on at `position`. `is_torn` says whether an interrupted write explains it."""

    def __init__(self, path: str, position: int, *, is_torn: bool, reason: str) -> None:
        super().__init__(f"{path} at position {position}: {reason}")
        self.path = path
        self.position = position
        self.is_torn = is_torn
        self.reason = reason

    def as_corrupt_log(self) -> CorruptLog:
        return CorruptLog(
            f"{self}. The data before it is intact; restore the file from a replica or a backup, or stop the node and "
            f"run: {repair_command(self.path)}"
        )


def walk_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch header from `position` to `end`; a header that cannot be right is `BadBatch`."""
    window, start = b"", position
    while position < end:
        at = position - start
        if len(window) - at < HEADER_SIZE:
            window, start, at = file.read(position, min(WINDOW, end - position)), position, 0
        try:
            header = read_header(window, at)
        except BarnabasError as error:
            raise _bad(file, position, end, str(error)) from error
        if position + header.size > end:
            raise _bad(file, position, end, f"a batch of {header.size} bytes runs past the end")
        yield position, header
        position += header.size


def scan_batches(file: File, position: int, end: int, *, min_offset: int, chunk: int = CHUNK) -> Iterator[FoundBatch]:
    """Each batch from `position` to `end`, every byte checked; the first bad one is `BadBatch`.

    The bytes of a batch are valid until the next is asked for.
    """
    buffer, start = b"", position
    while position < end:
        at = position - start
        needed = HEADER_SIZE
        try:
            if len(buffer) - at >= HEADER_SIZE:
                header = read_header(buffer, at)
                needed = header.batch_length + LOG_OVERHEAD
            if needed > len(buffer) - at:
                if needed > end - position:
                    raise CorruptRecord(f"a batch needs {needed} bytes, {end - position} are left")
                buffer, start = file.read(position, min(max(chunk, needed), end - position)), position
                if len(buffer) < needed:
                    raise CorruptRecord(f"the file ends after {len(buffer)} bytes more")
                continue
            check_batch(buffer, at, header)
            if header.base_offset < min_offset:
                raise CorruptRecord(f"offset {header.base_offset} comes after {min_offset - 1}")
        except BarnabasError as error:
            raise _bad(file, position, end, str(error)) from error
        yield FoundBatch(position, header, memoryview(buffer)[at : at + needed])
        min_offset = header.base_offset + header.last_offset_delta + 1
        position += needed


def zero_share(data: Buffer, position: int) -> int:
    """The length of the longest share that a sector has of `data`, which lies at `position`, that is all zeros."""
    first_sector_end = SECTOR_SIZE - position % SECTOR_SIZE
    bounds = [0, *range(first_sector_end, len(data), SECTOR_SIZE), len(data)]
    view = memoryview(data)
    return max((end - start for start, end in itertools.pairwise(bounds) if not any(view[start:end])), default=0)


def _bad(file: File, position: int, end: int, reason: str) -> BadBatch:
    is_torn = _is_torn(file, position, end) and not _is_one_bit_off(file, position, end)
    return BadBatch(file.path, position, is_torn=is_torn, reason=reason)


def _is_torn(file: File, position: int, end: int) -> bool:
    """Whether the batch runs past the end, or some sector of it looks as if it was never written."""
    head = file.read(position, min(HEADER_SIZE, end - position))
    if len(head) < HEADER_SIZE or zero_share(head, position):
        return True
    header = _header_at(head)
    if header is None:
        # The header itself is nonsense, so its length says nothing; what follows it decides.
        return zero_share(file.read(position, min(SECTOR_SIZE, end - position)), position) > 0
    return position + header.size > end or zero_share(file.read(position, header.size), position) > 0


def _is_one_bit_off(file: File, position: int, end: int) -> bool:
    """Whether what looks torn is a batch that was written whole, and then one bit of it flipped."""
    head = bytearray(file.read(position, min(HEADER_SIZE, end - position)))
    if len(head) < HEADER_SIZE:
        return False
    if (head[MAGIC_AT] ^ MAGIC).bit_count() == 1:
        head[MAGIC_AT] = MAGIC
        header = _header_at(bytes(head))
        return header is not None and _has_right_crc(file, position, end, header)
    header = _header_at(bytes(head))
    if header is None:
        return False
    for bit in range(31):
        if _has_right_crc(file, position, end, header._replace(batch_length=header.batch_length ^ (1 << bit))):
            return not _is_in_zeros(head, position, LOG_OVERHEAD - 1 - bit // 8)
    data = file.read(position, min(header.size, end - position))
    # Zeros that a batch may well have, like those at the start of its offset. A larger hole is no accident.
    if len(data) < header.size or zero_share(data, position) > _LIKELY_ZEROS:
        return False
    checked = memoryview(data)[ATTRIBUTES_AT:]
    byte = flipped_byte(len(checked), found_crc=crc32c(checked), expected_crc=header.crc)
    return byte is not None and not _is_in_zeros(data, position, CRC_AT if byte < 0 else ATTRIBUTES_AT + byte)


def _is_in_zeros(data: Buffer, position: int, byte: int) -> bool:
    """Whether a byte is in a sector's share of zeros: then its bit is not flipped but was never written."""
    start = max((position + byte) // SECTOR_SIZE * SECTOR_SIZE - position, 0)
    end = (position + byte) // SECTOR_SIZE * SECTOR_SIZE + SECTOR_SIZE - position
    return not any(memoryview(data)[start:end])


def _has_right_crc(file: File, position: int, end: int, header: BatchHeader) -> bool:
    if not HEADER_SIZE <= header.size <= end - position:
        return False
    checked = memoryview(file.read(position, header.size))[ATTRIBUTES_AT:]
    return crc32c(checked) == header.crc


def _header_at(head: bytes) -> BatchHeader | None:
    try:
        return read_header(head)
    except BarnabasError:
        return None
