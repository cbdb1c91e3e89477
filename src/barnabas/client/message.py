"""What is read and where it was written: values, made once per record, so they are small."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import confluent_kafka

from barnabas.core.records.batch import TimestampType
from barnabas.core.records.record import Header

HeadersLike: TypeAlias = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]

_LOG_APPEND_TIME: Final = confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
_BY_PRODUCER, _BY_LOG = TimestampType  # looked up once, as records are many


@dataclass(frozen=True, slots=True)
class Message:
    """One record as it was read. Topic, partition and offset are its id."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Where a record was written; `offset` is -1 under at-most-once, where no broker says."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


def from_kafka(message: Any) -> Message:
    """librdkafka's message as ours; it must not be an error."""
    timestamp_type, timestamp_ms = message.timestamp()
    headers = message.headers()
    return Message(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp_ms,
        _BY_LOG if timestamp_type == _LOG_APPEND_TIME else _BY_PRODUCER,
        message.key(),
        message.value(),
        tuple(headers) if headers else (),
    )


def header_list(headers: HeadersLike | None) -> list[tuple[str, bytes | str | None]] | None:
    """Headers as librdkafka takes them: in order, a name may come more than once."""
    if not headers:
        return None
    return list(headers.items()) if isinstance(headers, Mapping) else list(headers)
