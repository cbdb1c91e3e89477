"""The APIs that a node serves: their versions, their handlers, the listeners that they are served on.

A module of `handlers` registers itself when it is imported; there is no other list of them. What is registered is
advertised, to those who come through such a listener.
"""

from collections.abc import Callable
from enum import Flag
from functools import cache
from typing import Final

from barnabas.edge.kafka.asked import Handle
from barnabas.services.session import Session
from barnabas.wire.apis import Api, Served


class On(Flag):
    """The listeners that an API is served on."""

    CLIENTS = 1
    """Those for clients and brokers."""
    CONTROLLERS = 2
    """Those that `controller.listener.names` names."""
    ALL = CLIENTS | CONTROLLERS


SERVED: Final[dict[int, Served]] = {}
"""The APIs served, by key."""

HANDLERS: Final[dict[int, Handle]] = {}
"""Their handlers, except those of Produce and Fetch, which have their own path."""

FORWARDED: Final[set[int]] = set()
"""The APIs that only the active controller carries out: any other node forwards them to it."""

_LISTENERS: Final[dict[int, On]] = {}


def register(
    api: Api, min_version: int, max_version: int, *, advertised_from: int | None = None, on: On = On.CLIENTS
) -> None:
    """Serve and advertise these versions of an API; `advertised_from` advertises another lowest version."""
    assert api.key not in SERVED, f"{api.name} is registered twice"
    assert 0 <= min_version <= max_version
    SERVED[api.key] = Served(api, min_version, max_version, min_version if advertised_from is None else advertised_from)
    _LISTENERS[api.key] = on


def serves(
    api: Api, min_version: int, max_version: int, *, on: On = On.CLIENTS, is_forwarded: bool = False
) -> Callable[[Handle], Handle]:
    """Register a function as the handler of these versions of an API."""

    def take(handle: Handle) -> Handle:
        register(api, min_version, max_version, on=on)
        HANDLERS[api.key] = handle
        if is_forwarded:
            FORWARDED.add(api.key)
        return handle

    return take


@cache
def served_on(listeners: On) -> dict[int, Served]:
    """The APIs that listeners of a kind serve, by key; first asked for when all handlers have registered themselves."""
    return {key: served for key, served in sorted(SERVED.items()) if listeners & _LISTENERS[key]}


def listeners_of(session: Session) -> On:
    """The kind of listener that a client came through."""
    return On.CONTROLLERS if session.is_for_controllers else On.CLIENTS
