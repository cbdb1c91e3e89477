"""The newest offset of each key, and which records of a batch remain because of that.

Two implementations that agree to the byte: `PlainKeyMap` here, which is always available, and `native.NativeKeyMap`,
which takes a small part of the time, releases the interpreter lock, and is used if numba is installed. Both are bounded
by a budget of bytes, and report when it is spent; what was added until then stays valid.

A record stays if it has a key, no newer record of that key is in the map, and it is no tombstone that may go. A
record without a key could never be replaced or deleted, so it goes; Kafka refuses such records when they are produced
to a compacted topic, and only a topic that was not compacted before has them.

Must not know: transactions, delete horizons, files.
"""

import importlib.util
from collections.abc import Iterator
from enum import Enum
from typing import Final, Protocol, TypeAlias

from barnabas.core.errors import CorruptRecord
from barnabas.core.records.batch import MIN_RECORD_SIZE, BatchHeader, Buffer, TimestampType
from barnabas.core.records.record import check_counts
from barnabas.core.records.varint import encode_varint, encode_varlong, read_varint, read_varlong

DEFAULT_MAP_BYTES: Final = 128 * 1024 * 1024  # log.cleaner.dedupe.buffer.size

# Loading numba costs more than it saves below this: half a second to a second, and 130 MB.
NATIVE_FROM_BYTES: Final = 32 * 1024 * 1024

# A key in a dict, beside its bytes: its share of the table, the header of the bytes object, and the offset. Measured
# up to 1.5 million keys: 95 to 125 bytes, and 155 at the moment when the table grows.
_ENTRY_BYTES: Final = 160

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


class Selection(Protocol):
    """The records of one batch that stay."""

    @property
    def count(self) -> int: ...

    @property
    def tombstones(self) -> int:
        """How many of them are tombstones."""
        ...

    @property
    def oldest_timestamp(self) -> int: ...

    @property
    def newest_timestamp(self) -> int: ...

    def records(self, *, base_timestamp: int | None = None) -> Buffer:
        """Their bytes, one after the other; with `base_timestamp`, rewritten to be relative to that."""
        ...


class KeyMap(Protocol):
    """The newest offset of each key of the batches added, which must come in order."""

    def __len__(self) -> int:
        """How many keys there are."""
        ...

    @property
    def memory_bytes(self) -> int:
        """What the map takes now."""
        ...

    def add(self, header: BatchHeader, payload: Buffer) -> bool:
        """Note the keys of a batch; False when the budget is spent.

        A refused batch is partly in the map. That is harmless if the caller keeps that batch whole: what the map
        removes has a newer record there.
        """
        ...

    def select(self, header: BatchHeader, payload: Buffer, *, keeps_tombstones: bool) -> Selection:
        """What stays of a batch."""
        ...


class Engine(Enum):
    """Which implementation to use."""

    PLAIN = "plain"
    NATIVE = "native"


def choose_engine(log_bytes: int, *, has_numba: bool) -> Engine:
    """The faster one for a log of this size, as far as it is installed."""
    return Engine.NATIVE if has_numba and log_bytes >= NATIVE_FROM_BYTES else Engine.PLAIN


def is_numba_installed() -> bool:
    """Without importing it, which takes long."""
    return importlib.util.find_spec("numba") is not None


def make_key_map(engine: Engine, *, max_bytes: int, dirty_bytes: int, hash_key: bytes) -> KeyMap:
    """An empty map. `dirty_bytes`, the size of what will be added, and `hash_key` matter to the native one only."""
    if engine is Engine.PLAIN:
        return PlainKeyMap(max_bytes)
    # Imported when it is used: numba is an extra, and slow to load.
    from barnabas.storage.compaction.native import NativeKeyMap  # noqa: PLC0415

    return NativeKeyMap(max_bytes, dirty_bytes=dirty_bytes, hash_key=hash_key)


class PlainKeyMap:
    """A dict of whole keys, filled by a reader that reads only the necessary part of a record."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._offsets: dict[bytes, int] = {}
        self._key_bytes = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def memory_bytes(self) -> int:
        return self._key_bytes + len(self._offsets) * _ENTRY_BYTES

    def add(self, header: BatchHeader, payload: Buffer) -> bool:
        offsets = self._offsets
        for _, _, _, _, offset, key, _ in read_records(header, payload):
            if key is None:
                continue
            if key not in offsets:
                if self.memory_bytes + len(key) + _ENTRY_BYTES > self._max_bytes:
                    return False
                self._key_bytes += len(key)
            offsets[key] = offset
        return True

    def select(self, header: BatchHeader, payload: Buffer, *, keeps_tombstones: bool) -> "PlainSelection":
        newest_of = self._offsets.get
        kept = []
        for record in read_records(header, payload):
            _, _, _, _, offset, key, is_tombstone = record
            if key is None or newest_of(key, -1) > offset or (is_tombstone and not keeps_tombstones):
                continue
            kept.append(record)
        return PlainSelection(payload, kept)


FoundRecord: TypeAlias = tuple[int, int, int, int, int, bytes | None, bool]
"""Where a record, its offset delta and its end are; its timestamp, offset and key; whether it is a tombstone.

