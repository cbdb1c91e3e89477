"""What the broker serves, for tests that go over all of it."""

from barnabas.edge.kafka.handlers import load_all
from barnabas.edge.kafka.registry import HANDLERS, SERVED, On, served_on
from barnabas.wire.apis import Api

__all__ = ["CLIENT_APIS", "CONTROLLER_APIS", "HANDLERS", "SERVED", "SERVED_APIS", "versions_of"]

load_all()
SERVED_APIS = [served.api for _, served in sorted(SERVED.items())]
CLIENT_APIS = [served.api for served in served_on(On.CLIENTS).values()]
"""Those that are served on listeners for clients."""
CONTROLLER_APIS = [served.api for served in served_on(On.CONTROLLERS).values()]
"""Those that are served on listeners for controllers."""


def versions_of(api: Api) -> range:
    """The versions in which an API is served."""
    return SERVED[api.key].versions
