"""The 61-byte header of a record batch: read, checked and patched in place, without copying.

Owns the layout of format v2. A batch on disk is byte for byte the batch on the wire, so everything the
log needs to know it learns here, once per batch and never per record. Base offset, batch length, leader
epoch and magic lie outside the checksum, so a log may assign an offset without computing one; everything
from the attributes on is inside it.

Must not know: records (`record.py`), codecs (`compression.py`), files.
"""

import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias, cast

from barnabas.core.errors import (
    CorruptRecord,
    InvalidRecord,
    UnsupportedCompression,
    UnsupportedRecordFormat,
)
from barnabas.core.model import NO_PRODUCER_ID
from barnabas.core.records.checksum import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base offset and batch length: what comes before the counted length
MAGIC: Final = 2
MAX_SEQUENCE: Final = 2**31 - 1
MIN_RECORD_SIZE: Final = 7  # length, attributes, two deltas, two lengths and the header count: a byte each

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PLACE: Final = struct.Struct(">qii")
pack_place: Final = _PLACE.pack_into  # base offset, batch length, leader epoch
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
unpack_header: Final = _HEADER.unpack_from
_unpack_plain: Final = struct.Struct(">8xi4xbIhi8xqq6xi").unpack_from  # of those, what `read_plain` looks at

MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21  # where the checksummed part begins
MAX_TIMESTAMP_AT: Final = 35

_CODEC_BITS: Final = 0x07
_LAST_CODEC: Final = 4
_LOG_APPEND_TIME_BIT: Final = 0x08
_TRANSACTIONAL_BIT: Final = 0x10
_CONTROL_BIT: Final = 0x20
_DELETE_HORIZON_BIT: Final = 0x40

HIGHEST_PLAIN_ATTRIBUTES: Final = _CODEC_BITS | _LOG_APPEND_TIME_BIT  # nothing of transactions or compaction


class Codec(IntEnum):
    """How the records of a batch are compressed; the numbers are the format's."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """Who sets the timestamp of a record: its producer, or the log."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


_CODECS: Final = tuple(Codec)
_TIMESTAMP_TYPES: Final = tuple(TimestampType)


class BatchHeader(NamedTuple):
    """The fields of a batch header, in the order of the format."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; they wrap to zero after 2**31 - 1."""
        return add_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        bits = self.attributes & _CODEC_BITS
        if bits > _LAST_CODEC:
            raise UnsupportedCompression(
                f"batch at offset {self.base_offset} has compression codec {bits}, which does not exist"
            )
        return _CODECS[bits]

    @property
    def timestamp_type(self) -> TimestampType:
        return _TIMESTAMP_TYPES[(self.attributes & _LOG_APPEND_TIME_BIT) >> 3]

    @property
    def is_transactional(self) -> bool:
        return self.attributes & _TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & _CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which tombstones and markers here may be removed (KIP-534)."""
        return self.attributes & _DELETE_HORIZON_BIT != 0

    @property
    def has_producer(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID


PlainBatch: TypeAlias = tuple[int, int, int]
"""Length, last offset delta and max timestamp of a batch that was found to be plain, and whose checksum is right."""

# NamedTuple's own `_make` is Python code; a header is read for every batch.
_new_header: Final = cast("Callable[[type[BatchHeader], tuple[int, ...]], BatchHeader]", tuple.__new__)


def add_sequence(sequence: int, count: int) -> int:
    """The sequence number `count` after `sequence`, wrapping as producers do."""
    return (sequence + count) & MAX_SEQUENCE


def attributes_of(
    codec: Codec,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    *,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> int:
    """The attributes field of a batch header."""
    return codec | timestamp_type << 3 | is_transactional << 4 | is_control << 5 | has_delete_horizon << 6


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, checked for what would make its size or format meaningless.

    The batch's body need not be present; the checksum is not verified.
    """
    try:
        header = _new_header(BatchHeader, unpack_header(buffer, position))
    except struct.error:
        raise _too_short(buffer, position) from None
    if header[3] != MAGIC:
        check_magic(header.magic)
    if header[1] < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptRecord(f"batch at position {position} claims a length of {header.batch_length} bytes")
    return header


