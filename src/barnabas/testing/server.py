"""A listening server of the simulated network."""

import asyncio
import socket
from collections.abc import Callable
from contextvars import Context
from typing import Protocol

from barnabas.testing.transport import SimulatedTransport


class Listeners(Protocol):
    """Where a server is registered by its address."""

    def add_listener(self, server: "SimulatedServer") -> None: ...
    def remove_listener(self, server: "SimulatedServer") -> None: ...


class ListeningSocket:
    """What can be asked of a server's socket."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        """Host name and port."""
        return self._address


class SimulatedServer(asyncio.AbstractServer):
    """Accepts connections to one address. `wait_closed` waits for those to end, as from Python 3.12 on."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listeners: Listeners,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        address: tuple[str, int],
        context: Context,
    ) -> None:
        self._loop = loop
        self._listeners = listeners
        self._protocol_factory = protocol_factory
        self.address = address
        self.context = context
        self._is_serving = False
        self._is_closed = False
        self._clients: dict[SimulatedTransport, None] = {}
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def sockets(self) -> tuple[ListeningSocket, ...]:
        """The one it listens on, none when it is closed."""
        return () if self._is_closed else (ListeningSocket(self.address),)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The simulated loop."""
        return self._loop

    def is_serving(self) -> bool:
        """Whether it accepts connections."""
        return self._is_serving

    def begin(self) -> None:
        """Accept connections from now on."""
        if not self._is_serving and not self._is_closed:
            self._listeners.add_listener(self)
            self._is_serving = True

    async def start_serving(self) -> None:
        """Accept connections from now on."""
        self.begin()

    async def serve_forever(self) -> None:
        """Accept connections until cancelled."""
        self.begin()
        try:
            await self._loop.create_future()
        finally:
            self.close()
            await self.wait_closed()

    def accept(self, transport: SimulatedTransport) -> None:
        """A client has connected; `transport` is our end. Called in the server's context."""
        if not self._is_serving or transport.is_closing():
            transport.outgoing.break_off()
            transport.vanish()
            return
        try:
            protocol = self._protocol_factory()
        except Exception as error:
            self._loop.call_exception_handler({"message": "A protocol factory failed", "exception": error})
            transport.outgoing.break_off()
            transport.vanish()
            return
        self._clients[transport] = None
        transport.owners.append(self)
        transport.start(protocol)

    def note_gone(self, transport: SimulatedTransport) -> None:
        """A connection that was accepted is over."""
        self._clients.pop(transport, None)
        self._wake_waiters()

    def close(self) -> None:
        """Accept no more; open connections go on."""
        if not self._is_closed:
            self._is_closed = True
            self._is_serving = False
            self._listeners.remove_listener(self)
            self._wake_waiters()

    def close_clients(self) -> None:
        """Close every connection once its bytes are sent."""
        for transport in list(self._clients):
            transport.close()

    def abort_clients(self) -> None:
        """Close every connection at once."""
        for transport in list(self._clients):
            transport.abort()

    async def wait_closed(self) -> None:
        """Return when it is closed and its last connection is over."""
        if not self._is_closed or self._clients:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake_waiters(self) -> None:
        if not self._is_closed or self._clients:
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
