"""Batches that a leader is about to append: what is asked of each by itself, and the time of the log."""

from barnabas.core.errors import CorruptRecord, InvalidRecord, RecordTooLarge
from barnabas.core.model import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from barnabas.core.records.batch import (
    HEADER_SIZE,
    HIGHEST_PLAIN_ATTRIBUTES,
    BatchHeader,
    Codec,
    stamp_log_append_time,
)
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
    """Put the log's time on a batch; markers keep their own."""
    if header.is_control:
        return NO_TIMESTAMP
    stamp_log_append_time(data, position, header, now_ms)
    return now_ms
