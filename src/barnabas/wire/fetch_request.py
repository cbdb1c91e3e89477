"""The request Fetch, by hand: it is frequent, and a handler needs few numbers of each partition.

Served: versions 4 to 18. From 7 on sessions, from 12 on flexible, from 13 on topics are named by their ids, from 15 on
a replica names itself in a tagged field.
"""

import struct
from collections.abc import Generator
from typing import Final
from uuid import UUID

from barnabas.core.fetched import FetchPartition, FetchRequest
from barnabas.core.records.batch import Buffer
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.fetch import FLEXIBLE_FROM, SESSIONS_FROM, TOPIC_IDS_FROM
from barnabas.wire.fields import piece, read_compact_count, read_compact_string, read_count, read_string
from barnabas.wire.frame import MAX_TAGGED_FIELDS, read_uvarint, skip_tagged_fields
from barnabas.wire.own_fields import DAMAGED_OFFSET_TAG, FLUSHED_OFFSET_TAG

MAX_PARTITIONS: Final = 100_000  # of one request, those it forgets included
ELEMENTS_PER_STEP: Final = 50  # topics and partitions, of which each takes some microseconds
_LEADER_EPOCHS_FROM: Final = 9
_RACKS_FROM: Final = 11
_REPLICA_STATE_FROM: Final = 15
_REPLICA_STATE_TAG: Final = 1

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_REPLICA_STATE: Final = struct.Struct(">iq")
# As they come; in the end all are: partition, current leader epoch, offset, last fetched epoch, max bytes.
_V4: Final = struct.Struct(">iqi")
_V5: Final = struct.Struct(">iq8xi")
_V9: Final = struct.Struct(">iiq8xi")
_V12: Final = struct.Struct(">iiqi8xi")
_AFTER_LAST_EPOCH: Final = 12  # bytes of a partition: where its log starts, and how much it wants


def read_fetch(data: Buffer, position: int, end: int, version: int) -> FetchRequest:
    """The request whose body is at `position` and ends at `end`."""
    try:
        return _Reader(memoryview(data), end, version).read(position)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise MalformedRequest("a fetch request is truncated") from None


def read_fetch_in_steps(data: Buffer, position: int, end: int, version: int) -> Generator[None, None, FetchRequest]:
    """The same for a long request. The data is copied at once; the first step is to ask for the next."""
    body = memoryview(bytes(data[position:end]))
    return _read_in_steps(_Reader(body, len(body), version))


def _read_in_steps(reader: "_Reader") -> Generator[None, None, FetchRequest]:
    yield
    try:
        return (yield from reader.read_in_steps())
    except (struct.error, IndexError, UnicodeDecodeError):
        raise MalformedRequest("a fetch request is truncated") from None


_Topics = list[tuple[str | UUID, list[FetchPartition]]]
_Forgotten = list[tuple[str | UUID, list[int]]]


# What comes before the topics: the first seven fields of a request.
_Head = tuple[int, int, int, int, int, int, int]


