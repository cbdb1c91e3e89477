"""One node for one purpose: a connection, opened when needed and reopened when lost, and the calls that wait for it.

A call that finds no connection waits for the next attempt. If that fails, all waiting calls fail at once: nothing was
sent. A request sent over a connection that is lost may have been carried out, and is `PeerLost`.

Must not know: which nodes there are.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from barnabas.core.errors import BarnabasError, InvalidRequest, PeerBusy, PeerLost, PeerTimedOut, PeerUnreachable
from barnabas.runtime.dice import Dice
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.peers.connection import PeerConnection, SentRequest
from barnabas.runtime.peers.limits import Backoff, PeerLimits
from barnabas.runtime.turns import finish
from barnabas.wire.errors import MalformedAnswer
from barnabas.wire.requests import write_request_in_steps
from barnabas.wire.responses import read_response, read_response_in_steps
from barnabas.wire.writing import Values

log = get_logger("barnabas.peers")

Address = tuple[str, int]
Authenticate = Callable[[PeerConnection], Awaitable[None]]
"""An exchange on a new connection, by `PeerConnection.ask`, before anything else is sent; raises if it is refused."""

TlsContext = Callable[[], ssl.SSLContext]
"""The context of a connection that begins now."""

_LONG_BYTES: Final = 32 * 1024  # of an answer that is read in steps


class Channel:
    """Calls to one address over one connection."""

    def __init__(
        self,
        address: Address,
        *,
        tasks: asyncio.TaskGroup,
        loop: asyncio.AbstractEventLoop,
        dice: Dice,
        limits: PeerLimits,
        client_id: str,
        authenticate: Authenticate | None,
        tls: TlsContext | None = None,
    ) -> None:
        self._address = address
        self._name = f"{address[0]}:{address[1]}"
        self._loop = loop
        self._limits = limits
        self._client_id = client_id
        self._authenticate = authenticate
        self._tls = tls
        self._backoff = Backoff(dice, limits)
        self._calls = 0
        self._connection: PeerConnection | None = None
        self._for_connection: deque[asyncio.Future[PeerConnection]] = deque()
        self._is_wanted = asyncio.Event()
        self._is_closed = False
        self._task = tasks.create_task(self._keep_connected(), name=f"peer {self._name}")

    async def call(
        self, api_key: int, values: Values, *, timeout_s: float, min_version: int, max_version: int | None
    ) -> Any:
        """The answer to a request; see `Peer.call`."""
        if self._calls >= self._limits.max_calls:
            raise PeerBusy(f"{self._calls} calls to {self._name} are already waiting")
        deadline = self._loop.time() + timeout_s
        self._calls += 1
        sent: SentRequest | None = None
        try:
            async with asyncio.timeout_at(deadline):
                connection, version, body = await self._wait_turn(api_key, values, min_version, max_version)
                sent = connection.send(api_key, version, [body])
                frame = await self._wait_answer(connection, sent, deadline)
                return await self._read(connection, api_key, version, frame)
        except TimeoutError:
            if sent is None:
                raise PeerUnreachable(f"{self._name} took no request within {timeout_s:g} s") from None
            raise PeerTimedOut(f"{self._name} did not answer within {timeout_s:g} s") from None
        finally:
            self._calls -= 1

    def close(self) -> None:
        """End the connection and every call."""
        self._is_closed = True
        self._task.cancel()
        self._refuse_waiting(f"the connections to {self._name} are closed")
        if self._connection is not None:
            self._connection.end("it is closed")

    # A call

    async def _wait_turn(
        self, api_key: int, values: Values, min_version: int, max_version: int | None
    ) -> tuple[PeerConnection, int, bytearray]:
        """A connection that can take a request, and the request encoded in the version of that connection."""
        while True:
            connection = await self._wait_connection()
            version = connection.version(api_key, min_version=min_version, max_version=max_version)
            body = await finish(write_request_in_steps(api_key, version, values))
            if len(body) > self._limits.max_request_bytes:
                raise InvalidRequest(f"a request of {len(body)} bytes; the maximum is {self._limits.max_request_bytes}")
            await connection.wait_room(len(body))
            if connection.is_open:
                return connection, version, body

    async def _wait_connection(self) -> PeerConnection:
        if self._is_closed:
            raise PeerUnreachable(f"the connections to {self._name} are closed")
        if self._connection is not None and self._connection.is_open:
            return self._connection
        waiter: asyncio.Future[PeerConnection] = self._loop.create_future()
        self._for_connection.append(waiter)
        self._is_wanted.set()
        try:
            return await waiter
        finally:
            if waiter in self._for_connection:
                self._for_connection.remove(waiter)

    async def _wait_answer(self, connection: PeerConnection, sent: SentRequest, deadline: float) -> Any:
        try:
            return await sent.answer
        except asyncio.CancelledError:
            if self._loop.time() >= deadline:
                connection.end("it did not answer in time")
            else:
                connection.abandon(sent, deadline)
            raise

    async def _read(self, connection: PeerConnection, api_key: int, version: int, frame: Any) -> Any:
        try:
            if len(frame) <= _LONG_BYTES:
                return read_response(api_key, version, frame)
            return await finish(read_response_in_steps(api_key, version, frame))
        except MalformedAnswer as error:
            connection.end(f"it sent an answer that cannot be read: {error}")
            raise PeerLost(f"{self._name} sent an answer that cannot be read: {error}") from error

    # The connection

    async def _keep_connected(self) -> None:
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            if not self._for_connection:
                continue  # whoever wanted it is gone
            connection = await self._connect()
            if connection is not None:
                await connection.ended
                log.info("the connection to %s ended: %s", self._name, connection.why_ended)
                if connection.has_answered:
                    self._backoff.reset()
            if connection is None or not connection.has_answered:
                await asyncio.sleep(self._backoff.throw_s())
            if self._for_connection:
                self._is_wanted.set()

    async def _connect(self) -> PeerConnection | None:
        """A new connection for all waiting calls; None if that failed, and so did the calls."""
        connection = PeerConnection(self._loop, self._name, self._client_id, self._limits)
        try:
            async with asyncio.timeout(self._limits.connect_timeout_s):
                await connect(
                    connection, self._address, loop=self._loop, tls=self._tls, authenticate=self._authenticate
                )
        # A timeout is an OSError; a host that can be no name, which somebody else has told us, is a ValueError.
        except (OSError, ValueError, BarnabasError) as error:
            why = str(error) or f"no answer within {self._limits.connect_timeout_s:g} s"
            connection.end(why)
            self._refuse_waiting(f"cannot connect to {self._name}: {why}")
            return None
        except BaseException:
            connection.end("it is no longer needed")
            raise
        if connection.is_open:
            self._connection = connection
            while self._for_connection:
                waiter = self._for_connection.popleft()
                if not waiter.done():
                    waiter.set_result(connection)
        return connection

    def _refuse_waiting(self, why: str) -> None:
        while self._for_connection:
            waiter = self._for_connection.popleft()
            if not waiter.done():
                waiter.set_exception(PeerUnreachable(why))
                waiter.exception()  # heard, even if nobody waits any more


async def connect(
    connection: PeerConnection,
    address: Address,
    *,
    loop: asyncio.AbstractEventLoop,
    tls: TlsContext | None,
    authenticate: Authenticate | None,
) -> None:
    """Open a connection and begin it; use your own deadline."""
    if tls is None:
        await loop.create_connection(lambda: connection, *address)
    else:
        await loop.create_connection(lambda: connection, *address, ssl=tls(), server_hostname=address[0])
    await connection.greet()
    if authenticate is not None:
        await authenticate(connection)
