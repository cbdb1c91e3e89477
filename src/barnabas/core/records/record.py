"""Records: the payload of a batch, written and read one by one in plain Python.

Owns the layout of a record within a batch. What is read is checked in full: every length against the bytes
that are there, every number against its range, the count and the deltas against the header; whatever does not
fit is a `BarnabasError`, never another exception. This is the readable and always available decoder; for
columns, or millions of records, see `columnar.py`, which must agree with it to the byte.

Must not know: transactions and markers (`control.py`), files, or how offsets are assigned.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from barnabas.core.errors import CorruptRecord, InvalidRecord
from barnabas.core.model import (
    NO_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)
from barnabas.core.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_RECORD_SIZE,
    BatchHeader,
    Buffer,
    Codec,
    TimestampType,
    attributes_of,
    check_crc,
    read_header,
    seal,
    write_header,
)
from barnabas.core.records.compression import compress, decompress
from barnabas.core.records.varint import encode_varint, encode_varlong, read_varint, read_varlong

Header: TypeAlias = tuple[str, bytes | None]

# What one batch may decompress to unless the caller says otherwise: far above what a client sends (Kafka's
# own limit is 1 MiB compressed), far below what a bomb would like.
DEFAULT_MAX_BYTES: Final = 128 * 1024 * 1024

_PIECE: Final = 10_000  # records

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_MAX_OFFSET_DELTA: Final = 2**31 - 1
_MAX_BATCH_LENGTH: Final = 2**31 - 1
_NULL: Final = encode_varint(-1)
_NO_HEADERS: Final = encode_varint(0)
_ATTRIBUTES: Final = b"\x00"  # of a record: the format defines none yet


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record. The bytes of a header key that are not UTF-8 are kept as surrogate escapes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def encode_batch(  # noqa: PLR0913 - one keyword per field of the format
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = NO_EPOCH,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """One sealed batch of these records, whose offsets may have gaps but must grow.

    `base_offset` and `last_offset` are those of the first and the last record unless given; a cleaned log
    gives them, to keep the range of a batch that lost its ends or all its records. Under log-append time
    the batch takes the largest timestamp for all. What the format cannot hold is `InvalidRecord`.
    """
    batch = list(records)
    if base_offset is None or last_offset is None:
        if not batch:
            raise InvalidRecord("a batch without records needs its base and last offset")
        base_offset = batch[0].offset if base_offset is None else base_offset
        last_offset = batch[-1].offset if last_offset is None else last_offset
    base_timestamp = delete_horizon_ms
    if base_timestamp is None:
        base_timestamp = batch[0].timestamp if batch else NO_TIMESTAMP
    section: Buffer = _encode_records(batch, base_offset, last_offset, base_timestamp)
    if codec is not Codec.NONE:
        section = compress(codec, section, level)
    size = HEADER_SIZE + len(section)
    if size - LOG_OVERHEAD > _MAX_BATCH_LENGTH:
        raise InvalidRecord(f"{size} bytes are too many for one batch")
    out = bytearray(HEADER_SIZE)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=size - LOG_OVERHEAD,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes_of(
            codec,
            timestamp_type,
            is_transactional=is_transactional,
            is_control=is_control,
            has_delete_horizon=delete_horizon_ms is not None,
        ),
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max((record.timestamp for record in batch), default=NO_TIMESTAMP),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(batch),
    )
    write_header(out, 0, header)
    out += section
    seal(out, 0, size)
    return out


def decode_batch(
    buffer: Buffer, position: int = 0, *, max_bytes: int = DEFAULT_MAX_BYTES, verify_crc: bool = True
) -> list[Record]:
    """The records of the batch at `position`, which must be there whole; more may follow it."""
    header = read_header(buffer, position)
    _check_whole(buffer, position, header)
    if verify_crc:
        check_crc(buffer, position, header)
    return decode_records(buffer, position, header, max_bytes=max_bytes)


def payload(buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Buffer:
    """The records section, decompressed to at most `max_bytes`; a view of `buffer` if not compressed."""
    _check_whole(buffer, position, header)
    section = memoryview(buffer)[position + HEADER_SIZE : position + header.size]
    codec = header.codec
    if codec is Codec.NONE or (not section and header.record_count == 0):
        return section
    return decompress(codec, section, max_bytes=max_bytes)


def check_counts(header: BatchHeader, payload_size: int) -> None:
    """Refuse a header whose counts its records section cannot bear out, before anything is made of them."""
    count = header.record_count
    if count < 0 or count * MIN_RECORD_SIZE > payload_size:
        raise CorruptRecord(f"batch at offset {header.base_offset} claims {count} records in {payload_size} bytes")
    if count == 0 and payload_size:
        raise CorruptRecord(
            f"batch at offset {header.base_offset} claims no records, but has {payload_size} bytes of them"
        )
    if header.last_offset_delta < 0 or header.last_offset > _INT64_MAX:
        raise CorruptRecord(
            f"batch at offset {header.base_offset} has a last offset delta of {header.last_offset_delta}"
        )


def decode_records(
    buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> list[Record]:
    """The records of a batch whose header was read and whose checksum was settled before."""
    section = payload(buffer, position, header, max_bytes=max_bytes)
    check_counts(header, len(section))
    # One copy of the whole, so that each key and value is a single slice.
    data = bytes(section)
    try:
        return _decode_all(data, header)
    except IndexError:
        # Only `data[at]` raises it: cheaper to let that happen than to ask before every byte.
        raise CorruptRecord(f"batch at offset {header.base_offset} ends within one of its records") from None


def iter_records(
    buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Iterator[Record]:
    """As `decode_records`, but with no more than `_PIECE` records alive: a megabyte may hold millions of them."""
    section = payload(buffer, position, header, max_bytes=max_bytes)
    check_counts(header, len(section))
    data = bytes(section)
    at, last_offset = 0, header.base_offset - 1
    for first in range(0, header.record_count, _PIECE):
        count = min(_PIECE, header.record_count - first)
        try:
            end = _end_of_records(data, at, count)
            records = _decode_all(data[at:end], header._replace(record_count=count))
        except IndexError:
            raise CorruptRecord(f"batch at offset {header.base_offset} ends within one of its records") from None
        if records[0].offset <= last_offset:
            raise _bad_record(header, first, f"has offset {records[0].offset} after {last_offset}")
        yield from records
        at, last_offset = end, records[-1].offset
    if at != len(data):
        raise CorruptRecord(f"batch at offset {header.base_offset} has {len(data) - at} bytes after its last record")


def _end_of_records(data: bytes, at: int, count: int) -> int:
    """Where `count` records from `at` on end, as far as their lengths say."""
    for _ in range(count):
        length, at = read_varint(data, at)
        at += max(length, 0)
    return at


def decode_record(
    buffer: Buffer, position: int, header: BatchHeader, offset: int, *, max_bytes: int = DEFAULT_MAX_BYTES
) -> Record | None:
    """The record at `offset` of a batch whose checksum was settled before; None when the batch has lost it.

    The records before it are stepped over by their lengths, and what follows is not looked at.
    """
    data = bytes(payload(buffer, position, header, max_bytes=max_bytes))
    check_counts(header, len(data))
    wanted = offset - header.base_offset
    is_complete = header.record_count == header.last_offset_delta + 1
    at = 0
    try:
        for index in range(header.record_count):
            length, start = read_varint(data, at)
            end = start + length
            if length < MIN_RECORD_SIZE - 1 or end > len(data):
                raise _bad_record(header, index, f"claims {length} bytes, {len(data) - start} are left")
            delta = index if is_complete else _read_offset_delta(data, start)
            if delta == wanted:
                (record,) = _decode_all(data[at:end], header._replace(record_count=1))
                if record.offset != offset:
                    raise _bad_record(header, index, f"has offset {record.offset} instead of {offset}")
                return record
            at = end
    except IndexError:
        raise CorruptRecord(f"batch at offset {header.base_offset} ends within one of its records") from None
    return None


def _read_offset_delta(data: bytes, start: int) -> int:
    _, at = read_varlong(data, start + 1)
    delta, _ = read_varint(data, at)
    return delta


def _decode_all(data: bytes, header: BatchHeader) -> list[Record]:
    """Read every record. One long loop: a call for each one-byte number would double its time."""
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    last_delta = -1
    size = len(data)
    at = 0
    records: list[Record] = []
    for index in range(header.record_count):
        length, at = read_varint(data, at)
        end = at + length
        if length < MIN_RECORD_SIZE - 1 or end > size:
            raise _bad_record(header, index, f"claims {length} bytes, {size - at} are left")

        byte = data[at + 1]  # the attributes come first, and mean nothing yet
        if byte < 0x80:
            delta, at = (byte >> 1) ^ -(byte & 1), at + 2
        else:
            delta, at = read_varlong(data, at + 1)
        timestamp = base_timestamp + delta
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise _bad_record(header, index, "has a timestamp of more than 64 bits")

        delta, at = read_varint(data, at)
        if delta <= last_delta:
            raise _bad_record(header, index, f"has offset delta {delta} after {last_delta}")
        last_delta = delta

        key, at = _read_bytes(data, at, end)
        value, at = _read_bytes(data, at, end)
        headers: tuple[Header, ...] = ()
        if data[at]:
            headers, at = _read_headers(data, at, end)
        else:
            at += 1
        if at != end:
            raise _bad_record(header, index, f"ends at byte {at}, its length says {end}")
        if append_time is not None:
            timestamp = append_time
        records.append(Record(base_offset + delta, timestamp, key, value, headers))
    if at != size:
        raise CorruptRecord(f"batch at offset {base_offset} has {size - at} bytes after its last record")
    if last_delta > header.last_offset_delta:
        raise CorruptRecord(
            f"batch at offset {base_offset} has a record at offset delta {last_delta}, "
            f"beyond its last, {header.last_offset_delta}"
        )
    return records


def _read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """A key or value: a length and that many bytes, which lie before `end`; null if the length is -1."""
    byte = data[at]
    if byte < 0x80:
        length, at = (byte >> 1) ^ -(byte & 1), at + 1
    else:
        length, at = read_varint(data, at)
    if length >= 0:
        stop = at + length
        if stop <= end:
            return data[at:stop], stop
    elif length == -1:
        return None, at
    raise CorruptRecord(f"a field claims {length} bytes, {max(0, end - at)} are left in its record")


def _read_headers(data: bytes, at: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, at = read_varint(data, at)
    # The smallest header is an empty key and a null value: two bytes.
    if not 0 <= count <= (end - at) // 2:
        raise CorruptRecord(f"a record claims {count} headers in {max(0, end - at)} bytes")
    headers = []
    for _ in range(count):
        key, at = _read_bytes(data, at, end)
        if key is None:
            raise CorruptRecord("a record has a header without a key")
        value, at = _read_bytes(data, at, end)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), at


def _encode_records(records: list[Record], base_offset: int, last_offset: int, base_timestamp: int) -> bytearray:
    out = bytearray()
    if not 0 <= last_offset - base_offset <= _MAX_OFFSET_DELTA or last_offset > _INT64_MAX:
        raise InvalidRecord(f"a batch cannot reach from offset {base_offset} to {last_offset}")
    previous = base_offset - 1
    for record in records:
        offset = record.offset
        if not previous < offset <= last_offset:
            raise InvalidRecord(f"offset {offset} after {previous} in a batch that ends at {last_offset}")
        previous = offset
        timestamp = record.timestamp
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise InvalidRecord(f"timestamp {timestamp} has more than 64 bits")
        try:
            delta = encode_varlong(timestamp - base_timestamp)
        except ValueError:
            raise InvalidRecord(f"timestamps {base_timestamp} and {timestamp} are too far apart") from None
        key = record.key
        value = record.value
        body = b"".join(
            (
                _ATTRIBUTES,
                delta,
                encode_varint(offset - base_offset),
                _NULL if key is None else encode_varint(len(key)),
                key or b"",
                _NULL if value is None else encode_varint(len(value)),
                value or b"",
                _encode_headers(record.headers) if record.headers else _NO_HEADERS,
            )
        )
        out += encode_varint(len(body))
        out += body
    return out


def _encode_headers(headers: tuple[Header, ...]) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        key = name.encode("utf-8", "surrogateescape")
        parts += (encode_varint(len(key)), key)
        if value is None:
            parts.append(_NULL)
        else:
            parts += (encode_varint(len(value)), value)
    return b"".join(parts)


def _check_whole(buffer: Buffer, position: int, header: BatchHeader) -> None:
    if position + header.size > len(buffer):
        raise CorruptRecord(
            f"batch at position {position} claims {header.size} bytes, {len(buffer) - position} are left"
        )


def _bad_record(header: BatchHeader, index: int, problem: str) -> CorruptRecord:
    return CorruptRecord(f"record {index} of the batch at offset {header.base_offset} {problem}")
