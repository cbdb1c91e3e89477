"""Whether the records of a batch match its header, for batches that are about to be appended.

A checksum proves that bytes arrived as they were sent, not that they are valid: a batch of garbage with a valid
checksum would stop every consumer permanently. So every length is checked against the bytes that are there, the count
against the records, and, as this is a new batch, the offset deltas against 0, 1, 2 and so on. What passes
`check_records` can be read by `record.decode_records`, and by the clients we know.

Two speeds in plain Python, and `check_kernel` with numba: `check_records` checks every field, a microsecond for each
record; `check_framing` the lengths of all and the fields of a few, a fifth of that.

Must not know: codecs, files, how a refusal is handled.
"""

import struct
from typing import Final

from barnabas.core.errors import CorruptRecord
from barnabas.core.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_RECORD_SIZE,
    Buffer,
    PlainBatch,
)
from barnabas.core.records.checksum import crc32c
from barnabas.core.records.varint import read_varint, read_varlong

OK: Final = 0
BAD_LENGTH: Final = 1
BAD_TIMESTAMP: Final = 2
BAD_OFFSET: Final = 3
BAD_KEY: Final = 4
BAD_VALUE: Final = 5
BAD_HEADERS: Final = 6
BAD_END: Final = 7
TRAILING_BYTES: Final = 8
BAD_ATTRIBUTES: Final = 9
PROBLEMS: Final = {
    BAD_LENGTH: "claims a length that its batch does not have",
    BAD_TIMESTAMP: "has a timestamp of more than 64 bits",
    BAD_OFFSET: "has an offset that is out of order or beyond the last of its batch",
    BAD_KEY: "has a key that does not fit",
    BAD_VALUE: "has a value that does not fit",
    BAD_HEADERS: "has headers that do not fit, or one without a key",
    BAD_END: "does not end where its length says",
    TRAILING_BYTES: "is the last, but bytes follow it",
    BAD_ATTRIBUTES: "has attributes that do not exist",
}
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
# The attributes of a record are a byte that means nothing yet, which librdkafka and others read as a varint: with the
# highest bit set they would take what follows for a part of it.
MAX_ATTRIBUTES: Final = 0x7F
# Attributes, base and max timestamp, how many records there are, and the first six bytes of the first.
_peek: Final = struct.Struct(">21xh4xqq14xiHHH").unpack_from
# Batch length, magic, checksum, attributes with the last offset delta, base and max timestamp, producer id, epoch and
# sequence with how many records there are, and the first six bytes of the first.
_peek_all: Final = struct.Struct(">8xi4xbI6sqq18sHHH").unpack_from
_PLAIN: Final = bytes(6)
_ONE_OF_NO_PRODUCER: Final = struct.pack(">qhii", -1, -1, -1, 1)
_peek_short: Final = struct.Struct(">H").unpack_from
_SMALLEST_BATCH: Final = HEADER_SIZE + MIN_RECORD_SIZE
_AFTER_LONG: Final = HEADER_SIZE + 2  # where a record with a length of two bytes begins
_TWO_BYTES: Final = 0x1FFF  # the largest length that is a varint of two bytes
_NOT_PLAIN: Final = ~0x10  # whether a batch is in a transaction changes nothing about its records
_NULL: Final = 1  # a length of -1, as a varint
_LONG_OR_ODD: Final = ~0x7E  # what a length of one byte has none of
_SAMPLE: Final = 8  # records at each end of a batch that `check_framing` looks into


class _Bad(Exception):
    """What is wrong, as a status."""


def check_records(data: bytes, count: int, base_timestamp: int) -> tuple[int, int]:
    """OK, or what is wrong | number of the record << 8; and the newest timestamp."""
    try:
        at, newest = _check_fields(data, 0, 0, count, base_timestamp)
    except _Bad as bad:
        return bad.args[0], INT64_MIN
    return (OK if at == len(data) else TRAILING_BYTES | max(count - 1, 0) << 8), newest


def read_one_plain(batch: Buffer) -> PlainBatch | None:
    """As `read_plain`, for what most requests are: a batch of one record that `is_one_plain_record`. None says nothing.

    Most requests go through here, so the header is taken apart once, with all that is asked about it and its record.
    """
    size = len(batch)
    if size < _SMALLEST_BATCH:
        return None
    length, magic, crc, kind, base_timestamp, max_timestamp, producer, begin, zeros, key = _peek_all(batch)
    if (
        kind == _PLAIN
        and producer == _ONE_OF_NO_PRODUCER
        and base_timestamp == max_timestamp
        and not zeros
        and length == size - LOG_OVERHEAD
        and magic == MAGIC
        and _is_plain_record(batch, size, begin, key)
        and crc32c(memoryview(batch)[ATTRIBUTES_AT:]) == crc
    ):
        return length, 0, max_timestamp
    return None


def is_one_plain_record(batch: Buffer) -> bool:
    """A quick yes for what most small batches are: one record without headers, as old as its batch, of less than 8 kB.
    False says nothing: see `check_records`.
    """
    size = len(batch)
    if size < _SMALLEST_BATCH:
        return False
    attributes, base_timestamp, max_timestamp, count, begin, zeros, key = _peek(batch)
    if count != 1 or attributes & _NOT_PLAIN or base_timestamp != max_timestamp or zeros:
        return False
    return _is_plain_record(batch, size, begin, key)


