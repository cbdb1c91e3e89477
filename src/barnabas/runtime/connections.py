"""Connections: the clients of all listeners, and what they hold together.

Owns the listening sockets, and what connections share: room for frames that are being received (`receiving`), memory
for answers that are not read (`answers`), and how many there may be (`connection_limits`). What is over a limit waits,
and a connection that makes others wait without progress is closed. One connection is in `connection`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable
from contextlib import suppress
from socket import SO_RCVBUF, SO_SNDBUF, SOL_SOCKET, socket
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.runtime.answers import Answer, UnreadBudget
from barnabas.runtime.connection import Connection, Edge, Handler, Slot, Work
from barnabas.runtime.connection_limits import LEFT_TO_THE_SYSTEM, ConnectionLimits, Crowd
from barnabas.runtime.log_lines import get_logger, report
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.newcomers import Newcomer, Newcomers
from barnabas.runtime.receiving import ReceiveBudget

if TYPE_CHECKING:
    from barnabas.runtime.tls import Tls
    from barnabas.runtime.tls_listener import TlsListener

    Server: TypeAlias = asyncio.Server | TlsListener

__all__ = ["Answer", "Connection", "ConnectionLimits", "Connections", "Edge", "Handler", "Slot", "Work"]

log = get_logger("barnabas.connections")

SHARED_BUFFER: Final = 256 * 1024
SWEEP_S: Final = 5.0
HURRY: Final = 10  # a client that does not read is given this part of the time while the memory for answers is used up


class Connections:
    """All connections: `bind` binds a listener, `serve` accepts clients, `close` closes everything."""

    def __init__(
        self,
        edge: Edge,
        limits: ConnectionLimits,
        tasks: asyncio.TaskGroup,
        *,
        hold_s: Callable[[Connection], float] | None = None,
    ) -> None:
        """`hold_s`: for how many seconds a new connection is held and then closed, as too many come; 0: let it in."""
        self.edge = edge
        self.limits = limits
        self.tasks = tasks
        self.loop = asyncio.get_running_loop()
        self.open: dict[Connection, None] = {}
        self.newcomers = Newcomers()
        self.receiving = ReceiveBudget(limits)
        self.unread = UnreadBudget(limits.max_unread_bytes)
        self.shared = bytearray(SHARED_BUFFER)
        self.accepted = 0
        self.refused = 0  # when they came
        self.closed = 0  # for what they sent
        self.failed_handshakes = 0
        self.received_bytes = 0
        self.served_last: Connection | None = None
        self.shared_at = 0.0  # when that was another one than before
        self.hold_s = hold_s
        self._crowd = Crowd()
        self._lost = asyncio.Event()
        self._servers: dict[str, Server] = {}  # by the name of the listener
        self._sweeper: asyncio.TimerHandle | None = None

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.gauge("connections_open", "Open connections.", lambda: len(self.open))
        metrics.counter("connections_accepted_total", "Connections that were accepted.", lambda: self.accepted)
        metrics.counter(
            "connections_refused_total",
            "Connections that were refused by a limit.",
            lambda: self.refused,
        )
        metrics.counter(
            "connections_closed_for_requests_total",
            "Connections that were closed because a request on them could not be read, or failed.",
            lambda: self.closed,
        )
        metrics.gauge(
            "connections_authenticating",
            "Connections whose client has not proved yet who it is.",
            lambda: len(self.newcomers),
        )
        metrics.counter("tls_handshakes_failed_total", "TLS handshakes that failed.", lambda: self.failed_handshakes)
        metrics.counter("received_bytes_total", "Bytes received from clients.", lambda: self.received_bytes)
        metrics.gauge(
            "unread_response_bytes_free",
            "Memory left for responses that clients have not read.",
            lambda: self.unread.free,
        )

    async def bind(self, host: str, port: int, *, listener: str, tls: Tls | None = None) -> tuple[str, int]:
        """Bind the address of a listener and return it; no client is accepted yet."""
        server: Server
        if tls is None:
            server = await self.loop.create_server(
                lambda: Connection(self, listener), host or None, port, backlog=1024, start_serving=False
            )
        else:
            from barnabas.runtime.tls_listener import TlsListener  # noqa: PLC0415 - few listeners have TLS

            server = TlsListener(self, listener, tls)
            await server.bind(host, port)
        self._servers[listener] = server
        for listening in server.sockets:
            self._set_buffers(listening)
        address = server.sockets[0].getsockname()
        return address[0], address[1]

    def _set_buffers(self, listening: socket) -> None:
        """Set the buffers of all sockets accepted here: beforehand, so that the sizes are announced to clients."""
        sizes = {SO_SNDBUF: self.limits.send_buffer_bytes, SO_RCVBUF: self.limits.receive_buffer_bytes}
        for option, size in sizes.items():
            if size != LEFT_TO_THE_SYSTEM:
                listening.setsockopt(SOL_SOCKET, option, size)

    async def serve(self, listeners: Collection[str] | None = None) -> None:
        """Accept clients of these listeners, or of all."""
        assert self._servers
        for name, server in self._servers.items():
            if (listeners is None or name in listeners) and not server.is_serving():
                await server.start_serving()
        if self._sweeper is None:
            self._sweep()

    async def close(self, *, grace_s: float) -> None:
        """Stop accepting, answer the pending requests, and close the remaining connections after the grace period."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers.values():
            server.close()
        for connection in list(self.open):
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._wait_empty()
        for connection in list(self.open):
            connection.abort()
        self.receiving.close()
        for server in self._servers.values():
            await server.wait_closed()

    async def _wait_empty(self) -> None:
        while self.open:
            self._lost.clear()
            await self._lost.wait()

    def count(self, peer: tuple[str, int]) -> bool:
        """Count a new connection from an address; False if there are too many."""
        reason = self._crowd.enter(peer[0], self.limits)
        if reason is not None:
            self._refuse(peer, reason)
        return reason is None

    def _refuse(self, peer: tuple[str, int], reason: str) -> None:
        self.refused += 1
        log.warning("closing %s:%s: %s", *peer, reason, extra={"kind": "too many connections"})

    def begin_handshake(self, listener: str, peer: tuple[str, int], close: Callable[[], object]) -> None:
        """The TLS handshake begins of a connection that is counted; `close` ends it before it is done."""
        self._place((listener, peer), peer, close)

    def end_handshake(self, listener: str, peer: tuple[str, int], *, is_done: bool) -> None:
        """A TLS handshake is over; unless it is done, so is its connection."""
        self.newcomers.remove((listener, peer))
        if not is_done:
            self.failed_handshakes += 1
            self._crowd.leave(peer[0])

    def note_authenticating(self, connection: Connection) -> None:
        """The client of this connection has to prove who it is."""
        self.newcomers.remove((connection.listener, connection.peer))  # its handshake is done
        self._place(connection, connection.peer, connection.abort)

    def _place(self, key: Hashable, peer: tuple[str, int], close: Callable[[], object]) -> None:
        newcomer = Newcomer(peer, self.loop.time(), close)
        for each in self.newcomers.add(key, newcomer, most=self.limits.max_authenticating):
            self._refuse(
                each.peer,
                f"more than {self.limits.max_authenticating} connections have not been authenticated yet "
                "(max.connections.authenticating), and it is the oldest of the address that has the most",
            )
            each.close()

    def let_in(self, connection: Connection) -> bool:
        """Take a new connection in; False if there are too many."""
        if not connection.is_counted and not self.count(connection.peer):
            return False
        self.open[connection] = None
        connection.is_let_in = True
        self.accepted += 1
        return True

    def note_lost(self, connection: Connection) -> bool:
        """A connection is gone; False if it was never accepted."""
        if connection not in self.open:
            return False
        del self.open[connection]
        self.newcomers.remove(connection)
        if self.served_last is connection:
            self.served_last = None
        self._crowd.leave(connection.ip)
        self._lost.set()
        return True

    def _sweep(self) -> None:
        """Close connections that are idle for too long, or take too long to send a request or to read an answer."""
        now, limits = self.loop.time(), self.limits
        for connection in list(self.open):
            if connection.last_frame_at < now - limits.max_idle_s and not connection.has_waiting:
                connection.close()
        self._close_unknown(now)
        self.receiving.sweep()
        self._close_deaf(now)
        report()
        interval_s = min(
            limits.max_idle_s, limits.max_frame_s, limits.max_authenticating_s, limits.max_unread_s / HURRY
        )
        interval_s /= 4
        self._sweeper = self.loop.call_later(min(interval_s, SWEEP_S), self._sweep)

    def _close_unknown(self, now: float) -> None:
        """Close connections whose client has had long enough to prove who it is."""
        for newcomer in self.newcomers.older_than(now - self.limits.max_authenticating_s):
            log.warning(
                "closing %s:%s: it has not been authenticated within %.0f s",
                *newcomer.peer,
                self.limits.max_authenticating_s,
                extra={"kind": "not authenticated"},
            )
            newcomer.close()

    def _close_deaf(self, now: float) -> None:
        """Close connections that do not read their answers, the longest stalled first; sooner if memory is scarce."""
        limit_s = self.limits.max_unread_s
        stalled = [(connection.stalled_s(now), connection) for connection in self.open if connection.has_unread]
        deaf = [(stalled_s, each) for stalled_s, each in stalled if stalled_s >= limit_s / HURRY]
        for stalled_s, connection in sorted(deaf, key=lambda each: -each[0]):
            if stalled_s >= limit_s or self.unread.is_used_up:
                log.warning(
                    "closing %s:%s: it has read nothing of its response for %.0f s",
                    *connection.peer,
                    stalled_s,
                    extra={"kind": "unread answer"},
                )
                connection.abort()
