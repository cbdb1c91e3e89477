"""What a topic's settings come to: its overrides over the broker's defaults over those of the catalogue."""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from barnabas.core.errors import InvalidConfig
from barnabas.core.records.batch import TimestampType
from barnabas.services.broker_config import BrokerConfig
from barnabas.services.catalogue.setting import Setting, unknown_setting
from barnabas.services.catalogue.topic_settings import TOPIC_SETTINGS
from barnabas.storage.config import FOREVER, LogConfig


class DeliverySemantics(Enum):
    """What the producers of a topic are held to."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class RecordValidation(Enum):
    """How closely the records of a produced batch are looked at before they are taken."""

    FULL = "full"
    AUTO = "auto"
    NONE = "none"


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one topic, all of them decided."""

    log: LogConfig = LogConfig()
    """What each partition's log reads."""
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


def opens_batches(config: TopicConfig) -> bool:
    """Whether a batch must be looked into before the topic takes it: for its keys, its codec or its age."""
    keeps_times = config.log.timestamp_type is TimestampType.CREATE_TIME
    return (
        config.log.is_compacted
        or config.compression_type != "producer"
        or (keeps_times and config.timestamp_before_max_ms != FOREVER)
    )


_FIELDS: Final = {
    "min.insync.replicas": "min_insync_replicas",
    "compression.type": "compression_type",
    "compression.gzip.level": "compression_gzip_level",
    "compression.lz4.level": "compression_lz4_level",
    "compression.zstd.level": "compression_zstd_level",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "unclean.leader.election.enable": "unclean_leader_election",
}
_LOG_NAMES: Final = frozenset(LogConfig.names())


def resolve_topic(overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
    """The settings of a topic with these overrides; an unknown name or a bad value is refused."""
    for name, text in overrides.items():
        topic_setting(name).parse(text)
    texts = {**broker.topic_defaults, **overrides}
    fields: dict[str, Any] = {
        field: TOPIC_SETTINGS[name].parse(texts[name]) for name, field in _FIELDS.items() if name in texts
    }
    semantics = texts.get("delivery.semantics")
    return TopicConfig(
        log=_log_config(texts),
        delivery_semantics=None if semantics is None else DeliverySemantics(semantics.strip()),
        record_validation=RecordValidation(texts.get("record.validation", RecordValidation.AUTO.value).strip()),
        **fields,
    )


def check_topic_settings(overrides: Mapping[str, str | None], broker: BrokerConfig | None = None) -> dict[str, str]:
    """The overrides, if a topic may have them beside this broker's defaults; they are refused otherwise.

    Null is refused as a value, as in Kafka: to leave a setting to the broker is not to name it.
    """
    nulls = sorted(name for name, text in overrides.items() if text is None)
    if nulls:
        raise InvalidConfig(
            f"topic settings cannot be null: {', '.join(nulls)}; leave out what the broker shall decide"
        )
    texts = {name: text for name, text in overrides.items() if text is not None}
    resolve_topic(texts, broker if broker is not None else _PLAIN_BROKER)
    return texts


_PLAIN_BROKER: Final = BrokerConfig()


def topic_setting(name: str) -> Setting:
    """The topic setting of this name; an unknown one is refused."""
    if name not in TOPIC_SETTINGS:
        raise unknown_setting(name, TOPIC_SETTINGS, what="topic")
    return TOPIC_SETTINGS[name]


def _log_config(texts: Mapping[str, str]) -> LogConfig:
    read = {name: text for name, text in texts.items() if name in _LOG_NAMES}
    if "internal.segment.bytes" in texts:
        read["segment.bytes"] = texts["internal.segment.bytes"]
    if int(read.get("retention.bytes", "-1")) < 0:
        # Kafka takes any negative size for "no limit".
        read["retention.bytes"] = "-1"
    return LogConfig.from_properties(read)