def _is_plain_record(batch: Buffer, size: int, begin: int, key: int) -> bool:
    """Whether a batch of `size` bytes is one record without headers. `begin` are the first two bytes of the record,
    and `key` the fifth and the sixth.

    The size of the batch is compared with what a plain record of that size begins with, and with the one length that
    its value can have.
    """
    length = size - _AFTER_LONG
    if length >= 0x40:  # which takes two bytes
        if begin != (length << 9 & 0x7F00 | 0x8000 | length >> 6) or length > _TWO_BYTES:
            return False
        at = _AFTER_LONG + 4  # attributes, the deltas of timestamp and offset, and the length of the key
    else:
        if begin != (length + 1) << 9 or length == 0x3F:
            return False
        key >>= 8
        at = _AFTER_LONG + 3
    if key != _NULL:
        if key & _LONG_OR_ODD:
            if key > 0xFF or key & 1 or batch[at] >= 0x80:
                return False
            key, at = key & 0x7F | batch[at] << 7, at + 1
        at += key >> 1
    value = size - at - 3
    if value >= 0x40:
        is_plain = _peek_short(batch, at)[0] == (value << 9 & 0x7F00 | 0x8000 | value >> 6)
    elif value >= 0:
        is_plain = batch[at] == (value + 1) << 1 and value != 0x3F
    else:
        is_plain = value == -1 and batch[at] <= _NULL
    return is_plain and not batch[-1]  # headers


def check_framing(data: bytes, count: int, base_timestamp: int) -> int:
    """As `check_records`, for less: between the first and the last few records only the lengths are looked at."""
    first_of_tail = max(count - _SAMPLE, _SAMPLE)
    try:
        at, _ = _check_fields(data, 0, 0, min(count, _SAMPLE), base_timestamp)
        at = _skip(data, at, _SAMPLE, first_of_tail)
        at, _ = _check_fields(data, at, first_of_tail, count, base_timestamp)
    except _Bad as bad:
        status: int = bad.args[0]
        return status
    return OK if at == len(data) else TRAILING_BYTES | max(count - 1, 0) << 8


def problem_of(status: int) -> str:
    """What is wrong with which record, in words."""
    return f"record {status >> 8} {PROBLEMS[status & 0xFF]}"


def _skip(data: bytes, at: int, first: int, end: int) -> int:
    """Where the records from number `first` up to `end` end, as far as their lengths say."""
    size = len(data)
    number = first
    try:
        for number in range(first, end):
            byte = data[at]
            if byte < 0x80:
                length, at = byte >> 1, at + 1
            else:
                high = data[at + 1]
                if high < 0x80:
                    length, at = (byte & 0x7F | high << 7) >> 1, at + 2
                else:
                    length, at = read_varint(data, at)
            at += length
            if byte & 1 or length < MIN_RECORD_SIZE - 1 or at > size:
                raise _Bad(BAD_LENGTH | number << 8)
    except (IndexError, CorruptRecord):
        raise _Bad(BAD_LENGTH | number << 8) from None
    return at


def _check_fields(  # noqa: PLR0912 - a branch for each field of the format
    data: bytes, at: int, first: int, end: int, base_timestamp: int
) -> tuple[int, int]:
    """Check the records from number `first` up to `end`; where they end, and their newest timestamp.

    One long loop, for the reason that `record._decode_all` is one.
    """
    newest = INT64_MIN
    size = len(data)
    number, field = first, BAD_LENGTH
    try:
        for number in range(first, end):
            field = BAD_LENGTH
            length, at = read_varint(data, at)
            stop = at + length
            if length < MIN_RECORD_SIZE - 1 or stop > size:
                break
            if data[at] > MAX_ATTRIBUTES:
                field = BAD_ATTRIBUTES
                break
            field = BAD_TIMESTAMP
            byte = data[at + 1]
            if byte < 0x80:
                delta, at = (byte >> 1) ^ -(byte & 1), at + 2
            else:
                delta, at = read_varlong(data, at + 1)
            timestamp = base_timestamp + delta
            if timestamp > newest:  # noqa: PLR1730 - `max` is a call, for every record
                newest = timestamp
            if not INT64_MIN <= timestamp <= INT64_MAX:
                break
            field = BAD_OFFSET
            delta, at = read_varint(data, at)
            if delta != number:
                break
            field = BAD_KEY
            byte = data[at]
            length, at = ((byte >> 1) ^ -(byte & 1), at + 1) if byte < 0x80 else read_varint(data, at)
            if not -1 <= length <= stop - at:
                break
            at += length if length > 0 else 0
            field = BAD_VALUE
            length, at = read_varint(data, at)
            if not -1 <= length <= stop - at:
                break
            at += length if length > 0 else 0
            field = BAD_HEADERS
            at = at + 1 if data[at] == 0 else _end_of_headers(data, at, stop)
            if at != stop:
                field = BAD_END
                break
        else:
            return at, newest
    except (IndexError, CorruptRecord):
        pass
    raise _Bad(field | number << 8)


def _end_of_headers(data: bytes, at: int, stop: int) -> int:
    count, at = read_varint(data, at)
    # The smallest header is an empty key and a null value: two bytes.
    if not 0 <= count <= (stop - at) // 2:
        raise CorruptRecord(f"{count} headers do not fit")
    for turn in range(2 * count):
        length, at = read_varint(data, at)
        if not -(turn & 1) <= length <= stop - at:  # keys and values take turns; a key cannot be null
            raise CorruptRecord(f"a header of {length} bytes does not fit")
        at += max(length, 0)
    return at
