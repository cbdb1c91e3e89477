"""The addresses of a node: which it listens on, and which others are told to connect to."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import AddressNotAvailable
from barnabas.core.metadata.records import Endpoint
from barnabas.runtime.connections import Connections
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.own_addresses import Advertised
from barnabas.services.settings import InvalidSetting
from barnabas.services.settings.broker_checks import parse_voters
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.listener import Listener

if TYPE_CHECKING:
    from barnabas.runtime.tls import Tls

log = get_logger("barnabas.node", is_limited=False)

ANY_HOST: Final = ("", "0.0.0.0", "::")
RESOLVE_TIMEOUT_S: Final = 5.0
NO_TLS: Final[Mapping[str, Tls]] = {}


async def bind(
    connections: Connections, listeners: Sequence[Listener], tls: Mapping[str, Tls] = NO_TLS
) -> dict[str, tuple[str, int]]:
    """Bind listeners; where each of them listens, by its name. Those that were bound before one fails stay so."""
    bound: dict[str, tuple[str, int]] = {}
    for listener in listeners:
        try:
            bound[listener.name] = await connections.bind(
                listener.host, listener.port, listener=listener.name, tls=tls.get(listener.name)
            )
        except OSError as error:
            raise AddressNotAvailable(
                f"cannot listen on {listener.host}:{listener.port} ({_words_of(error)}); name another with --listen"
            ) from error
    return bound


def endpoint_of(config: BrokerConfig, listener: Listener, bound: tuple[str, int]) -> Endpoint:
    """Where clients of a listener that is bound are told to connect."""
    host, port = bound
    advertised = config.advertised(listener.name)
    if advertised is not None:
        host, port = advertised.host, advertised.port or port
    elif listener.host in ANY_HOST:
        assert config.is_for_controllers(listener.name)  # see `check_advertised`
        host, port = parse_voters(config.quorum.controller_quorum_voters)[config.node_id]
    else:
        host = listener.host
    return Endpoint(listener.name, host, port)


def check_advertised(config: BrokerConfig) -> None:
    """Refuse a listener on every address of the machine that does not say at which of them others reach it.

    A name of this machine would be a guess: nobody outside of a container knows it. The address of a voter in a fixed
    list is in that list.
    """
    fixed = config.node_id in parse_voters(config.quorum.controller_quorum_voters)
    for listener in config.listeners:
        if listener.host not in ANY_HOST or config.advertised(listener.name) is not None:
            continue
        if fixed and config.is_for_controllers(listener.name):
            continue
        raise InvalidSetting(
            "advertised.listeners",
            f"{listener} listens on every address of this machine, and others have to be told one that they can reach: "
            f"set advertised.listeners={listener.name}://HOST:{listener.port or 'PORT'} "
            f"(barnabas serve --advertise HOST:{listener.port or 'PORT'}), or listen on one address",
        )


async def check_resolvable(config: BrokerConfig) -> None:
    """Refuse to advertise a name that does not exist: nobody could connect to it."""
    for listener in config.advertised_listeners:
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_S):
                await asyncio.get_running_loop().getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM)
        except (TimeoutError, socket.gaierror, UnicodeError) as error:
            is_passing = isinstance(error, TimeoutError) or getattr(error, "errno", None) == socket.EAI_AGAIN
            if not is_passing:
                words = _words_of(error) if isinstance(error, OSError) else str(error)
                raise AddressNotAvailable(
                    f"advertised.listeners has {listener}, and there is no host of that name ({words}): nobody could "
                    "connect to it; correct it"
                ) from None
            log.warning(
                "advertised.listeners has %s, whose name cannot be looked up now: nobody can connect who cannot either",
                listener,
            )


def advertised_elsewhere(
    config: BrokerConfig, listeners: Sequence[Listener], bound: Mapping[str, tuple[str, int]]
) -> list[Advertised]:
    """The addresses of listeners that are not simply those which they listen on, so that they may be wrong."""
    found = []
    for listener in listeners:
        endpoint = endpoint_of(config, listener, bound[listener.name])
        if (endpoint.host, endpoint.port) != (listener.host, bound[listener.name][1]):
            is_for_controllers = config.is_for_controllers(listener.name)
            found.append(Advertised(listener.name, endpoint.host, endpoint.port, is_for_controllers))
    return found


def _words_of(error: OSError) -> str:
    """The system's words for an error, without what asyncio adds to them: the address, as Python writes it."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)
