"""The settings of a broker that must be consistent with each other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.services.settings.catalogue.http_settings import check_http
from barnabas.services.settings.catalogue.logging_settings import parse_levels
from barnabas.services.settings.catalogue.setting import InvalidSetting

if TYPE_CHECKING:
    from barnabas.services.settings.broker_config import BrokerConfig

_UNSPECIFIED_HOSTS: Final = ("0.0.0.0", "::")
_MAX_PORT: Final = 65535


def per_ip_overrides(config: "BrokerConfig") -> dict[str, int]:
    """How many connections may come from addresses that are named."""
    if not config.max_connections_per_ip_overrides:
        return {}
    from ipaddress import ip_address  # noqa: PLC0415 - few name any

    found: dict[str, int] = {}
    for text in config.max_connections_per_ip_overrides:
        address, _, count = text.rpartition(":")
        try:
            found[str(ip_address(address.strip().strip("[]")))] = int(count)
        except ValueError:
            raise InvalidSetting(
                "max.connections.per.ip.overrides",
                f"max.connections.per.ip.overrides has {text!r}; allowed: an address and a number, as in 10.0.0.7:200",
            ) from None
    return found


def check_together(config: "BrokerConfig") -> None:
    """Refuse settings that contradict each other."""
    _check_roles(config)
    if config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise InvalidSetting(
            "queued.max.request.bytes",
            "queued.max.request.bytes must not be below socket.request.max.bytes, or no such request fits",
        )
    per_ip_overrides(config)
    _check_access(config)
    check_http(config.http)
    config.grpc.check()
    parse_levels(config.logging.log_levels)
    names = {listener.name for listener in config.listeners}
    for listener in config.advertised_listeners:
        if listener.name not in names:
            raise InvalidSetting(
                "advertised.listeners", f"advertised.listeners has {listener}, which listeners does not"
            )
        if not listener.host or listener.host in _UNSPECIFIED_HOSTS:
            raise InvalidSetting(
                "advertised.listeners", f"advertised.listeners has {listener}, where no client can connect"
            )


def _check_access(config: "BrokerConfig") -> None:
    """Refuse what promises protection that there is not."""
    name = "allow.everyone.if.no.acl.found"
    if config.given.get(name, "").strip().lower() == "false" and config.access.authorizer_class_name is None:
        raise InvalidSetting(
            name, f"{name}=false has no effect without an authorizer; set authorizer.class.name=acl as well"
        )


def _check_roles(config: "BrokerConfig") -> None:
    """Refuse roles without the listeners that they need."""
    quorum = config.quorum
    if quorum.is_broker and not config.client_listeners:
        raise InvalidSetting("listeners", "listeners must name at least one address for clients")
    if not quorum.is_broker and config.client_listeners:
        raise InvalidSetting(
            "listeners",
            f"listeners has {config.client_listeners[0]}, but a node whose process.roles is controller has only the "
            "listeners that controller.listener.names names",
        )
    if not quorum.is_broker and not config.controller_listeners:
        raise InvalidSetting("controller.listener.names", "controller.listener.names must name one of the listeners")
    name = quorum.inter_broker_listener_name
    if name is not None and quorum.is_broker and name.upper() not in [each.name for each in config.client_listeners]:
        raise InvalidSetting(
            "inter.broker.listener.name", f"inter.broker.listener.name is {name}, which is no listener for clients"
        )
    parse_voters(quorum.controller_quorum_voters)
    parse_addresses(quorum.controller_quorum_bootstrap_servers)


def parse_voters(texts: Sequence[str]) -> dict[int, tuple[str, int]]:
    """The addresses of a fixed list of voters, by their node ids."""
    setting, found = "controller.quorum.voters", dict[int, tuple[str, int]]()
    for text in texts:
        node_id, at, address = text.partition("@")
        if not at or not node_id.isdecimal() or int(node_id) in found:
            raise InvalidSetting(setting, f"{setting} has {text!r}; allowed: id@host:port, each id once")
        found[int(node_id)] = _address(setting, address)
    return found


def parse_addresses(texts: Sequence[str]) -> list[tuple[str, int]]:
    """The addresses of ``controller.quorum.bootstrap.servers``."""
    return [_address("controller.quorum.bootstrap.servers", text) for text in texts]


def _address(setting: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= _MAX_PORT:
        raise InvalidSetting(setting, f"{setting} has {text!r}, which is no host:port")
    return host.strip("[]"), int(port)
