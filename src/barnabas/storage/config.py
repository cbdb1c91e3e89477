"""What may be set for a log, under Kafka's names, with Kafka's defaults except where a promise asks for more.

The one default that differs: `flush.policy` is ``fsync``, so that an acknowledged write is on disk. ``os`` leaves
flushing to the operating system, as Kafka does.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

from barnabas.core.errors import InvalidConfig
from barnabas.core.records.batch import TimestampType

DAY_MS: Final = 24 * 60 * 60 * 1000
FOREVER: Final = 2**63 - 1


class CleanupPolicy(Enum):
    """What becomes of old data: deleted by age and size, compacted by key, or both."""

    DELETE = "delete"
    COMPACT = "compact"


class FlushPolicy(Enum):
    """When an append counts as durable."""

    FSYNC = "fsync"
    OS = "os"


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one log. A field's Kafka name has dots for underscores."""

    segment_bytes: int = 1024**3
    """A segment is closed before it grows beyond this."""
    segment_ms: int = 7 * DAY_MS
    """A segment is closed when a record arrives that is this much later than its first one."""
    index_interval_bytes: int = 4096
    """Bytes of log between two entries of an index."""
    max_message_bytes: int = 1024 * 1024 + 12
    """The largest batch taken, as compressed."""
    message_timestamp_type: str = "CreateTime"
    """CreateTime keeps the producer's timestamps; LogAppendTime puts the broker's in their place."""
    cleanup_policy: tuple[CleanupPolicy, ...] = (CleanupPolicy.DELETE,)
    """delete, compact, or both; none keeps everything."""
    retention_ms: int = 7 * DAY_MS
    """Segments whose newest record is older than this are deleted; -1 keeps them."""
    retention_bytes: int = -1
    """The oldest segments are deleted while the log is larger than this by a whole segment; -1: no limit."""
    delete_retention_ms: int = DAY_MS
    """How long a compacted log keeps a tombstone after it took effect."""
    min_cleanable_dirty_ratio: float = 0.5
    """Compaction starts when at least this part of the log's bytes has not been compacted."""
    min_compaction_lag_ms: int = 0
    """Records younger than this are not compacted."""
    max_compaction_lag_ms: int = FOREVER
    """A record older than this makes the log due for compaction whatever the ratio."""
    flush_policy: FlushPolicy = FlushPolicy.FSYNC
    """fsync: acknowledged means on disk. os: the operating system decides when."""
    flush_messages: int = FOREVER
    """With flush.policy=os: sync after this many records all the same."""
    flush_ms: int = FOREVER
    """With flush.policy=os: sync when a record has waited this long."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def timestamp_type(self) -> TimestampType:
        is_log_append = self.message_timestamp_type == "LogAppendTime"
        return TimestampType.LOG_APPEND_TIME if is_log_append else TimestampType.CREATE_TIME

    @property
    def is_compacted(self) -> bool:
        return CleanupPolicy.COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        return CleanupPolicy.DELETE in self.cleanup_policy

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "LogConfig":
        """The configuration that these Kafka names and texts say; an unknown or bad one is refused."""
        types = get_type_hints(cls)
        values: dict[str, Any] = {}
        for name, text in properties.items():
            field = name.replace(".", "_")
            if field not in types or "_" in name:
                raise InvalidConfig(f"unknown setting {name!r}; known: {', '.join(cls.names())}")
            values[field] = _parse(name, text.strip(), types[field])
        return cls(**values)

    @classmethod
    def names(cls) -> list[str]:
        """The Kafka names of all settings."""
        return [field.replace("_", ".") for field in cls.__struct_fields__]


_SMALLEST: Final = {
    "segment_bytes": 1024,
    "segment_ms": 1,
    "index_interval_bytes": 0,
    "max_message_bytes": 0,
    "retention_ms": -1,
    "retention_bytes": -1,
    "delete_retention_ms": 0,
    "min_compaction_lag_ms": 0,
    "max_compaction_lag_ms": 1,
    "flush_messages": 1,
    "flush_ms": 0,
}


def _check(config: LogConfig) -> None:
    for field, smallest in _SMALLEST.items():
        if getattr(config, field) < smallest:
            raise InvalidConfig(f"{field.replace('_', '.')} must be at least {smallest}")
    if config.segment_bytes >= 2**31:
        raise InvalidConfig("segment.bytes must be below 2 GiB: positions in an index have 32 bits")
    if not 0 <= config.min_cleanable_dirty_ratio <= 1:
        raise InvalidConfig("min.cleanable.dirty.ratio must lie between 0 and 1")
    if config.max_compaction_lag_ms < config.min_compaction_lag_ms:
        raise InvalidConfig("max.compaction.lag.ms must not be below min.compaction.lag.ms")
    if config.message_timestamp_type not in ("CreateTime", "LogAppendTime"):
        raise InvalidConfig("message.timestamp.type must be CreateTime or LogAppendTime")


def _parse_policies(name: str, text: str, policy: type[Enum]) -> tuple[Enum, ...]:
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(parts):
        raise InvalidConfig(f"{name} must be delete, compact or both, or empty to keep everything")
    return tuple(policy(part) for part in parts)


def _parse(name: str, text: str, wanted: object) -> object:
    try:
        if get_origin(wanted) is tuple:
            return _parse_policies(name, text, get_args(wanted)[0])
        if isinstance(wanted, type) and issubclass(wanted, Enum):
            return wanted(text)
        return wanted(text) if callable(wanted) else text
    except ValueError:
        raise InvalidConfig(f"{name} cannot be {text!r}") from None