A plain tuple, for there are millions: naming its parts would take half as long again.
"""


class PlainSelection:
    """Records kept by their places in the payload."""

    __slots__ = ("_kept", "_payload")

    def __init__(self, payload: Buffer, kept: list[FoundRecord]) -> None:
        self._payload = payload
        self._kept = kept

    @property
    def count(self) -> int:
        return len(self._kept)

    @property
    def tombstones(self) -> int:
        return sum(is_tombstone for *_, is_tombstone in self._kept)

    @property
    def oldest_timestamp(self) -> int:
        return min(timestamp for _, _, _, timestamp, _, _, _ in self._kept)

    @property
    def newest_timestamp(self) -> int:
        return max(timestamp for _, _, _, timestamp, _, _, _ in self._kept)

    def records(self, *, base_timestamp: int | None = None) -> bytes:
        view = memoryview(self._payload)
        if base_timestamp is None:
            return b"".join([view[start:end] for start, _, end, _, _, _, _ in self._kept])
        parts: list[Buffer] = []
        for _, rest, end, timestamp, _, _, _ in self._kept:
            delta = encode_varlong(timestamp - base_timestamp)
            # The attributes, which mean nothing yet, are the byte before the timestamp.
            parts += (encode_varint(1 + len(delta) + end - rest), b"\x00", delta, view[rest:end])
        return b"".join(parts)


def read_records(header: BatchHeader, payload: Buffer) -> Iterator[FoundRecord]:
    """Each record of a decompressed batch, up to the length of its value; the rest of it is not read."""
    check_counts(header, len(payload))
    data = bytes(payload)  # so that a key is a single slice that a dict takes
    try:
        yield from _read_records(data, header)
    except IndexError:
        raise CorruptRecord(f"batch at offset {header.base_offset} ends within one of its records") from None


def _read_records(data: bytes, header: BatchHeader) -> Iterator[FoundRecord]:  # noqa: C901, PLR0912, PLR0915
    """One long loop that reads numbers of one or two bytes in place: a call for each would double its time."""
    base_offset, base_timestamp, max_delta = header.base_offset, header.base_timestamp, header.last_offset_delta
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    size, at, last_delta = len(data), 0, -1
    for _ in range(header.record_count):
        start, byte = at, data[at]
        if byte < 0x80:
            length, at = (byte >> 1) ^ -(byte & 1), at + 1
        elif (high := data[at + 1]) < 0x80:
            length, at = (byte & 0x7F | high << 7) >> 1 ^ -(byte & 1), at + 2
        else:
            length, at = read_varint(data, at)
        end = at + length
        if length < MIN_RECORD_SIZE - 1 or end > size:
            raise _bad(header, f"a record claims {length} bytes, {size - at} are left")
        byte = data[at + 1]
        if byte < 0x80:
            delta, rest = (byte >> 1) ^ -(byte & 1), at + 2
        elif (high := data[at + 2]) < 0x80:
            delta, rest = (byte & 0x7F | high << 7) >> 1 ^ -(byte & 1), at + 3
        else:
            delta, rest = read_varlong(data, at + 1)
        timestamp = base_timestamp + delta
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise _bad(header, "a record has a timestamp of more than 64 bits")
        byte = data[rest]
        if byte < 0x80:
            delta, at = (byte >> 1) ^ -(byte & 1), rest + 1
        elif (high := data[rest + 1]) < 0x80:
            delta, at = (byte & 0x7F | high << 7) >> 1 ^ -(byte & 1), rest + 2
        else:
            delta, at = read_varint(data, rest)
        if not last_delta < delta <= max_delta:
            raise _bad(header, f"offset delta {delta} comes after {last_delta}")
        last_delta = delta
        byte = data[at]
        if byte < 0x80:
            length, at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            length, at = read_varint(data, at)
        if length >= 0:
            key, at = data[at : at + length], at + length
        else:
            key = None
        byte = data[at]
        if byte < 0x80:
            value_length, at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            value_length, at = read_varint(data, at)
        if length < -1 or value_length < -1 or at + value_length > end:
            raise _bad(header, "a record's key or value does not fit in it")
        if append_time is not None:
            timestamp = append_time
        yield start, rest, end, timestamp, base_offset + delta, key, value_length < 0
        at = end
    if at != size:
        raise _bad(header, f"{size - at} bytes follow the last record")


def _bad(header: BatchHeader, problem: str) -> CorruptRecord:
    return CorruptRecord(f"in the batch at offset {header.base_offset}, {problem}")
