"""Describing settings: each with its value, its source, and its synonyms.

A synonym is another place where the value could be set. They are in order of precedence, so that the first is where the
value comes from; Kafka's order, and Kafka's gaps (see `_broker_synonyms`).
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import msgspec

from barnabas.services.settings.broker_config import BROKER_SETTINGS, BrokerConfig
from barnabas.services.settings.broker_names import ALIASES, rivals
from barnabas.services.settings.catalogue.group_settings import GROUP_SETTINGS
from barnabas.services.settings.catalogue.setting import Setting, SettingType, value_text
from barnabas.services.settings.catalogue.topic_defaults import TOPIC_DEFAULT_SETTINGS, topic_defaults_of
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS
from barnabas.services.settings.resolution import group_field, resolve_group


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as in a DescribeConfigs response."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(msgspec.Struct, frozen=True):
    """A place where a value could come from."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as DescribeConfigs answers it. The value of a secret is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: list[Synonym]
    type: SettingType
    doc: str | None


_NOTHING: Final[Mapping[str, str]] = {}
_ALL_BROKER_SETTINGS: Final = dict(sorted({**BROKER_SETTINGS, **TOPIC_DEFAULT_SETTINGS}.items()))
_DEFAULT_TEXTS: Final = {
    name: setting.default for name, setting in _ALL_BROKER_SETTINGS.items() if setting.default is not None
}


def describe_topic(
    overrides: Mapping[str, str],
    broker: BrokerConfig,
    *,
    dynamic: Mapping[str, str] = _NOTHING,
    dynamic_default: Mapping[str, str] = _NOTHING,
) -> list[DescribedSetting]:
    """All settings of a topic.

    `dynamic` and `dynamic_default` are the dynamic settings of this broker and of all brokers.
    """
    defaults = {**broker.topic_defaults, **topic_defaults_of({**dynamic_default, **dynamic})}
    described = []
    for name, setting in TOPIC_SETTINGS.items():
        if setting.is_internal and name not in overrides:
            continue
        synonyms = []
        if setting.broker_name is not None:
            synonyms = _broker_synonyms(setting.broker_name, broker, dynamic=dynamic, dynamic_default=dynamic_default)
        value = _as_parsed(setting, overrides.get(name, defaults.get(name, setting.default)))
        if name in overrides:
            synonyms.insert(0, Synonym(name, value, ConfigSource.DYNAMIC_TOPIC))
        described.append(_described(setting, value, synonyms, is_read_only=False))
    return described


def describe_group(
    overrides: Mapping[str, str],
    broker: BrokerConfig,
    *,
    dynamic: Mapping[str, str] = _NOTHING,
    dynamic_default: Mapping[str, str] = _NOTHING,
) -> list[DescribedSetting]:
    """All settings of a group, with their effective values."""
    in_use = resolve_group(overrides, {**broker.groups.bounds(), **broker.shares.bounds()})
    altered = {**dynamic_default, **dynamic}
    described = []
    for name, setting in GROUP_SETTINGS.items():
        if setting.broker_name is None:
            synonyms = [Synonym(name, setting.default, ConfigSource.DEFAULT)]
        else:
            synonyms = _broker_synonyms(setting.broker_name, broker, dynamic=dynamic, dynamic_default=dynamic_default)
        value = setting.default
        if setting.broker_name is not None:
            value = altered.get(setting.broker_name, value_text(broker.value_of(setting.broker_name)))
        if name in overrides:
            value = value_text(in_use.get(group_field(name), setting.parse(overrides[name])))
            synonyms.insert(0, Synonym(name, value, ConfigSource.GROUP))
        described.append(_described(setting, value, synonyms, is_read_only=False))
    return described


def describe_broker(
    broker: BrokerConfig,
    *,
    dynamic: Mapping[str, str] = _NOTHING,
    dynamic_default: Mapping[str, str] = _NOTHING,
) -> list[DescribedSetting]:
    """All settings of a broker, including the defaults of its topics."""
    altered = {**dynamic_default, **dynamic}
    effective = broker.with_dynamic(altered) if altered else broker
    texts = {**broker.given, **altered}
    described = []
    for name, setting in _ALL_BROKER_SETTINGS.items():
        synonyms = _broker_synonyms(name, broker, dynamic=dynamic, dynamic_default=dynamic_default)
        if name in BROKER_SETTINGS:
            value = value_text(effective.value_of(name)) or None
        else:
            value = _as_parsed(setting, texts.get(name, setting.default))
        described.append(_described(setting, value, synonyms, is_read_only=setting.is_read_only))
    return described


def describe_broker_defaults(dynamic_default: Mapping[str, str]) -> list[DescribedSetting]:
    """The dynamic settings of all brokers (the broker resource without a name)."""
    return [
        _described(
            setting, text, [Synonym(name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER)], is_read_only=setting.is_read_only
        )
        for name, text in sorted(dynamic_default.items())
        if (setting := _ALL_BROKER_SETTINGS.get(name)) is not None
    ]


def _broker_synonyms(
    name: str, broker: BrokerConfig, *, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]
) -> list[Synonym]:
    names = [rival for rival in rivals(name) if rival in _ALL_BROKER_SETTINGS or rival in broker.given]
    places = (
        (dynamic, ConfigSource.DYNAMIC_BROKER),
        (dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (broker.given, ConfigSource.STATIC_BROKER),
        (_DEFAULT_TEXTS, ConfigSource.DEFAULT),
    )
    found = [Synonym(rival, texts[rival], source) for texts, source in places for rival in names if rival in texts]
    if name in ALIASES or (found and found[0].name == name):
        return found
    # Kafka drops what stands before the name asked for: so `retention.ms` has no synonym at all while only
    # log.retention.hours is set, and its source is then the default.
    asked_at = next((position for position, synonym in enumerate(found) if synonym.name == name), len(found))
    return found[asked_at:]


def _as_parsed(setting: Setting, text: str | None) -> str | None:
    return None if text is None else value_text(setting.parse(text))


def _described(setting: Setting, value: str | None, synonyms: list[Synonym], *, is_read_only: bool) -> DescribedSetting:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    is_sensitive = setting.is_sensitive
    if is_sensitive:
        value = None
        synonyms = [Synonym(synonym.name, None, synonym.source) for synonym in synonyms]
    return DescribedSetting(
        name=setting.name,
        value=value,
        source=source,
        is_sensitive=is_sensitive,
        is_read_only=is_read_only,
        synonyms=synonyms,
        type=setting.kind,
        doc=setting.doc,
    )
