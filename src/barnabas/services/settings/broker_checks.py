"""The settings of a broker that must be consistent with each other."""

from typing import TYPE_CHECKING, Final

from barnabas.services.settings.catalogue.setting import InvalidSetting

if TYPE_CHECKING:
    from barnabas.services.settings.broker_config import BrokerConfig

_UNSPECIFIED_HOSTS: Final = ("0.0.0.0", "::")


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
    if not config.listeners:
        raise InvalidSetting("listeners", "listeners must name at least one address for clients")
    if config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise InvalidSetting(
            "queued.max.request.bytes",
            "queued.max.request.bytes must not be below socket.request.max.bytes, or no such request fits",
        )
    per_ip_overrides(config)
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
