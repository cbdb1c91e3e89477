"""The settings of one topic as values, with their defaults. `resolution` determines them for a topic."""

from enum import Enum
from typing import Final

import msgspec

from barnabas.core.records.batch import TimestampType
from barnabas.services.settings.catalogue.setting import value_text
from barnabas.storage.config import FOREVER, LogConfig


class DeliverySemantics(Enum):
    """The delivery guarantee that the producers of a topic must use."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class RecordValidation(Enum):
    """How thoroughly the records of a produced batch are checked before they are accepted."""

    FULL = "full"
    AUTO = "auto"
    NONE = "none"


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one topic, all of them resolved."""

    log: LogConfig = LogConfig()
    """The settings of each partition's log."""
    min_insync_replicas: int = 1
    compression_type: str = "producer"
    """producer, uncompressed, gzip, snappy, lz4 or zstd."""
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    timestamp_before_max_ms: int = FOREVER
    timestamp_after_max_ms: int = 60 * 60 * 1000
    delivery_semantics: DeliverySemantics | None = None
    record_validation: RecordValidation = RecordValidation.AUTO
    unclean_leader_election: bool = False
    takes_dead_letters: bool = False
    leader_throttled_replicas: tuple[str, ...] = ()
    """`*`, or partition:broker: replicas that are led there, and copied from there at a limited rate."""
    follower_throttled_replicas: tuple[str, ...] = ()
    """The same for replicas that are copied to there."""


def opens_batches(config: TopicConfig) -> bool:
    """Whether a batch must be decoded before it is appended: for its keys, its codec or its age."""
    keeps_times = config.log.timestamp_type is TimestampType.CREATE_TIME
    return (
        config.log.is_compacted
        or config.compression_type != "producer"
        or (keeps_times and config.timestamp_before_max_ms != FOREVER)
    )


FIELDS: Final = {
    "min.insync.replicas": "min_insync_replicas",
    "compression.type": "compression_type",
    "compression.gzip.level": "compression_gzip_level",
    "compression.lz4.level": "compression_lz4_level",
    "compression.zstd.level": "compression_zstd_level",
    "delivery.semantics": "delivery_semantics",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "record.validation": "record_validation",
    "unclean.leader.election.enable": "unclean_leader_election",
    "errors.deadletterqueue.group.enable": "takes_dead_letters",
    "leader.replication.throttled.replicas": "leader_throttled_replicas",
    "follower.replication.throttled.replicas": "follower_throttled_replicas",
}
"""The fields of `TopicConfig` by the names of their settings."""
LOG_NAMES: Final = frozenset(LogConfig.names())
"""The names of the settings that are fields of `LogConfig`."""

_DEFAULTS: Final = TopicConfig()


def default_text(name: str) -> str | None:
    """The default of a setting that is a field here, as Kafka writes it."""
    value = getattr(_DEFAULTS.log, name.replace(".", "_")) if name in LOG_NAMES else getattr(_DEFAULTS, FIELDS[name])
    if isinstance(value, tuple):
        value = tuple(part.value for part in value)
    return value_text(value.value if isinstance(value, Enum) else value)
