"""The client of a connection, as every verb and every edge sees it.

An edge makes one session for each connection, which is passed to everything done for it. Concurrent requests of one
connection are of one client: the client id is that of the request being handled.
"""

from collections.abc import Callable
from typing import Final, NamedTuple


class Principal(NamedTuple):
    """A principal of authorization, as in ``User:alice``."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Software(NamedTuple):
    """The name and version of the client software; empty until the client has sent them."""

    name: str = ""
    version: str = ""


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
_UNNAMED: Final = Software()


def _nobody(seconds: float) -> None:
    """A client that is not connected to this node cannot be held here."""


def _always() -> None:
    """A login that counts for as long as its connection."""


class Session:
    """One client, for as long as it is connected."""

    __slots__ = (
        "check_login",
        "client_id",
        "expires_at_ms",
        "is_for_controllers",
        "is_forwarded",
        "is_node",
        "listener",
        "local",
        "mute",
        "on_close",
        "peer",
        "principal",
        "request",
        "software",
        "throttle_ms",
    )

    def __init__(
        self, *, listener: str, peer: tuple[str, int], local: tuple[str, int], is_for_controllers: bool = False
    ) -> None:
        self.listener = listener  # the name of the listener that it came through
        self.is_for_controllers = is_for_controllers  # that listener
        self.is_forwarded = False  # whether the client asked another node, which has checked what is its own to check
        self.is_node = False  # whether it has proved to be a node of this cluster
        self.expires_at_ms: int | None = None  # when its login ends, in wall time, for edges whose streams outlast it
        self.check_login: Callable[[], None] = _always  # refuses one whose login has ended, for streams of those edges
        self.peer = peer
        self.local = local
        self.principal = ANONYMOUS
        self.client_id: str | None = None
        self.request = ""  # what it asks for now, for the audit log: the name of the API
        self.software = _UNNAMED
        self.on_close: dict[object, Callable[[], None]] = {}  # called when the connection is gone, by whose they are
        self.throttle_ms = 0  # how long its quota asks it to wait, which the next answer tells it; 0 without quotas
        self.mute: Callable[[float], None] = _nobody  # takes nothing more from it for so many seconds

    def close(self) -> None:
        """The connection is gone."""
        callbacks, self.on_close = self.on_close, {}
        for callback in callbacks.values():
            callback()

    @property
    def client_host(self) -> str:
        """The client's address in Java's notation, as group descriptions show it."""
        return f"/{self.peer[0]}"
