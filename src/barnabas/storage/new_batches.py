"""Batches that are about to be appended: the checks of a leader and the log's time for them; and the checks of a
follower.
"""

from collections.abc import Sequence

from barnabas.core.errors import CorruptRecord, FencedLeaderEpoch, InvalidRecord, OffsetOutOfRange, RecordTooLarge
from barnabas.core.model import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from barnabas.core.records.batch import (
    HEADER_SIZE,
    HIGHEST_PLAIN_ATTRIBUTES,
    BatchHeader,
    Codec,
    check_batch,
    stamp_log_append_time,
)
from barnabas.core.records.control import read_marker
from barnabas.core.records.record import check_counts
from barnabas.storage.config import LogConfig


def check_new(header: BatchHeader, partition: TopicPartition, config: LogConfig) -> None:
    """Refuse a batch that is too large, or whose header contradicts itself."""
    # A marker is the broker's own: a transaction must end, however small the limit was made meanwhile.
    if header.size > config.max_message_bytes and not header.is_control:
        raise RecordTooLarge(
            f"a batch of {header.size} bytes is over max.message.bytes={config.max_message_bytes} of {partition}"
        )
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"a batch of {header.record_count} records ends with offset delta {header.last_offset_delta}"
        )
    if header.codec is Codec.NONE:
        try:
            check_counts(header, header.size - HEADER_SIZE)  # or a few bytes could use up billions of offsets
        except CorruptRecord as error:
            raise InvalidRecord(str(error)) from error
    if header.producer_id == NO_PRODUCER_ID and header.attributes > HIGHEST_PLAIN_ATTRIBUTES:
        raise InvalidRecord("a transactional or control batch needs the producer whose transaction it is part of")


def stamp(data: bytearray | memoryview, position: int, header: BatchHeader, now_ms: int) -> int:
    """Set the log's time in a batch; markers keep their own."""
    if header.is_control:
        return NO_TIMESTAMP
    stamp_log_append_time(data, position, header, now_ms)
    return now_ms


def check_followed(
    data: bytearray | memoryview,
    batches: Sequence[tuple[int, BatchHeader]],
    partition: TopicPartition,
    *,
    end_offset: int,
    latest_epoch: int,
) -> list[tuple[int, int, int]]:
    """Refuse batches of a leader that do not follow what a log has; returns their places, as `Segment` takes them."""
    offset = end_offset
    placed = []
    for position, header in batches:
        check_batch(data, position, header)
        if header.is_control and header.has_producer:
            read_marker(data, position, header)  # refused now, not when it is written
        if header.base_offset < offset:
            raise OffsetOutOfRange(f"{partition} ends at {offset}; the leader sent a batch at {header.base_offset}")
        if header.leader_epoch < latest_epoch:
            raise FencedLeaderEpoch(
                f"the leader sent a batch of epoch {header.leader_epoch} after one of {latest_epoch}"
            )
        latest_epoch = header.leader_epoch
        placed.append((position, header.last_offset, header.max_timestamp))
        offset = header.next_offset
    if not placed:
        raise CorruptRecord("no batch to append")
    return placed
