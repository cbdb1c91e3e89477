"""What every mechanism is: messages of a client in, answers out, and in the end who the client is."""

from typing import NamedTuple, Protocol

from barnabas.services.session import Principal


class Identity(NamedTuple):
    """Who a client is, and until when its proof is good; None: for as long as it is connected."""

    principal: Principal
    expires_at_ms: int | None = None  # in wall time
    is_node: bool = False
    stamp: bytes = b""
    """Of what a caller has logged in with, see `Callers.still_counts`; empty: nothing that can change."""


class Reply(NamedTuple):
    """What is answered; the client is known if there is an identity."""

    message: bytes
    identity: Identity | None = None


class Exchange(Protocol):
    """One login by one mechanism."""

    async def take(self, message: bytes) -> Reply:
        """The answer to a message of the client; raises `SaslAuthenticationFailed` if it is refused."""
        ...
