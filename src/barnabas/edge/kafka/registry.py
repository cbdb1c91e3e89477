"""The APIs that a node serves: their versions, their handlers, the listeners that they are served on.

A module of `handlers` registers itself when it is imported, and is imported when its API is first asked for: a node is
ready sooner without those that nobody uses. What they register is known before, from `served_apis`, which is generated
from them. What is registered is advertised, to those who come through such a listener.
"""

from collections.abc import Callable
from enum import Flag
from functools import cache
from importlib import import_module
from typing import Final, NamedTuple

from barnabas.edge.kafka.asked import Handle
from barnabas.edge.kafka.served_apis import ROWS
from barnabas.services.session import Session
from barnabas.wire.apis import APIS, Api, Served


class On(Flag):
    """The listeners that an API is served on."""

    CLIENTS = 1
    """Those for clients and brokers."""
    CONTROLLERS = 2
    """Those that `controller.listener.names` names."""
    ALL = CLIENTS | CONTROLLERS


class Registered(NamedTuple):
    """What a module of `handlers` says of its API."""

    min_version: int
    max_version: int
    advertised_from: int
    on: int
    is_forwarded: bool


SERVED: Final[dict[int, Served]] = {key: Served(APIS[key], *row[:3]) for key, row in ROWS.items()}
"""The APIs served, by key."""

FORWARDED: Final[set[int]] = {key for key, row in ROWS.items() if row[4]}
"""The APIs that only the active controller carries out: any other node forwards them to it."""

HANDLERS: Final[dict[int, Handle]] = {}
"""The handlers that are loaded, which those of Produce and Fetch never are: these have their own path."""

REGISTERED: Final[dict[int, Registered]] = {}
"""What the modules that are loaded say of their APIs: `served_apis` says the same of all of them."""


def register(
    api: Api,
    min_version: int,
    max_version: int,
    *,
    advertised_from: int | None = None,
    on: On = On.CLIENTS,
    is_forwarded: bool = False,
) -> None:
    """Serve and advertise these versions of an API; `advertised_from` advertises another lowest version."""
    assert api.key not in REGISTERED, f"{api.name} is registered twice"
    assert 0 <= min_version <= max_version
    lowest = min_version if advertised_from is None else advertised_from
    REGISTERED[api.key] = Registered(min_version, max_version, lowest, on.value, is_forwarded)


def serves(
    api: Api, min_version: int, max_version: int, *, on: On = On.CLIENTS, is_forwarded: bool = False
) -> Callable[[Handle], Handle]:
    """Register a function as the handler of these versions of an API."""

    def take(handle: Handle) -> Handle:
        register(api, min_version, max_version, on=on, is_forwarded=is_forwarded)
        HANDLERS[api.key] = handle
        return handle

    return take


def handler_of(key: int) -> Handle:
    """The handler of an API that is served, loaded when it is first asked for."""
    handle = HANDLERS.get(key)
    if handle is None:
        import_module(f"barnabas.edge.kafka.handlers.{SERVED[key].api.name}")
        handle = HANDLERS[key]
    return handle


@cache
def served_on(listeners: On) -> dict[int, Served]:
    """The APIs that listeners of a kind serve, by key."""
    return {key: SERVED[key] for key, row in ROWS.items() if listeners.value & row[3]}


def listeners_of(session: Session) -> On:
    """The kind of listener that a client came through."""
    return On.CONTROLLERS if session.is_for_controllers else On.CLIENTS
