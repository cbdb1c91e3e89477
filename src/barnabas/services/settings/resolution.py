"""The effective settings of this broker, of a topic, of a group.

In order of precedence, for a topic: its own overrides; the dynamic settings of this broker, then of all brokers; what
this broker started with; the default. The same for a group.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from barnabas.core.errors import InvalidConfig
from barnabas.core.groups.backoff import Backoff
from barnabas.core.groups.settings import LATEST, LetterSettings, ShareConfig, ShareLimits
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import ALL_NODES, BROKER_RESOURCE, TOPIC_RESOURCE
from barnabas.runtime.log_lines import get_logger
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.group_settings import GROUP_SETTINGS, Bounds, GroupSettings
from barnabas.services.settings.catalogue.setting import InvalidSetting, Setting, unknown_setting
from barnabas.services.settings.catalogue.share_settings import LETTER_COPIES, LETTER_TOPIC, SHARE, ShareSettings
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS
from barnabas.services.settings.internal_topics import with_room_for_own
from barnabas.services.settings.topic_config import (
    FIELDS,
    LOG_NAMES,
    DeliverySemantics,
    RecordValidation,
    TopicConfig,
)
from barnabas.storage.config import LogConfig

log = get_logger("barnabas.settings")

_ENUMS: Final = {"delivery.semantics": DeliverySemantics, "record.validation": RecordValidation}
_PLAIN_BROKER: Final = BrokerConfig()
_SESSION: Final = "consumer.session.timeout.ms"
_HEARTBEAT: Final = "consumer.heartbeat.interval.ms"


# Of a broker


def effective_config(image: Image, start: BrokerConfig) -> BrokerConfig:
    """The broker's settings: those it started with, overlaid by dynamic ones.

    A recorded value that has become invalid, because the broker was started with other settings, counts as not set.
    """
    dynamic = {
        **image.config_of(BROKER_RESOURCE, ALL_NODES),
        **image.config_of(BROKER_RESOURCE, str(start.node_id)),
    }
    return _overlaid(_Same(start), tuple(dynamic.items())) if dynamic else start


class _Same:
    """A configuration as a key, compared by identity, which is fast."""

    __slots__ = ("config",)

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config

    def __hash__(self) -> int:
        return id(self.config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.config is self.config


@lru_cache(maxsize=8)  # half a millisecond, and asked for with every topic that is altered
def _overlaid(start: _Same, altered: tuple[tuple[str, str], ...]) -> BrokerConfig:
    dynamic = dict(altered)
    while dynamic:
        try:
            return start.config.with_dynamic(dynamic)
        except InvalidSetting as refusal:
            log.error("ignoring an altered setting that is no longer valid: %s", refusal)
            if dynamic.pop(refusal.name, None) is None:
                break
    return start.config


# Of a topic


def topic_config(image: Image, broker: BrokerConfig, name: str) -> TopicConfig:
    """The effective settings of a topic; `broker` is the effective configuration of this node."""
    return with_room_for_own(name, resolve_topic(image.config_of(TOPIC_RESOURCE, name), broker))


def resolve_topic(overrides: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
    """The settings of a topic with these overrides; an unknown name or a bad value is refused."""
    for name, text in overrides.items():
        topic_setting(name).parse(text)
    texts = {**broker.topic_defaults, **overrides}
    fields: dict[str, Any] = {
        field: _value(TOPIC_SETTINGS[name], texts[name]) for name, field in FIELDS.items() if name in texts
    }
    return TopicConfig(log=_log_config(texts), **fields)


def _value(setting: Setting, text: str) -> object:
    value = setting.parse(text)
    return _ENUMS[setting.name](value) if setting.name in _ENUMS else value


def check_topic_settings(overrides: Mapping[str, str | None], broker: BrokerConfig | None = None) -> dict[str, str]:
    """The overrides, if they are valid together with this broker's defaults; refused otherwise.

    A null value is refused, as in Kafka: to use the broker's default, omit the setting.
    """
    nulls = sorted(name for name, text in overrides.items() if text is None)
    if nulls:
        raise InvalidConfig(f"topic settings cannot be null: {', '.join(nulls)}; omit them to use the broker's default")
    texts = {name: text for name, text in overrides.items() if text is not None}
    resolve_topic(texts, broker if broker is not None else _PLAIN_BROKER)
    return texts


def topic_setting(name: str) -> Setting:
    """The topic setting of this name; an unknown one is refused."""
    if name not in TOPIC_SETTINGS:
        raise unknown_setting(name, TOPIC_SETTINGS, what="topic")
    return TOPIC_SETTINGS[name]


def _log_config(texts: Mapping[str, str]) -> LogConfig:
    read = {name: text for name, text in texts.items() if name in LOG_NAMES}
    if "internal.segment.bytes" in texts:
        read["segment.bytes"] = texts["internal.segment.bytes"]
    if "retention.bytes" in read and int(read["retention.bytes"]) < 0:
        # Kafka takes any negative size for "no limit".
        read["retention.bytes"] = "-1"
    return LogConfig.from_properties(read)


# Of a group


def resolve_group(overrides: Mapping[str, str], bounds: Bounds) -> dict[str, int]:
    """The values of a group's overrides, by their field of `ConsumerConfig`.

    A value is checked against the broker's bounds when it is set. The bounds may have changed since, with a restart:
    then the value is limited by them.
    """
    return {
        group_field(name): min(max(int(overrides[name]), least), most)
        for name, (least, most) in bounds.items()
        if name in overrides
    }


def resolve_share_group(overrides: Mapping[str, str], settings: ShareSettings) -> ShareConfig:
    """The settings of a share group with these overrides, limited by the broker's bounds as of now."""
    values = {
        "share.heartbeat.interval.ms": settings.group_share_heartbeat_interval_ms,
        "share.session.timeout.ms": settings.group_share_session_timeout_ms,
        "share.delivery.count.limit": settings.group_share_delivery_count_limit,
        "share.record.lock.duration.ms": settings.group_share_record_lock_duration_ms,
        "share.partition.max.record.locks": settings.group_share_partition_max_record_locks,
    }
    letters = _letters_of(overrides)
    for name, (least, most) in settings.bounds().items():
        if name in overrides:
            values[name] = min(max(int(overrides[name]), least), most)
    return ShareConfig(
        heartbeat_interval_ms=values["share.heartbeat.interval.ms"],
        session_timeout_ms=values["share.session.timeout.ms"],
        max_size=settings.group_share_max_size,
        limits=ShareLimits(
            lock_duration_ms=values["share.record.lock.duration.ms"],
            delivery_limit=values["share.delivery.count.limit"],
            max_locks=values["share.partition.max.record.locks"],
            allows_renewal=_is_true(overrides.get("share.renew.acknowledge.enable", "true")),
            backoff=Backoff(
                _whole(overrides, "share.retry.backoff.ms", SHARE.limits.backoff.first_ms),
                _whole(overrides, "share.retry.backoff.max.ms", SHARE.limits.backoff.most_ms),
            ),
            max_waiting=_whole(overrides, "share.partition.max.waiting.records", SHARE.limits.max_waiting),
            has_letters=letters is not None,
        ),
        letters=letters,
        auto_offset_reset=overrides.get("share.auto.offset.reset", LATEST).strip(),
        is_committed=overrides.get("share.isolation.level", "").strip() == "read_committed",
    )