class _Reader:
    __slots__ = ("_data", "_end", "_is_flexible", "_left", "_version")

    def __init__(self, data: memoryview, end: int, version: int) -> None:
        self._data = data
        self._end = end
        self._version = version
        self._is_flexible = version >= FLEXIBLE_FROM
        self._left = MAX_PARTITIONS

    def read(self, position: int) -> FetchRequest:
        head, position = self._read_head(position)
        count, position = self._read_count(position)
        topics: _Topics = []
        for _ in range(count):
            topic, position = self._read_topic(position)
            partition_count, position = self._read_count(position)
            partitions: list[FetchPartition] = []
            for _ in range(partition_count):
                partition, position = self._read_partition(position)
                partitions.append(partition)
            position = self._skip_tags(position)
            topics.append((topic, partitions))
        forgotten: _Forgotten = []
        if self._version >= SESSIONS_FROM:
            count, position = self._read_count(position)
            for _ in range(count):
                position = self._read_forgotten(position, forgotten)
        return self._read_end(position, head, topics, forgotten)

    def read_in_steps(self) -> Generator[None, None, FetchRequest]:
        """As `read` from the beginning of the data."""
        head, position = self._read_head(0)
        count, position = self._read_count(position)
        topics: _Topics = []
        left = ELEMENTS_PER_STEP
        for _ in range(count):
            topic, partition_count, position = self._read_topic_head(position)
            partitions: list[FetchPartition] = []
            while len(partitions) < partition_count:
                number = min(left, partition_count - len(partitions))
                position = self._read_partitions(position, number, partitions)
                left -= number
                if left <= 0:
                    yield
                    left = ELEMENTS_PER_STEP
            position = self._skip_tags(position)
            topics.append((topic, partitions))
            left -= 1
            if left <= 0:
                yield
                left = ELEMENTS_PER_STEP
        forgotten: _Forgotten = []
        if self._version >= SESSIONS_FROM:
            count, position = self._read_count(position)
            for number in range(1, count + 1):
                position = self._read_forgotten(position, forgotten)
                if number % ELEMENTS_PER_STEP == 0:
                    yield
        return self._read_end(position, head, topics, forgotten)

    def _read_head(self, position: int) -> tuple[_Head, int]:
        data, version = self._data, self._version
        replica_id, session_id, session_epoch = -1, 0, -1
        if version < _REPLICA_STATE_FROM:
            (replica_id,) = _INT32.unpack_from(data, position)
            position += 4
        max_wait_ms, min_bytes, max_bytes, isolation_level = _HEAD.unpack_from(data, position)
        position += 13
        if version >= SESSIONS_FROM:
            session_id, session_epoch = _SESSION.unpack_from(data, position)
            position += 8
        return (max_wait_ms, min_bytes, max_bytes, isolation_level, replica_id, session_id, session_epoch), position

    def _read_end(self, position: int, head: _Head, topics: _Topics, forgotten: _Forgotten) -> FetchRequest:
        """What comes after the topics, and with it the whole request."""
        rack = ""
        if self._version >= _RACKS_FROM:
            rack, position = self._read_text(position)
        max_wait_ms, min_bytes, max_bytes, isolation_level, replica_id, session_id, session_epoch = head
        replica_epoch = -1
        if self._is_flexible:
            replica_id, replica_epoch, position = self._read_tags(position, replica_id)
        if position > self._end:
            raise MalformedRequest("a fetch request is truncated")
        return FetchRequest(
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            replica_id,
            session_id,
            session_epoch,
            topics,
            forgotten,
            self._version >= TOPIC_IDS_FROM,
            replica_epoch,
            rack,
        )

    def _read_topic_head(self, position: int) -> tuple[str | UUID, int, int]:
        """A topic, how many partitions it has, and where they begin."""
        topic, position = self._read_topic(position)
        count, position = self._read_count(position)
        return topic, count, position

    def _read_partitions(self, position: int, count: int, partitions: list[FetchPartition]) -> int:
        for _ in range(count):
            partition, position = self._read_partition(position)
            partitions.append(partition)
        return position

    def _read_partition(self, position: int) -> tuple[FetchPartition, int]:
        data, version = self._data, self._version
        if version >= FLEXIBLE_FROM:
            partition = FetchPartition(*_V12.unpack_from(data, position))
            position += _V12.size
            if position < self._end and data[position] == 0:
                return partition, position + 1
            return self._read_own(position, partition)
        if version >= _LEADER_EPOCHS_FROM:
            index, epoch, offset, max_bytes = _V9.unpack_from(data, position)
            return FetchPartition(index, epoch, offset, -1, max_bytes), position + _V9.size
        layout = _V5 if version >= 5 else _V4
        index, offset, max_bytes = layout.unpack_from(data, position)
        return FetchPartition(index, -1, offset, -1, max_bytes), position + layout.size

    def _read_forgotten(self, position: int, forgotten: _Forgotten) -> int:
        topic, count, position = self._read_topic_head(position)
        forgotten.append((topic, list(struct.unpack_from(f">{count}i", self._data, position))))
        return self._skip_tags(position + 4 * count)

    def _read_count(self, position: int) -> tuple[int, int]:
        read = read_compact_count if self._is_flexible else read_count
        count, position = read(self._data, position, self._end, at_most=self._left)
        self._left -= count
        return count, position

    def _read_topic(self, position: int) -> tuple[str | UUID, int]:
        if self._version >= TOPIC_IDS_FROM:
            return UUID(bytes=bytes(piece(self._data, position, position + 16, self._end))), position + 16
        return self._read_text(position)

    def _read_text(self, position: int) -> tuple[str, int]:
        text, position = (read_compact_string if self._is_flexible else read_string)(self._data, position, self._end)
        if text is None:
            raise MalformedRequest("a topic or a rack has no name")
        return text, position

    def _skip_tags(self, position: int) -> int:
        return skip_tagged_fields(self._data, position, self._end) if self._is_flexible else position

    def _read_own(self, position: int, partition: FetchPartition) -> tuple[FetchPartition, int]:
        """A partition with our own tagged fields, if it has any, and where its tagged fields end. Only a follower has
        them, and only a follower's start of the log is of interest.
        """
        fields_end = position
        value, position = self._find_tag(position, FLUSHED_OFFSET_TAG)
        if value is not None:
            partition = partition._replace(
                flushed_offset=_INT64.unpack_from(value)[0],
                log_start_offset=_INT64.unpack_from(self._data, fields_end - _AFTER_LAST_EPOCH)[0],
            )
            if self._data[fields_end] > 1:
                damaged, _ = self._find_tag(fields_end, DAMAGED_OFFSET_TAG)
                if damaged is not None:
                    partition = partition._replace(damaged_offset=_INT64.unpack_from(damaged)[0])
        return partition, position

    def _read_tags(self, position: int, replica_id: int) -> tuple[int, int, int]:
        """The replica id and its broker epoch, if a tagged field has them, and where the tagged fields end."""
        replica_epoch = -1
        value, position = self._find_tag(position, _REPLICA_STATE_TAG)
        if value is not None and self._version >= _REPLICA_STATE_FROM:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(value)
        return replica_id, replica_epoch, position

    def _find_tag(self, position: int, wanted: int) -> tuple[memoryview | None, int]:
        """The value of a tagged field, if present, and where the tagged fields end."""
        data, end = self._data, self._end
        found: memoryview | None = None
        count, position = read_uvarint(data, position, end)
        if count > MAX_TAGGED_FIELDS:
            raise MalformedRequest(f"{count} tagged fields; the maximum is {MAX_TAGGED_FIELDS}")
        for _ in range(count):
            tag, position = read_uvarint(data, position, end)
            size, position = read_uvarint(data, position, end)
            value = piece(data, position, position + size, end)
            if tag == wanted:
                found = value
            position += size
        return found, position
