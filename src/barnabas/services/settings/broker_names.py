"""The names in a broker's configuration: deprecated ones, those of one setting, those that are ignored or refused."""

from collections.abc import Mapping
from typing import Final

from barnabas.services.settings.catalogue.not_ours import is_ignored, is_refused, known_names
from barnabas.services.settings.catalogue.setting import InvalidSetting, Setting, SettingType, unknown_setting
from barnabas.services.settings.catalogue.topic_defaults import TOPIC_DEFAULT_SETTINGS
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS

ALIASES: Final[Mapping[str, str]] = {"node.id": "broker.id", "log.dirs": "log.dir"}
"""Deprecated names, each by the one that takes precedence."""

_NAMES_OF_ONE: Final = (
    *ALIASES.items(),
    *(tuple(name.name for name in setting.broker_names) for setting in TOPIC_SETTINGS.values()),
)
_RIVALS: Final[Mapping[str, tuple[str, ...]]] = {name: names for names in _NAMES_OF_ONE for name in names}


def known_names_of(settings: Mapping[str, Setting]) -> list[str]:
    """Every exact name that a configuration with these settings may hold, in order."""
    return sorted({*settings, *ALIASES.values(), *TOPIC_DEFAULT_SETTINGS, *known_names()})


def rivals(name: str) -> tuple[str, ...]:
    """All names of the same setting, including this one."""
    return _RIVALS.get(name, (name,))


def is_ignored_name(name: str, text: str, settings: Mapping[str, Setting]) -> bool:
    """True if a name is to be ignored, False if it is one of `settings`; any other is refused."""
    if name in settings or name in TOPIC_DEFAULT_SETTINGS or name in ALIASES.values():
        return False
    if is_ignored(name, text):
        return True
    if is_refused(name):
        raise InvalidSetting(
            name, f"{name} is not supported; remove it, since ignoring it would give a false sense of protection"
        )
    raise unknown_setting(name, known_names_of(settings), what="broker")


def text_of(setting: Setting, properties: Mapping[str, str]) -> str | None:
    """The text that a setting is given, under its own name or the deprecated one; None if it is unset."""
    name = setting.name
    text = properties.get(name)
    older = properties.get(ALIASES.get(name, name))
    if name == "node.id" and text is not None and older is not None and text.strip() != older.strip():
        raise InvalidSetting(
            name, f"node.id is {text} and broker.id is {older}: they are one setting, give one of them"
        )
    text = older if text is None else text
    is_unset = text is None or (not text.strip() and setting.kind in (SettingType.STRING, SettingType.LIST))
    return None if is_unset else text
