"""Settings of single listeners: ``listener.name.<listener>.[<mechanism>.]<setting>``, all in lower case."""

from collections.abc import Mapping
from typing import Final

import msgspec

from barnabas.services.settings.catalogue.field import settings_of
from barnabas.services.settings.catalogue.listener import PROTOCOL_MAP
from barnabas.services.settings.catalogue.security_settings import MECHANISMS, SecuritySettings
from barnabas.services.settings.catalogue.setting import InvalidSetting, unknown_setting

LISTENER_PREFIX: Final = "listener.name."
INTER_BROKER_PROTOCOL: Final = "security.inter.broker.protocol"
_OF_THE_NODE: Final = ("allow.anonymous", "cluster.secret.file", "max.connections.authenticating")
_SETTINGS: Final = {name: each for name, each in settings_of(SecuritySettings).items() if name not in _OF_THE_NODE}
_MECHANISMS: Final = tuple(f"{name.lower()}." for name in MECHANISMS)


def listener_settings(properties: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The settings of single listeners among these, by the names of the listeners and what follows them."""
    found: dict[str, dict[str, str]] = {}
    for name, text in properties.items():
        if not name.startswith(LISTENER_PREFIX):
            continue
        listener, _, rest = name.removeprefix(LISTENER_PREFIX).partition(".")
        setting = _SETTINGS.get(_without_mechanism(rest))
        if setting is None:
            if rest.endswith("sasl.jaas.config"):
                raise InvalidSetting(name, f"{name} is not supported: {USERS}")
            known = (f"{LISTENER_PREFIX}{listener}.{each}" for each in _SETTINGS)
            raise unknown_setting(name, known, what="broker")
        try:
            setting.parse(text)
        except InvalidSetting as refusal:
            raise InvalidSetting(name, f"{LISTENER_PREFIX}{listener}.{refusal}") from None
        found.setdefault(listener.lower(), {})[rest] = text
    return found


USERS: Final = (
    "users are made with 'barnabas user create' or 'barnabas format --add-scram', for PLAIN, too, and nodes log in to "
    "each other with cluster.secret.file"
)


def _without_mechanism(rest: str) -> str:
    mechanism = next((each for each in _MECHANISMS if rest.startswith(each)), "")
    return rest.removeprefix(mechanism)


def security_of(general: SecuritySettings, own: Mapping[str, str], mechanism: str | None) -> SecuritySettings:
    """The settings of a listener and a mechanism: its own over those of all."""
    prefix = f"{mechanism.lower()}." if mechanism else ""
    texts = {name: text for name, text in own.items() if name in _SETTINGS}
    texts |= {name.removeprefix(prefix): text for name, text in own.items() if prefix and name.startswith(prefix)}
    if not texts:
        return general
    values = {name.replace(".", "_"): _SETTINGS[name].parse(text) for name, text in texts.items()}
    return msgspec.structs.replace(general, **values)


def check_listeners_exist(of_listeners: Mapping[str, Mapping[str, str]], protocols: Mapping[str, str]) -> None:
    """Refuse settings of a listener that there is not."""
    known = {name.lower() for name in protocols}
    for listener, settings in of_listeners.items():
        if protocols and listener not in known:
            name = f"{LISTENER_PREFIX}{listener}.{next(iter(settings))}"
            raise InvalidSetting(name, f"{name} is for a listener that is not in listeners")


def inter_broker_listener(properties: Mapping[str, str], protocols: Mapping[str, str]) -> str | None:
    """The listener that ``security.inter.broker.protocol`` stands for: the first of that protocol for clients."""
    protocol = properties.get(INTER_BROKER_PROTOCOL, "").strip().upper()
    if not protocol:
        return None
    if properties.get("inter.broker.listener.name", "").strip():
        raise InvalidSetting(
            INTER_BROKER_PROTOCOL, f"{INTER_BROKER_PROTOCOL} and inter.broker.listener.name are one setting: give one"
        )
    controllers = {name.strip().upper() for name in properties.get("controller.listener.names", "").split(",")}
    for name, each in protocols.items():
        if each == protocol and name not in controllers:
            return name
    if not protocols and protocol == "PLAINTEXT":
        return None  # the default listener
    raise InvalidSetting(
        INTER_BROKER_PROTOCOL, f"{INTER_BROKER_PROTOCOL} is {protocol}, and no listener of {PROTOCOL_MAP} has it"
    )


def is_secret(name: str) -> bool:
    """Whether the value of a setting must not be shown."""
    setting = _SETTINGS.get(name)
    if setting is None and name.startswith(LISTENER_PREFIX):
        rest = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
        setting = _SETTINGS.get(_without_mechanism(rest))
    return (setting is not None and setting.is_sensitive) or name.endswith("sasl.jaas.config")
