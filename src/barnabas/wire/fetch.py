"""The answer to Fetch, by hand: records are sent from the buffers they were read into.

Served: versions 4 to 18. From 7 on sessions, from 12 on flexible, from 13 on topics are named by their ids.
The request is in `fetch_request`.
"""

import struct
from collections.abc import Generator, Sequence, Sized
from typing import Any, Final, NamedTuple
from uuid import UUID

from barnabas.wire.endpoints import NodeEndpoint, write_endpoints
from barnabas.wire.frame import write_uvarint

PARTITIONS_PER_STEP: Final = 100  # of which each takes some microseconds
FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
SESSIONS_FROM: Final = 7
_LOG_START_FROM: Final = 5
_PREFERRED_FROM: Final = 11
CURRENT_LEADERS_FROM: Final = 16

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">ihi")
_PARTITION: Final = struct.Struct(">ihqq")
_PARTITION_START: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_DIVERGING: Final = struct.Struct(">iqb")
_LEADER: Final = struct.Struct(">iib")


class FetchedPartition(NamedTuple):
    """The answer for one partition."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[tuple[int, int], ...] | None = None  # producer id and first offset of each
    preferred_read_replica: int = -1
    records: Sized | None = b""  # bytes, or something that stands for them
    diverging_epoch: tuple[int, int] | None = None  # an epoch and where it ends
    current_leader: tuple[int, int] | None = None  # leader and epoch


class FetchedTopic(NamedTuple):
    name: str | None
    topic_id: UUID | None
    partitions: list[FetchedPartition]


def write_fetch(
    version: int,
    topics: list[FetchedTopic],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Any]:
    """The body of the answer, as pieces to be written one after another: bytes, and records as they were given.

    `endpoints` are those of the leaders that partitions name.
    """
    out = _begin(version, len(topics), error_code=error_code, session_id=session_id, throttle_ms=throttle_ms)
    pieces: list[Any] = []
    for topic in topics:
        _begin_topic(out, topic, version)
        out = _write_partitions(out, topic.partitions, version, pieces)
        if version >= FLEXIBLE_FROM:
            out += b"\x00"
    if version >= FLEXIBLE_FROM:
        out += write_endpoints(endpoints) if version >= CURRENT_LEADERS_FROM else b"\x00"
    pieces.append(out)
    return pieces


def write_fetch_in_steps(
    version: int,
    topics: list[FetchedTopic],
    *,
    session_id: int = 0,
    throttle_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> Generator[None, None, list[Any]]:
    """The same for a long answer."""
    out = _begin(version, len(topics), error_code=0, session_id=session_id, throttle_ms=throttle_ms)
    pieces: list[Any] = []
    left = PARTITIONS_PER_STEP
    for topic in topics:
        _begin_topic(out, topic, version)
        done, count = 0, len(topic.partitions)
        while done < count:
            stop = min(count, done + left)
            out = _write_partitions(out, topic.partitions[done:stop], version, pieces)
            left -= stop - done
            done = stop
            if left <= 0:
                yield
                left = PARTITIONS_PER_STEP
        if version >= FLEXIBLE_FROM:
            out += b"\x00"
        left -= 1
        if left <= 0:
            yield
            left = PARTITIONS_PER_STEP
    if version >= FLEXIBLE_FROM:
        out += write_endpoints(endpoints) if version >= CURRENT_LEADERS_FROM else b"\x00"
    pieces.append(out)
    return pieces


def _begin(version: int, topic_count: int, *, error_code: int, session_id: int, throttle_ms: int) -> bytearray:
    head = _HEAD.pack(throttle_ms, error_code, session_id) if version >= SESSIONS_FROM else _INT32.pack(throttle_ms)
    out = bytearray(head)
    out += write_uvarint(topic_count + 1) if version >= FLEXIBLE_FROM else _INT32.pack(topic_count)
    return out


def _begin_topic(out: bytearray, topic: FetchedTopic, version: int) -> None:
    _write_topic_name(out, topic, version)
    count = len(topic.partitions)
    out += write_uvarint(count + 1) if version >= FLEXIBLE_FROM else _INT32.pack(count)


def _write_partitions(
    out: bytearray, partitions: Sequence[FetchedPartition], version: int, pieces: list[Any]
) -> bytearray:
    """Write partitions to `out`, and to `pieces` what ends with records; returns the buffer for what follows."""
    is_flexible = version >= FLEXIBLE_FROM
    for partition in partitions:
        _write_partition(out, partition, version)
        if partition.records:
            pieces += (out, partition.records)
            out = bytearray()
        if is_flexible:
            out += _tags(partition)
    return out


def _write_topic_name(out: bytearray, topic: FetchedTopic, version: int) -> None:
    if version >= TOPIC_IDS_FROM:
        assert topic.topic_id is not None
        out += topic.topic_id.bytes
        return
    assert topic.name is not None
    name = topic.name.encode()
    out += write_uvarint(len(name) + 1) if version >= FLEXIBLE_FROM else _INT16.pack(len(name))
    out += name


def _write_partition(out: bytearray, partition: FetchedPartition, version: int) -> None:
    """Everything up to the records' own bytes."""
    if version >= _LOG_START_FROM:
        out += _PARTITION_START.pack(*partition[:5])
    else:
        out += _PARTITION.pack(*partition[:4])
    is_flexible = version >= FLEXIBLE_FROM
    if partition.aborted is None:
        out += b"\x00" if is_flexible else b"\xff\xff\xff\xff"
    else:
        count = len(partition.aborted)
        out += write_uvarint(count + 1) if is_flexible else _INT32.pack(count)
        for each in partition.aborted:
            out += _ABORTED.pack(*each)
            if is_flexible:
                out += b"\x00"
    if version >= _PREFERRED_FROM:
        out += _INT32.pack(partition.preferred_read_replica)
    size = -1 if partition.records is None else len(partition.records)
    out += write_uvarint(size + 1) if is_flexible else _INT32.pack(size)


def _tags(partition: FetchedPartition) -> bytes:
    if partition.diverging_epoch is None and partition.current_leader is None:
        return b"\x00"
    tags = []
    if partition.diverging_epoch is not None:
        tags.append(b"\x00\x0d" + _DIVERGING.pack(*partition.diverging_epoch, 0))
    if partition.current_leader is not None:
        tags.append(b"\x01\x09" + _LEADER.pack(*partition.current_leader, 0))
    return bytes([len(tags)]) + b"".join(tags)
