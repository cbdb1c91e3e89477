"""A server for `/metrics`, `/healthz` and `/readyz`, on asyncio alone: what the base install has of HTTP.

Three GETs of a few headers need no framework, and a node whose API is off imports none. Where the API is on
(`barnabas[http]`), the same answers are given by it (`routes`), on the same address.

Limits: 100 connections, 8 KB of request, 10 seconds for it, one request for each connection.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from socket import socket
from ssl import SSLContext
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from barnabas.edge.http.hosts import HostCheck

MAX_CONNECTIONS: Final = 100
MAX_HEAD_BYTES: Final = 8192
TIMEOUT_S: Final = 10.0
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


class PlainRequest(NamedTuple):
    """What is asked for, and by whom."""

    path: str
    query: Mapping[str, Sequence[str]]
    accept: str = ""
    authorization: str = ""
    peer: tuple[str, int] = ("", 0)


class PlainAnswer(NamedTuple):
    """An answer: a status, what it is, and its bytes."""

    status: int
    content_type: str
    body: bytes
    challenge: str = ""  # how to log in

    @property
    def headers(self) -> dict[str, str]:
        """Those that it has besides those of all answers."""
        return {"WWW-Authenticate": self.challenge} if self.challenge else {}


JSON: Final = "application/json"
Answering = Callable[[PlainRequest], Awaitable[PlainAnswer]]


class PlainServer:
    """Serves the three; `start` and `close` it."""

    def __init__(self, answer: Answering, hosts: HostCheck) -> None:
        self._answer = answer
        self._hosts = hosts
        self._open = 0
        self._server: asyncio.Server | None = None

    async def start(self, listening: socket, tls: SSLContext | None = None) -> None:
        """Serve the clients of a socket, which `close` closes."""
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=MAX_HEAD_BYTES, ssl=tls)

    def close(self) -> None:
        """Take no more clients."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                    async with asyncio.timeout(TIMEOUT_S):
                        await self._take(reader, writer)
        finally:
            self._open -= 1
            writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        peer = writer.get_extra_info("peername") or ("", 0)
        answer, is_head = await self._answer_to(head.decode("latin-1"), (peer[0], peer[1]))
        reason = _REASONS.get(answer.status, "Error")
        lines = (
            f"HTTP/1.1 {answer.status} {reason}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
            *(f"{name}: {value}" for name, value in answer.headers.items()),
        )
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if not is_head:
            writer.write(answer.body)
        await writer.drain()

    async def _answer_to(self, head: str, peer: tuple[str, int]) -> tuple[PlainAnswer, bool]:
        first, *rest = head.split("\r\n")
        method, _, target = first.partition(" ")
        target, _, version = target.partition(" ")
        if not version.startswith("HTTP/1."):
            return PlainAnswer(400, JSON, b'{"message":"this is no HTTP request"}'), False
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        refusal = self._hosts.refuse(headers.get("host"), headers.get("origin"))
        if refusal is not None:
            return PlainAnswer(403, JSON, b'{"message":"this address is not one of the node\'s"}'), method == "HEAD"
        url = urlsplit(target)
        if method not in ("GET", "HEAD") and not url.path.startswith("/api/"):
            return PlainAnswer(405, JSON, b'{"message":"only GET"}'), False
        query = parse_qs(url.query, max_num_fields=20)
        asked = PlainRequest(url.path, query, headers.get("accept", ""), headers.get("authorization", ""), peer)
        return await self._answer(asked), method == "HEAD"
