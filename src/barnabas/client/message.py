"""A record that was read, and where one was written: values, made once per record, so they are small."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Final, TypeAlias

import confluent_kafka

from barnabas.client.settings import Settings
from barnabas.core.records.batch import TimestampType
from barnabas.core.records.record import Header

HeadersLike: TypeAlias = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]

_LOG_APPEND_TIME: Final = confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
headers_of: Final = methodcaller("headers")
"""The headers of librdkafka's message. One whose name is not UTF-8 is a `SystemError`, but only if the result of the
call is checked, which the interpreter leaves out once it knows ``message.headers()`` well: what comes then is broken.
"""
_BY_PRODUCER, _BY_LOG = TimestampType  # looked up once, as records are many


@dataclass(frozen=True, slots=True)
class Message:
    """One record as it was read. Topic, partition and offset identify it."""

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
    """Where a record was written; `offset` is -1 under at-most-once, since no broker answers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


def from_kafka(message: Any, settings: Settings) -> Message:
    """librdkafka's message as ours; it must not be an error."""
    timestamp_type, timestamp_ms = message.timestamp()
    try:
        headers = headers_of(message)
    except (SystemError, UnicodeDecodeError):  # a name is not UTF-8
        from barnabas.client.odd_headers import read_headers  # noqa: PLC0415 - hardly anybody needs it

        headers = read_headers(message, settings)
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
