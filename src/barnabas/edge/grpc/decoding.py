"""Fetched batches as records of gRPC: what a reader may see of them, and where it goes on.

Pure and possibly long: it runs on a thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from barnabas.core.errors import BarnabasError, CorruptRecord
from barnabas.core.records.batch import Buffer, Codec, check_crc, iter_whole_batches
from barnabas.core.records.hidden import Hidden
from barnabas.core.records.record import Record, decode_record, iter_records
from barnabas.edge.grpc.statuses import NoSuchRecord
from barnabas.v1 import bus_pb2

MAX_OPENED_BYTES: Final = 64 * 1024 * 1024
"""What one compressed batch may unpack to: a reader has to hold it."""


MAX_RECORDS: Final = 20_000
"""What is decoded at once: a megabyte may hold millions of records, which take a hundred times as much memory."""
LONG_BYTES: Final = 8 * 1024


def takes_long(data: Buffer) -> bool:
    """Whether decoding is work for a thread: there is much of it, or nobody knows how much."""
    return len(data) > LONG_BYTES or any(header.codec is not Codec.NONE for _, header in iter_whole_batches(data))


@dataclass(slots=True)
class Decoded:
    """Records of a partition in order, and where reading goes on behind the last of them."""

    records: list[bus_pb2.Record]
    next_offset: int


def decode_fetched(
    data: Buffer, *, start_offset: int, aborted: Sequence[tuple[int, int]] = (), is_committed: bool = True
) -> Decoded:
    """The records from an offset on, at most `MAX_RECORDS`; those of aborted transactions are left out."""
    records: list[bus_pb2.Record] = []
    next_offset = start_offset
    hidden = Hidden(aborted if is_committed else ())
    for position, header in iter_whole_batches(data):
        is_hidden = hidden.hides(header)
        if header.last_offset >= start_offset:
            check_crc(data, position, header)
            if not is_hidden:
                found = iter_records(data, position, header, max_bytes=MAX_OPENED_BYTES)
                wanted = (each for each in found if each.offset >= start_offset)
                records.extend(map(_message, islice(wanted, MAX_RECORDS - len(records))))
                if len(records) == MAX_RECORDS:
                    return Decoded(records, records[-1].offset + 1)
            next_offset = header.last_offset + 1
    return Decoded(records, next_offset)


def decode_one(
    data: Buffer, *, offset: int, aborted: Sequence[tuple[int, int]] = (), is_committed: bool = True
) -> bus_pb2.Record:
    """The record at an offset; refused if the log has none there that may be seen."""
    hidden = Hidden(aborted if is_committed else ())
    for position, header in iter_whole_batches(data):
        is_hidden = hidden.hides(header)
        if header.last_offset < offset:
            continue
        if is_hidden or header.base_offset > offset:
            break
        check_crc(data, position, header)
        found = decode_record(data, position, header, offset, max_bytes=MAX_OPENED_BYTES)
        if found is not None:
            return _message(found)
        break
    raise NoSuchRecord(
        f"there is no record at offset {offset}: it was compacted, is a marker, or its transaction was aborted"
    )


def _message(record: Record) -> bus_pb2.Record:
    return bus_pb2.Record(
        offset=record.offset,
        timestamp_ms=record.timestamp,
        key=record.key,
        value=record.value,
        headers=[bus_pb2.Header(key=_text(key), value=value) for key, value in record.headers],
    )


def _text(key: str) -> str:
    """A header's key as UTF-8, which a message must have: bytes that are not are replaced."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return key


def refusal_of_damage(error: BarnabasError, *, topic: str, partition: int) -> BarnabasError:
    """Damage, with the place where it is."""
    return CorruptRecord(f"{topic}-{partition} cannot be read: {error}") if isinstance(error, CorruptRecord) else error
