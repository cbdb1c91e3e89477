"""The APIs that this broker serves, their versions and their handlers.

A module of `handlers` registers itself when it is imported; there is no other list of them. What is registered is
advertised.
"""

from collections.abc import Callable
from typing import Final

from barnabas.edge.kafka.asked import Handle
from barnabas.wire.apis import Api, Served

SERVED: Final[dict[int, Served]] = {}
"""The APIs served, by key."""

HANDLERS: Final[dict[int, Handle]] = {}
"""Their handlers, except those of Produce and Fetch, which have their own path."""


def register(api: Api, min_version: int, max_version: int, *, advertised_from: int | None = None) -> None:
    """Serve and advertise these versions of an API; `advertised_from` advertises another lowest version."""
    assert api.key not in SERVED, f"{api.name} is registered twice"
    assert 0 <= min_version <= max_version
    SERVED[api.key] = Served(api, min_version, max_version, min_version if advertised_from is None else advertised_from)


def serves(api: Api, min_version: int, max_version: int) -> Callable[[Handle], Handle]:
    """Register a function as the handler of these versions of an API."""

    def take(handle: Handle) -> Handle:
        register(api, min_version, max_version)
        HANDLERS[api.key] = handle
        return handle

    return take
