"""The broker settings that are the defaults of topic settings, perhaps under several names and in other units."""

from collections.abc import Mapping
from typing import Final

from barnabas.services.settings.catalogue.setting import BrokerName, InvalidSetting, Setting, SettingType, value_text
from barnabas.services.settings.catalogue.topic_settings import TOPIC_SETTINGS


def _as_broker_setting(topic_setting: Setting, name: BrokerName) -> Setting:
    names = topic_setting.broker_names
    is_only = len(names) == 1
    return Setting(
        name=name.name,
        kind=SettingType.INT if name.factor_ms != 1 else topic_setting.kind,
        # As in Kafka: the default is that of the name which counts least, in its unit.
        default=_default_in_unit(topic_setting, name) if name is names[-1] else None,
        doc=f"The default of the topic setting {topic_setting.name}. {topic_setting.doc}",
        # Kafka lets a running broker change only the first of the names; the others wait for a restart.
        is_read_only=name is not names[0],
        has_effect=topic_setting.has_effect,
        # The lower limits hold for the topic setting; where the broker's may differ they are checked after conversion.
        at_least=topic_setting.at_least if is_only else None,
        at_most=topic_setting.at_most,
        also=topic_setting.also,
        choices=topic_setting.choices,
    )


def _default_in_unit(topic_setting: Setting, name: BrokerName) -> str | None:
    if topic_setting.default is None or name.factor_ms == 1:
        return topic_setting.default
    return str(int(topic_setting.default) // name.factor_ms)


TOPIC_DEFAULT_SETTINGS: Final[Mapping[str, Setting]] = {
    name.name: _as_broker_setting(setting, name) for setting in TOPIC_SETTINGS.values() for name in setting.broker_names
}
"""The broker settings that are the defaults of topic settings, by the broker's name."""


def topic_defaults_of(properties: Mapping[str, str]) -> dict[str, str]:
    """The values of topic settings, by their topic names, from these broker names and texts."""
    defaults: dict[str, str] = {}
    for setting in TOPIC_SETTINGS.values():
        name = next((name for name in setting.broker_names if name.name in properties), None)
        if name is not None:
            defaults[setting.name] = _topic_text(setting, name, properties[name.name])
    return defaults


def _topic_text(setting: Setting, name: BrokerName, text: str) -> str:
    """A broker's text for the default of a topic setting, in the unit of the topic setting."""
    value = TOPIC_DEFAULT_SETTINGS[name.name].parse(text)
    if isinstance(value, int) and not isinstance(value, bool):
        value = value * name.factor_ms if setting.name != "retention.ms" else _retention_ms(name, value)
    topic_text = value_text(value)
    assert topic_text is not None
    try:
        setting.parse(topic_text)
    except InvalidSetting as refusal:
        raise InvalidSetting(name.name, f"{name.name} cannot be {text!r}: {refusal}") from None
    return topic_text


def _retention_ms(name: BrokerName, value: int) -> int:
    """The retention of a broker's value: a negative one means forever, and 0 is refused, as in Kafka."""
    if value == 0:
        raise InvalidSetting(name.name, f"{name.name} cannot be 0; allowed: at least 1, or -1 to keep records forever")
    return -1 if value < 0 else value * name.factor_ms