def _letters_of(overrides: Mapping[str, str]) -> LetterSettings | None:
    topic = overrides.get(LETTER_TOPIC, "").strip()
    return LetterSettings(topic, _is_true(overrides.get(LETTER_COPIES, ""))) if topic else None


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _whole(overrides: Mapping[str, str], name: str, default: int) -> int:
    return int(overrides[name]) if name in overrides else default


def group_field(name: str) -> str:
    """The field of `ConsumerConfig` of a group setting."""
    return name.removeprefix("consumer.").replace(".", "_")


def check_group(overrides: Mapping[str, str], broker: GroupSettings, shares: ShareSettings) -> None:
    """Refuse settings of a group that are unknown, out of bounds, or inconsistent."""
    bounds = {**broker.bounds(), **shares.bounds()}
    for name, text in overrides.items():
        if name not in GROUP_SETTINGS:
            raise unknown_setting(name, GROUP_SETTINGS, what="group")
        GROUP_SETTINGS[name].parse(text)
        if name in bounds and not bounds[name][0] <= int(text) <= bounds[name][1]:
            raise InvalidSetting(name, "{} cannot be {}; this broker allows {} to {}".format(name, text, *bounds[name]))
    session_timeout_ms = int(overrides.get(_SESSION, broker.group_consumer_session_timeout_ms))
    heartbeat_interval_ms = int(overrides.get(_HEARTBEAT, broker.group_consumer_heartbeat_interval_ms))
    if session_timeout_ms <= heartbeat_interval_ms:
        raise InvalidConfig(
            f"{_SESSION} must be above {_HEARTBEAT}: {session_timeout_ms} is not above {heartbeat_interval_ms}"
        )
    share = resolve_share_group(overrides, shares)
    if share.session_timeout_ms <= share.heartbeat_interval_ms:
        raise InvalidConfig(
            "share.session.timeout.ms must be above share.heartbeat.interval.ms: "
            f"{share.session_timeout_ms} is not above {share.heartbeat_interval_ms}"
        )
