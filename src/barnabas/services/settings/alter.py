"""Altering settings: single changes to what is set, as IncrementalAlterConfigs asks for them.

The result is what to record: the new text of each setting that changes, or None if it is no longer set.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

import msgspec

from barnabas.core.errors import InvalidConfig, InvalidRequest
from barnabas.services.settings.broker_config import BROKER_SETTINGS, BrokerConfig
from barnabas.services.settings.catalogue.group_settings import GROUP_SETTINGS, GroupSettings
from barnabas.services.settings.catalogue.setting import InvalidSetting, Setting, SettingType, unknown_setting
from barnabas.services.settings.catalogue.share_settings import ShareSettings
from barnabas.services.settings.catalogue.topic_defaults import TOPIC_DEFAULT_SETTINGS, topic_defaults_of
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS
from barnabas.services.settings.resolution import check_group, check_topic_settings

THREAD_COUNTS: Final = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


class AlterOperation(IntEnum):
    """What to do with a setting, numbered as in an IncrementalAlterConfigs request."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class SettingChange(msgspec.Struct, frozen=True):
    """One change of one setting."""

    name: str
    operation: AlterOperation
    value: str | None = None


def alter_incrementally(
    current: Mapping[str, str], changes: Iterable[SettingChange], *, settings: Mapping[str, Setting] = TOPIC_SETTINGS
) -> dict[str, str | None]:
    """The changes; None: no longer set. The result is not validated here: `alter_topic` does both."""
    changed: dict[str, str | None] = {}
    for change in changes:
        if change.name in changed:
            raise InvalidRequest(f"{change.name} is changed twice by one request")
        if change.value is None and change.operation is not AlterOperation.DELETE:
            raise InvalidRequest(f"{change.name} cannot be null; delete it to use the default")
        changed[change.name] = _altered(current.get(change.name), change, settings.get(change.name))
    return {name: text for name, text in changed.items() if text != current.get(name)}


def alter_topic(
    current: Mapping[str, str], changes: Iterable[SettingChange], broker: BrokerConfig | None = None
) -> dict[str, str | None]:
    """The changes to a topic's overrides; refused if the result is invalid."""
    changed = alter_incrementally(current, changes)
    check_topic_settings(overlaid(current, changed), broker)
    return changed


def replace_topic(
    current: Mapping[str, str], wanted: Mapping[str, str | None], broker: BrokerConfig | None = None
) -> dict[str, str | None]:
    """The changes to a topic's overrides that replace all of them (AlterConfigs)."""
    nulls = sorted(name for name, text in wanted.items() if text is None)
    if nulls:
        raise InvalidRequest(f"settings cannot be null: {', '.join(nulls)}; omit them to use the broker's default")
    texts = check_topic_settings(wanted, broker)
    dropped = [name for name in current if name not in texts]
    return {name: text for name, text in texts.items() if text != current.get(name)} | dict.fromkeys(dropped)


def alter_group(
    current: Mapping[str, str], changes: Iterable[SettingChange], broker: GroupSettings, shares: ShareSettings
) -> dict[str, str | None]:
    """The changes to a group's overrides; refused if the result is invalid."""
    changed = alter_incrementally(current, changes, settings=GROUP_SETTINGS)
    check_group(overlaid(current, changed), broker, shares)
    return changed


def replace_group(
    current: Mapping[str, str], wanted: Mapping[str, str | None], broker: GroupSettings, shares: ShareSettings
) -> dict[str, str | None]:
    """The changes to a group's overrides that replace all of them (AlterConfigs)."""
    nulls = sorted(name for name, text in wanted.items() if text is None)
    if nulls:
        raise InvalidRequest(f"settings cannot be null: {', '.join(nulls)}; omit them to use the broker's default")
    check_group({name: text for name, text in wanted.items() if text is not None}, broker, shares)
    return {**dict.fromkeys(current), **wanted}


def alter_broker(current: Mapping[str, str], changes: Iterable[SettingChange]) -> dict[str, str | None]:
    """The changes to dynamic broker settings; refused if they cannot be altered."""
    changed = alter_incrementally(current, changes, settings={**BROKER_SETTINGS, **TOPIC_DEFAULT_SETTINGS})
    check_broker_settings(overlaid(current, changed))
    return changed


def check_broker_settings(overrides: Mapping[str, str]) -> None:
    """Refuse settings that are not dynamic, and invalid values."""
    fixed: list[str] = []
    for name, text in overrides.items():
        setting = TOPIC_DEFAULT_SETTINGS.get(name) or BROKER_SETTINGS.get(name)
        if setting is None:
            raise unknown_setting(name, [*TOPIC_DEFAULT_SETTINGS, *BROKER_SETTINGS], what="broker")
        if setting.is_read_only:
            fixed.append(name)
        elif name in BROKER_SETTINGS:
            setting.parse(text)
    if fixed:
        raise InvalidSetting(
            fixed[0],
            f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]; set them where the broker starts",
        )
    check_topic_settings(topic_defaults_of(overrides))


def check_thread_counts(before: BrokerConfig, after: BrokerConfig, altered: Mapping[str, str]) -> None:
    """Refuse a number of threads less than half, or more than double, the current one: Kafka's rule."""
    for name in THREAD_COUNTS:
        if name not in altered:
            continue
        was, wanted = before.value_of(name), after.value_of(name)
        assert isinstance(was, int)
        assert isinstance(wanted, int)
        if not was // 2 <= wanted <= was * 2:
            raise InvalidRequest(
                f"{name} cannot go from {was} to {wanted} at once: allowed is from half to double the current value"
            )


def overlaid(current: Mapping[str, str], changed: Mapping[str, str | None]) -> dict[str, str]:
    """The settings after the changes."""
    return {name: text for name, text in {**current, **changed}.items() if text is not None}


def _altered(current: str | None, change: SettingChange, setting: Setting | None) -> str | None:
    if change.operation is AlterOperation.SET:
        return change.value
    if change.operation is AlterOperation.DELETE:
        return None
    if setting is None or setting.kind is not SettingType.LIST:
        raise InvalidConfig(f"{change.name} is not a list: nothing can be appended to it or subtracted from it")
    # A list that is not set is taken to be the catalogue's default, not the broker's, as in Kafka.
    parts = _parts(setting.default if current is None else current)
    given = _parts(change.value)
    if change.operation is AlterOperation.APPEND:
        return ",".join(dict.fromkeys(parts + given))
    return ",".join(part for part in parts if part not in given)


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
