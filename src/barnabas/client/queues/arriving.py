"""The answer to a fetch as records: those that the member acquired, and offsets without a record, which are gaps."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from barnabas.client.message import Message
from barnabas.core.records.batch import TimestampType, iter_whole_batches
from barnabas.core.records.record import decode_batch


class Acquired(NamedTuple):
    """One acquired offset; it has no message where there is no record."""

    offset: int
    delivery_count: int
    message: Message | None


def acquired_records(topic: str, partition: Any) -> Iterator[Acquired]:
    """What a partition of the answer brought, by offset; raises `CorruptRecord` before the first if one is damaged."""
    counts = {
        offset: int(each.delivery_count)
        for each in partition.acquired_records
        for offset in range(int(each.first_offset), int(each.last_offset) + 1)
    }
    messages = {
        message.offset: message
        for message in _messages(topic, int(partition.partition_index), bytes(partition.records or b""))
        if message.offset in counts
    }
    for offset, count in counts.items():
        yield Acquired(offset, count, messages.get(offset))


def acquired_offsets(partition: Any) -> list[int]:
    """The offsets alone, of records that cannot be read."""
    ranges = partition.acquired_records
    return [offset for each in ranges for offset in range(int(each.first_offset), int(each.last_offset) + 1)]


def _messages(topic: str, partition: int, data: bytes) -> Iterator[Message]:
    for position, header in iter_whole_batches(data):
        if header.is_control:
            continue
        kind = TimestampType(header.timestamp_type)
        for record in decode_batch(data, position):
            # The log's own time is in the header alone.
            stamp = header.max_timestamp if kind is TimestampType.LOG_APPEND_TIME else record.timestamp
            yield Message(topic, partition, record.offset, stamp, kind, record.key, record.value, record.headers)