def read_alone(buffer: Buffer) -> BatchHeader | None:
    """The header of a buffer that is one batch, checked as by `check_batch`; None when it is not just one.

    What a log does for every produce request, so it is written out.
    """
    try:
        header = _new_header(BatchHeader, unpack_header(buffer))
    except struct.error:
        raise _too_short(buffer, 0) from None
    if header[1] + LOG_OVERHEAD != len(buffer) or header[3] != MAGIC:
        return None
    if (
        crc32c(memoryview(buffer)[ATTRIBUTES_AT:]) != header[4]
        or header[5] & _CODEC_BITS > _LAST_CODEC
        or header[6] < 0
        or header[12] < 0
    ):
        check_batch(buffer, 0, header)  # says what it is
    return header


def read_plain(buffer: Buffer) -> PlainBatch | None:
    """What a log needs to know of a buffer that is one plain batch with nothing to refuse but its length.

    Plain is: not compressed, of no producer. A quick yes for what most appends are. None says nothing: the checks
    below find out what it is.
    """
    try:
        length, magic, crc, attributes, last_offset_delta, max_timestamp, producer_id, count = _unpack_plain(buffer)
    except struct.error:
        return None
    if (
        attributes == 0
        and producer_id == NO_PRODUCER_ID
        and length + LOG_OVERHEAD == len(buffer)
        and magic == MAGIC
        and 0 < count == last_offset_delta + 1  # as many records as offsets
        and count * MIN_RECORD_SIZE <= length - (HEADER_SIZE - LOG_OVERHEAD)
        and crc32c(memoryview(buffer)[ATTRIBUTES_AT:]) == crc
    ):
        return length, last_offset_delta, max_timestamp
    return None


def write_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Write all fields of a header, the checksum as `header.crc` says; see `seal`."""
    _HEADER.pack_into(buffer, position, *header)


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch of `buffer` as its position and header; an incomplete last batch is an error."""
    end = len(buffer)
    while position < end:
        header = read_header(buffer, position)
        next_position = position + header.size
        if next_position > end:
            raise CorruptRecord(f"batch at position {position} claims {header.size} bytes, {end - position} are left")
        yield position, header
        position = next_position


def iter_whole_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """As `iter_batches`, for a fetched piece of a log: its last batch may be cut off anywhere, and is left out."""
    position, end = 0, len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        if position + header.size > end:
            return
        yield position, header
        position += header.size
    if end - position > MAGIC_AT:
        check_magic(buffer[position + MAGIC_AT])  # a whole batch of an old format may be that short


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Refuse a batch whose checksum is not that of its bytes."""
    end = position + LOG_OVERHEAD + header.batch_length
    found = crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : end])
    if found != header.crc:
        raise CorruptRecord(
            f"batch at offset {header.base_offset} has checksum {header.crc:#010x}, its bytes give {found:#010x}"
        )


def check_batch(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Refuse a whole batch whose checksum, codec or counts are wrong, without reading its records."""
    check_crc(buffer, position, header)
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise InvalidRecord(
            f"batch claims {header.record_count} records and a last offset delta of {header.last_offset_delta}"
        )
    if header.attributes & _CODEC_BITS > _LAST_CODEC:
        _ = header.codec  # says so


def assign_offset(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, *, base_offset: int, leader_epoch: int
) -> None:
    """Give a batch its place in the log: 12 bytes, all outside the checksum."""
    _PLACE.pack_into(buffer, position, base_offset, header.batch_length, leader_epoch)


def stamp_log_append_time(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, timestamp_ms: int
) -> None:
    """Mark a batch as timed by the log, and recompute its checksum."""
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_AT, header.attributes | _LOG_APPEND_TIME_BIT)
    _MAX_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_AT, timestamp_ms)
    seal(buffer, position, header.size)


def seal(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """Write the checksum of a batch of `size` bytes whose every other field is final."""
    crc = crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : position + size])
    _CRC.pack_into(buffer, position + CRC_AT, crc)


def _too_short(buffer: Buffer, position: int) -> CorruptRecord:
    available = max(len(buffer) - position, 0)
    if available > MAGIC_AT:
        check_magic(buffer[position + MAGIC_AT])
    return CorruptRecord(f"{available} bytes at position {position} are too few for a batch header ({HEADER_SIZE})")


def check_magic(magic: int) -> None:
    if magic in (0, 1):
        raise UnsupportedRecordFormat(
            f"record format v{magic} is not supported; use a client that writes format v2 "
            "(every Kafka client since 0.11)"
        )
    if magic != MAGIC:
        raise UnsupportedRecordFormat(f"record format {magic} does not exist; expected {MAGIC}")
