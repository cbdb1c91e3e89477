"""Produce, by hand: the request's batches stay views of the frame they came in, to be patched and written from there.

Served: versions 3 to 13. From 9 on flexible, from 13 on topics are named by their ids.
"""

import struct
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from barnabas.core.produced import PartitionData, ProduceRequest, Single, TopicData
from barnabas.core.records.batch import Buffer
from barnabas.wire.endpoints import NodeEndpoint, write_endpoints
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.fields import piece, read_compact_count, read_compact_string, read_count, read_string
from barnabas.wire.frame import LENGTH_SIZE, cut_string, read_uvarint, skip_tagged_fields, write_uvarint

FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
MAX_PARTITIONS: Final = 10_000  # of one request; what refuses or takes each costs more than its bytes
_PER_STEP: Final = 256
_LOG_START_FROM: Final = 5
_ERROR_MESSAGES_FROM: Final = 8
CURRENT_LEADERS_FROM: Final = 10

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ACKS: Final = struct.Struct(">hi")
_PLACED: Final = struct.Struct(">ihqq")
_PLACED_START: Final = struct.Struct(">ihqqq")


class PartitionAnswer(NamedTuple):
    """The answer for one partition."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()  # index in the batch, and what is wrong with it
    current_leader: tuple[int, int] | None = None  # leader and epoch, when it is another node


class TopicAnswer(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: list[PartitionAnswer]


_OLD_HEAD: Final = struct.Struct(">hhiih")  # transactional id, acks, timeout, count of topics, length of the name
_OLD_PARTITION: Final = struct.Struct(">iii")  # count of partitions, index, size
_HEAD: Final = struct.Struct(">BhiBB")  # as above, in compact form
_ID_HEAD: Final = struct.Struct(">BhiB")


def read_single(data: memoryview, position: int, end: int, version: int) -> Single | None:
    """The request, if it is one batch outside any transaction; None if it must be read as any other."""
    try:
        if version >= FLEXIBLE_FROM:
            return _read_flexible_single(data, position, end, version)
        transactional, acks, timeout_ms, topics, name_size = _OLD_HEAD.unpack_from(data, position)
        if transactional != -1 or topics != 1 or name_size < 0:
            return None
        position += 14
        name_end = position + name_size
        partitions, partition, size = _OLD_PARTITION.unpack_from(data, name_end)
        if partitions != 1 or size < 0 or name_end + 12 + size != end:
            return None
        name = str(data[position:name_end], "utf-8")
        return acks, timeout_ms, name, None, partition, data[name_end + 12 : end]
    except (struct.error, IndexError, ValueError):  # of a text or an id that is none, too
        return None


def _read_flexible_single(data: memoryview, position: int, end: int, version: int) -> Single | None:
    name, topic_id = None, None
    if version >= TOPIC_IDS_FROM:
        transactional, acks, timeout_ms, topics = _ID_HEAD.unpack_from(data, position)
        name_end = position + 24
        topic_id = UUID(bytes=bytes(data[position + 8 : name_end]))
    else:
        transactional, acks, timeout_ms, topics, name_size = _HEAD.unpack_from(data, position)
        name_end = position + 8 + name_size
        if not 0 < name_size < 0x80:
            return None
        name = str(data[position + 9 : name_end], "utf-8")
    if transactional != 0 or topics != 2 or data[name_end] != 2:
        return None
    (partition,) = _INT32.unpack_from(data, name_end + 1)
    size, start = read_uvarint(data, name_end + 5, end)
    stop = start + size - 1
    if not size or stop + 3 != end or data[stop:end] != _NO_TAGS:
        return None
    return acks, timeout_ms, name, topic_id, partition, data[start:stop]


_NO_TAGS: Final = bytes(3)  # of the partition, the topic and the request


class ManyPartitions(Exception):
    """A request has more partitions than are read at once."""


def read_produce(
    data: Buffer, position: int, end: int, version: int, *, max_at_once: int = MAX_PARTITIONS
) -> ProduceRequest:
    """The request whose body is at `position`; its records are views into `data`.

    Raises `ManyPartitions` if it has more than `max_at_once`: then use `read_produce_in_steps`.
    """
    steps = read_produce_in_steps(data, position, end, version, max_at_once=max_at_once)
    while True:
        try:
            next(steps)
        except StopIteration as whole:
            request: ProduceRequest = whole.value
            return request


def read_produce_in_steps(
    data: Buffer, position: int, end: int, version: int, *, max_at_once: int = MAX_PARTITIONS
) -> Generator[None, None, ProduceRequest]:
    """As `read_produce`, some topics in each step."""
    is_flexible = version >= FLEXIBLE_FROM
    text, counted, read_topic, read_partitions = _FLEXIBLE_READERS if is_flexible else _OLD_READERS
    data = memoryview(data)
    try:
        transactional_id, position = text(data, position, end)
        acks, timeout_ms = _ACKS.unpack_from(data, position)
        count, position = counted(data, position + 6, end, at_most=MAX_PARTITIONS)
        topics: list[TopicData] = []
        left = MAX_PARTITIONS
        for _ in range(count):
            if topics and not len(topics) % _PER_STEP:
                yield
            topic, position, partition_count = read_topic(data, position, end, version, at_most=left)
            left -= partition_count
            if MAX_PARTITIONS - left > max_at_once or len(topics) >= max_at_once:
                raise ManyPartitions
            position = yield from read_partitions(data, position, end, topic.partitions, partition_count)
            topics.append(topic)
        _check_end(skip_tagged_fields(data, position, end) if is_flexible else position, end)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise MalformedRequest("a produce request is truncated") from None
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_old_topic(
    data: memoryview,
    position: int,
    end: int,
    version: int,  # noqa: ARG001 - as the other
    *,
    at_most: int,
) -> tuple[TopicData, int, int]:
    """A topic without its partitions, where they begin, and how many they are."""
    name, position = read_string(data, position, end)
    if name is None:
        raise MalformedRequest("a topic has no name")
    partition_count, position = read_count(data, position, end, at_most=at_most)
    return TopicData(name, None, []), position, partition_count


def _read_flexible_topic(
    data: memoryview, position: int, end: int, version: int, *, at_most: int
) -> tuple[TopicData, int, int]:
    """As `_read_old_topic`."""
    name, topic_id = None, None
    if version >= TOPIC_IDS_FROM:
        topic_id = UUID(bytes=bytes(piece(data, position, position + 16, end)))
        position += 16
    else:
        name, position = read_compact_string(data, position, end)
        if name is None:
            raise MalformedRequest("a topic has no name")
    partition_count, position = read_compact_count(data, position, end, at_most=at_most)
    return TopicData(name, topic_id, []), position, partition_count


def _read_old_partitions(
    data: memoryview, position: int, end: int, partitions: list[PartitionData], count: int
) -> Generator[None, None, int]:
    """Read the partitions of a topic; returns where it ends."""
    for _ in range(count):
        if partitions and not len(partitions) % _PER_STEP:
            yield
        (index,) = _INT32.unpack_from(data, position)
        (size,) = _INT32.unpack_from(data, position + 4)
        position += 8
        records = None
        if size >= 0:
            records = piece(data, position, position + size, end)
            position += size
        partitions.append(PartitionData(index, records))
    return position


def _read_flexible_partitions(
    data: memoryview, position: int, end: int, partitions: list[PartitionData], count: int
) -> Generator[None, None, int]:
    """As `_read_old_partitions`."""
    for _ in range(count):
        if partitions and not len(partitions) % _PER_STEP:
            yield
        (index,) = _INT32.unpack_from(data, position)
        size, position = read_uvarint(data, position + 4, end)
        records = None
        if size:
            records = piece(data, position, position + size - 1, end)
            position += size - 1
        position = skip_tagged_fields(data, position, end)
        partitions.append(PartitionData(index, records))
    return skip_tagged_fields(data, position, end)


_FLEXIBLE_READERS: Final = (
    read_compact_string,
    read_compact_count,
    _read_flexible_topic,
    _read_flexible_partitions,
)
_OLD_READERS: Final = (read_string, read_count, _read_old_topic, _read_old_partitions)


def _check_end(position: int, end: int) -> None:
    if position > end:
        raise MalformedRequest("a produce request is truncated")


def write_produce(
    version: int, topics: list[TopicAnswer], *, throttle_ms: int = 0, endpoints: Sequence[NodeEndpoint] = ()
) -> bytes:
    """The body of the answer. `endpoints` are those of the leaders that partitions name."""
    steps = write_produce_in_steps(version, topics, throttle_ms=throttle_ms, endpoints=endpoints)
    while True:
        try:
            next(steps)
        except StopIteration as whole:
            body: bytes = whole.value
            return body


def write_produce_in_steps(
    version: int, topics: list[TopicAnswer], *, throttle_ms: int = 0, endpoints: Sequence[NodeEndpoint] = ()
) -> Generator[None, None, bytes]:
    """As `write_produce`, some topics and partitions in each step."""
    is_flexible = version >= FLEXIBLE_FROM
    out = bytearray(_count(len(topics), is_flexible=is_flexible))
    left = _PER_STEP
    for name, topic_id, partitions in topics:
        if version >= TOPIC_IDS_FROM:
            assert topic_id is not None
            out += topic_id.bytes
        else:
            assert name is not None
            out += _string(name, is_flexible=is_flexible)
        out += _count(len(partitions), is_flexible=is_flexible)
        for answer in partitions:
            if not left:
                yield
                left = _PER_STEP
            left -= 1
            _write_partition(out, version, answer)
        if is_flexible:
            out += b"\x00"
    out += _INT32.pack(throttle_ms)
    if is_flexible:
        out += write_endpoints(endpoints) if version >= CURRENT_LEADERS_FROM else b"\x00"
    return bytes(out)


def write_single(
    version: int,
    correlation_id: int,
    name: str | None,
    topic_id: UUID | None,
    partition: int,
    placed: tuple[int, int, int],
) -> bytes:
    """The whole frame of an answer, for one partition that accepted its records: base offset, log append time, log
    start offset.

    The answer to most requests: what `answer_head` and `write_produce` write, in one go.
    """
    pack, size, before, after = _single_frame(version, name, topic_id)
    base_offset, log_append_time, log_start_offset = placed
    return pack(size, correlation_id, before, partition, 0, base_offset, log_append_time, log_start_offset, after)


@lru_cache(maxsize=1024)
def _single_frame(
    version: int, name: str | None, topic_id: UUID | None
) -> tuple[Callable[..., bytes], int, bytes, bytes]:
    """What is the same in every such answer for a topic: how it is packed, its length, and the bytes before the place
    and after it.
    """
    marker = PartitionAnswer(-1, -1, -1, -1, -1)
    whole = write_produce(version, [TopicAnswer(name, topic_id, [marker])])
    is_flexible = version >= FLEXIBLE_FROM
    name_size = 16 if version >= TOPIC_IDS_FROM else len(_string(name, is_flexible=is_flexible))
    start = name_size + 2 * len(_count(1, is_flexible=is_flexible))
    has_start = version >= _LOG_START_FROM
    placed = _PLACED_START if has_start else _PLACED
    before, after = whole[:start], whole[start + placed.size :]
    if is_flexible:
        before = b"\x00" + before  # no tagged fields in the header
    frame = struct.Struct(f">ii{len(before)}s{placed.format[1:]}{len(after)}s")
    size = frame.size - LENGTH_SIZE
    return frame.pack if has_start else partial(_pack_without_start, frame), size, before, after


def _pack_without_start(frame: struct.Struct, *values: Any) -> bytes:
    return frame.pack(*values[:7], values[8])


def _write_partition(out: bytearray, version: int, answer: PartitionAnswer) -> None:
    if version < _LOG_START_FROM:
        out += _PLACED.pack(*answer[:4])
        return
    out += _PLACED_START.pack(*answer[:5])
    if version < _ERROR_MESSAGES_FROM:
        return
    is_flexible = version >= FLEXIBLE_FROM
    out += _count(len(answer.record_errors), is_flexible=is_flexible)
    for index, message in answer.record_errors:
        out += _INT32.pack(index) + _string(message, is_flexible=is_flexible)
        if is_flexible:
            out += b"\x00"
    out += _string(answer.error_message, is_flexible=is_flexible)
    if version >= CURRENT_LEADERS_FROM and answer.current_leader is not None:
        out += b"\x01\x00\x09" + struct.pack(">iib", *answer.current_leader, 0)
    elif is_flexible:
        out += b"\x00"


def _count(count: int, *, is_flexible: bool) -> bytes:
    return write_uvarint(count + 1) if is_flexible else _INT32.pack(count)


def _string(text: str | None, *, is_flexible: bool) -> bytes:
    if text is None:
        return b"\x00" if is_flexible else b"\xff\xff"
    if is_flexible:
        data = text.encode()
        return write_uvarint(len(data) + 1) + data
    data = cut_string(text)
    return _INT16.pack(len(data)) + data
