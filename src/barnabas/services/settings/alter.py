"""Altering settings: single changes to what is set, as IncrementalAlterConfigs asks for them.

What comes out is what is to be recorded: the new text of each setting that changes, or None where it is no longer set.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum

import msgspec

from barnabas.core.errors import InvalidConfig, InvalidRequest
from barnabas.services.broker_config import BROKER_SETTINGS, BrokerConfig, topic_defaults_of
from barnabas.services.catalogue.setting import InvalidSetting, Setting, SettingType, unknown_setting
from barnabas.services.catalogue.topic_settings import TOPIC_DEFAULT_SETTINGS, TOPIC_SETTINGS
from barnabas.services.settings.topic_config import check_topic_settings


class Operation(IntEnum):
    """What to do with a setting, numbered as in an IncrementalAlterConfigs request."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(msgspec.Struct, frozen=True):
    """One change of one setting."""

    name: str
    operation: Operation
    value: str | None = None


def alter_incrementally(
    current: Mapping[str, str], changes: Iterable[Change], *, settings: Mapping[str, Setting] = TOPIC_SETTINGS
) -> dict[str, str | None]:
    """What changes; None is no longer set. The outcome is not checked yet: `alter_topic` does both."""
    changed: dict[str, str | None] = {}
    for change in changes:
        if change.name in changed:
            raise InvalidRequest(f"{change.name} is changed twice by one request")
        if change.value is None and change.operation is not Operation.DELETE:
            raise InvalidRequest(f"{change.name} cannot be null; delete it to leave it to the default")
        changed[change.name] = _altered(current.get(change.name), change, settings.get(change.name))
    return {name: text for name, text in changed.items() if text != current.get(name)}


def alter_topic(
    current: Mapping[str, str], changes: Iterable[Change], broker: BrokerConfig | None = None
) -> dict[str, str | None]:
    """What changes of a topic's overrides, if it may have the outcome."""
    changed = alter_incrementally(current, changes)
    check_topic_settings(overlaid(current, changed), broker)
    return changed


def replace_topic(
    current: Mapping[str, str], wanted: Mapping[str, str | None], broker: BrokerConfig | None = None
) -> dict[str, str | None]:
    """What changes of a topic's overrides if these are to be all of them (AlterConfigs)."""
    nulls = sorted(name for name, text in wanted.items() if text is None)
    if nulls:
        raise InvalidRequest(f"settings cannot be null: {', '.join(nulls)}; leave out what the broker shall decide")
    texts = check_topic_settings(wanted, broker)
    dropped = [name for name in current if name not in texts]
    return {name: text for name, text in texts.items() if text != current.get(name)} | dict.fromkeys(dropped)


def alter_broker(current: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str | None]:
    """What changes of the settings altered while brokers run, if they can be."""
    changed = alter_incrementally(current, changes, settings={**BROKER_SETTINGS, **TOPIC_DEFAULT_SETTINGS})
    check_broker_settings(overlaid(current, changed))
    return changed


def check_broker_settings(overrides: Mapping[str, str]) -> None:
    """Refuse what cannot be altered while a broker runs, and values that its settings do not take."""
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


def overlaid(current: Mapping[str, str], changed: Mapping[str, str | None]) -> dict[str, str]:
    """What is set once the changes are made."""
    return {name: text for name, text in {**current, **changed}.items() if text is not None}


def _altered(current: str | None, change: Change, setting: Setting | None) -> str | None:
    if change.operation is Operation.SET:
        return change.value
    if change.operation is Operation.DELETE:
        return None
    if setting is None or setting.kind is not SettingType.LIST:
        raise InvalidConfig(f"{change.name} is not a list: nothing can be appended to it or subtracted from it")
    # A list that is not set is taken to be the catalogue's default, not the broker's, as in Kafka.
    parts = _parts(setting.default if current is None else current)
    given = _parts(change.value)
    if change.operation is Operation.APPEND:
        return ",".join(dict.fromkeys(parts + given))
    return ",".join(part for part in parts if part not in given)


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
