"""The context of a request, for its handler: version and session."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.responses import Values


class Asked(NamedTuple):
    """The version of a request, and its session."""

    version: int
    session: Session


# A handler takes a request's kio entity and returns the fields of its response: see wire.responses. The throttle time
# is not for it to say: `server` does, for all.
Handle = Callable[[Broker, Any, Asked], Awaitable[Values]]
