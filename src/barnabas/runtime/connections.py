"""Connections: all clients of a listener, and what they hold together.

Owns the listening socket, and what connections share: room for frames that are being received (`receiving`), memory
for answers that are not read (`answers`), and how many there may be (`connection_limits`). What is over a limit waits,
and who makes others wait without getting on is closed. One connection is in `connection`.
"""

import asyncio
from contextlib import suppress
from typing import Final

from barnabas.runtime.answers import Answer, UnreadBudget
from barnabas.runtime.connection import Connection, Handler, Slot, Work
from barnabas.runtime.connection_limits import ConnectionLimits, Crowd
from barnabas.runtime.log_lines import get_logger, report
from barnabas.runtime.receiving import ReceiveBudget

__all__ = ["Answer", "Connection", "ConnectionLimits", "Connections", "Handler", "Slot", "Work"]

log = get_logger("barnabas.connections")

SHARED_BUFFER: Final = 256 * 1024
SWEEP_S: Final = 5.0
HURRY: Final = 10  # a client that does not read is given this part of the time while the memory for answers is used up


class Connections:
    """All connections of a listener: `bind` takes its address, `serve` lets clients in, `close` ends everything."""

    def __init__(self, handler: Handler, limits: ConnectionLimits, tasks: asyncio.TaskGroup) -> None:
        self.handler = handler
        self.limits = limits
        self.tasks = tasks
        self.loop = asyncio.get_running_loop()
        self.open: dict[Connection, None] = {}
        self.receiving = ReceiveBudget(limits)
        self.unread = UnreadBudget(limits.max_unread_bytes)
        self.shared = bytearray(SHARED_BUFFER)
        self.refused = 0
        self.served_last: Connection | None = None
        self.shared_at = 0.0  # when that was another one than before
        self._crowd = Crowd()
        self._lost = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Take the address, and say which it is; nobody is let in yet."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), host or None, port, backlog=1024, start_serving=False
        )
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def serve(self) -> None:
        """Let clients in."""
        assert self._server is not None
        await self._server.start_serving()
        self._sweep()

    async def close(self, *, grace_s: float) -> None:
        """Let nobody in any more, answer what waits, and after the grace close what is left."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self.open):
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._wait_empty()
        for connection in list(self.open):
            connection.abort()
        self.receiving.close()
        if self._server is not None:
            await self._server.wait_closed()

    async def _wait_empty(self) -> None:
        while self.open:
            self._lost.clear()
            await self._lost.wait()

    def let_in(self, connection: Connection) -> bool:
        """Count a new connection; False when there are too many."""
        reason = self._crowd.enter(connection.ip, self.limits)
        if reason is not None:
            self.refused += 1
            log.warning("closing %s:%s: %s", *connection.peer, reason, extra={"kind": "too many connections"})
            return False
        self.open[connection] = None
        return True

    def note_lost(self, connection: Connection) -> bool:
        """A connection is gone; False when it was never let in."""
        if connection not in self.open:
            return False
        del self.open[connection]
        if self.served_last is connection:
            self.served_last = None
        self._crowd.leave(connection.ip)
        self._lost.set()
        return True

    def _sweep(self) -> None:
        """Close what has been idle for too long, and what takes too long to send a request or to read an answer."""
        now, limits = self.loop.time(), self.limits
        for connection in list(self.open):
            if connection.last_frame_at < now - limits.max_idle_s and not connection.has_waiting:
                connection.close()
        self.receiving.sweep()
        self._close_deaf(now)
        report()
        interval_s = min(limits.max_idle_s, limits.max_frame_s, limits.max_unread_s / HURRY) / 4
        self._sweeper = self.loop.call_later(min(interval_s, SWEEP_S), self._sweep)

    def _close_deaf(self, now: float) -> None:
        """Close those that do not read their answers, the longest first: sooner when others want the memory."""
        limit_s = self.limits.max_unread_s
        stalled = [(connection.stalled_s(now), connection) for connection in self.open if connection.has_unread]
        deaf = [(stalled_s, each) for stalled_s, each in stalled if stalled_s >= limit_s / HURRY]
        for stalled_s, connection in sorted(deaf, key=lambda each: -each[0]):
            if stalled_s >= limit_s or self.unread.is_used_up:
                log.warning(
                    "closing %s:%s: it has read nothing of its answer for %.0f s",
                    *connection.peer,
                    stalled_s,
                    extra={"kind": "unread answer"},
                )
                connection.abort()
