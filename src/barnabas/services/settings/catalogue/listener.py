"""A listener: an address that clients connect to, under a name, as in ``PLAINTEXT://127.0.0.1:9092``."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from barnabas.services.settings.catalogue.setting import InvalidSetting, split_list

_LISTENER: Final = re.compile(r"(?P<name>[A-Za-z0-9_-]+)://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^/\[\]:]*):(?P<port>[0-9]+)")
PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOL_MAP: Final = "listener.security.protocol.map"
_PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)  # numbered so in the protocol
_LOOPBACK: Final = re.compile(r"127(\.[0-9]{1,3}){3}")


class Listener(msgspec.Struct, frozen=True):
    """An address under a name. An empty host is every address of the machine, port 0 any free port."""

    name: str
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only processes of this machine can connect."""
        return self.host.lower() in ("localhost", "::1") or _LOOPBACK.fullmatch(self.host) is not None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listeners(setting: str, text: str) -> tuple[Listener, ...]:
    """Parse a list of listeners. Two of one name are refused."""
    listeners = tuple(_parse_listener(setting, part) for part in split_list(text))
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise InvalidSetting(setting, f"{setting} has two listeners of one name: {text}")
    return listeners


def _parse_listener(setting: str, text: str) -> Listener:
    match = _LISTENER.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise InvalidSetting(setting, f"{setting} cannot be {text!r}; allowed: NAME://host:port, separated by commas")
    return Listener(match["name"].upper(), match["host"].strip("[]"), int(match["port"]))


def protocol_number(protocol: str) -> int:
    """A security protocol as requests number it."""
    return _PROTOCOLS.index(protocol)


def security_protocols(text: str) -> Mapping[str, str]:
    """The security protocol of each listener name, from ``listener.security.protocol.map`` over Kafka's default."""
    protocols = {name: name for name in _PROTOCOLS}
    for part in split_list(text):
        name, colon, protocol = (piece.strip() for piece in part.partition(":"))
        if not colon or protocol.upper() not in _PROTOCOLS:
            raise InvalidSetting(
                PROTOCOL_MAP, f"{PROTOCOL_MAP} cannot be {part!r}; allowed: NAME:{', NAME:'.join(_PROTOCOLS)}"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def protocols_of(values: Mapping[str, object], properties: Mapping[str, str]) -> dict[str, str]:
    """The security protocol of each listener. `values` are the settings that were read, by their names."""
    known = dict(security_protocols(properties.get(PROTOCOL_MAP, "")))
    for name in split_list(properties.get("controller.listener.names", "")):
        known.setdefault(name.upper(), PLAINTEXT)  # as in Kafka
    found = {}
    for setting in ("listeners", "advertised.listeners"):
        given = values.get(setting, ())
        assert isinstance(given, tuple)
        for listener in given:
            if listener.name not in known:
                raise InvalidSetting(setting, f"{PROTOCOL_MAP} has no entry for the listener {listener.name}")
            found[listener.name] = known[listener.name]
    others = [*split_list(properties.get("controller.listener.names", ""))]
    others += split_list(properties.get("inter.broker.listener.name", ""))
    for name in others:  # also where this node only connects to them
        found.setdefault(name.upper(), known.get(name.upper(), PLAINTEXT))
    return found
