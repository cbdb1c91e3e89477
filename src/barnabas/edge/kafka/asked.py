"""What a handler is told about a request beside its content."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


class Asked(NamedTuple):
    """Who asked, and in which version."""

    version: int
    client_id: str | None
    peer: tuple[str, int]
    local: tuple[str, int]

    @property
    def client_host(self) -> str:
        """Where the client is, as groups are told, in the words of Java."""
        return f"/{self.peer[0]}"


# A handler takes a request's kio entity and returns the fields of its response: see wire.responses.
Handle = Callable[[Broker, Any, Asked], Awaitable[Values]]
