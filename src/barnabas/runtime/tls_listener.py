"""A listener with TLS: accepts connections, and hands those over whose handshake is done.

A connection counts from the moment that it is accepted, so that whoever opens connections and sends nothing is limited
as everybody else. It is accepted here, and not by the loop's own server, which says nothing of handshakes that fail.
"""

import asyncio
import logging
import socket
import ssl
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.runtime.connection import Connection
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.tls import SHUTDOWN_TIMEOUT_S, Tls
from barnabas.runtime.tls_alerts import REFUSED

if TYPE_CHECKING:
    from barnabas.runtime.connections import Connections

log = get_logger("barnabas.connections")

BACKLOG: Final = 1024
RETRY_S: Final = 0.1
"""How long nothing is accepted when that fails: there are no descriptors left, say."""


class TlsListener:
    """The sockets of one listener; the part of `asyncio.Server` that `Connections` uses."""

    def __init__(self, connections: "Connections", name: str, tls: Tls) -> None:
        self._all = connections
        self._name = name
        self._tls = tls
        self.sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._shaking: set[asyncio.Task[None]] = set()

    async def bind(self, host: str, port: int) -> None:
        """Bind all addresses of a host, or none."""
        found = await self._all.loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self.sockets.append(_bound(family, kind, protocol, address))
        except OSError:
            self.close()
            raise

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return bool(self._accepting)

    async def start_serving(self) -> None:
        """Accept connections from now on."""
        for listening in self.sockets:
            listening.listen(BACKLOG)
            self._accepting.append(self._all.tasks.create_task(self._accept(listening), name=f"accept {self._name}"))

    def close(self) -> None:
        """Accept no more, and end handshakes that are not done."""
        for task in (*self._accepting, *self._shaking):
            task.cancel()
        for listening in self.sockets:
            self._all.loop.remove_reader(listening.fileno())
            listening.close()
        self.sockets = []

    async def wait_closed(self) -> None:
        """Return when nothing is accepted any more."""
        if self._accepting:
            await asyncio.wait(self._accepting)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, address = await self._all.loop.sock_accept(listening)
            except OSError as error:
                log.warning("cannot accept connections on %s: %s", self._name, error, extra={"kind": "accept"})
                await asyncio.sleep(RETRY_S)
                continue
            peer = (str(address[0]), int(address[1]))
            if not self._all.count(peer):
                accepted.close()
                continue
            task = self._all.tasks.create_task(self._shake_hands(accepted, peer))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)
            # Not at once: one that has not begun would never come to its end, where it is counted.
            self._all.begin_handshake(self._name, peer, partial(self._all.loop.call_soon, task.cancel))

    async def _shake_hands(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        connection = Connection(self._all, self._name, is_counted=True)
        refused: list[ssl.SSLError] = []
        REFUSED.set(refused)
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._all.loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._tls.server,
                ssl_handshake_timeout=self._tls.config.handshake_timeout_s,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
        except OSError as error:  # also what OpenSSL says, and that time is over
            why = refused[0] if refused else error  # once refused, a client is often gone before it is closed
            reason = getattr(why, "reason", None) or str(why)
            level = logging.WARNING if reason else logging.INFO  # one that only sees whether somebody listens
            log.log(
                level,
                "closing %s:%s: its TLS handshake failed: %s",
                *peer,
                reason or "it is gone",
                extra={"kind": "TLS"},
            )
        finally:
            # One that was let in is counted until it is lost, whatever became of the handshake's own task since.
            self._all.end_handshake(self._name, peer, is_done=connection.is_let_in)


def _bound(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and sys.platform != "win32":
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening
