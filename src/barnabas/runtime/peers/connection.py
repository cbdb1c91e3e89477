"""One connection to another node: requests out, frames in, each matched to its request.

Owns framing, correlation and the versions both sides support. After an answer without a request, or a frame that is too
long or too short, nothing can be trusted, so the connection ends, and with it every request in flight.

Must not know: what the requests mean, nor when to reconnect.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, cast

from barnabas.core.errors import PeerLost, UnsupportedVersion
from barnabas.core.records.batch import Buffer
from barnabas.runtime.peers.limits import PeerLimits
from barnabas.wire.apis import API_VERSIONS
from barnabas.wire.errors import MalformedAnswer
from barnabas.wire.frame import LENGTH_SIZE, request_head
from barnabas.wire.requests import is_flexible, write_request
from barnabas.wire.responses import read_response
from barnabas.wire.schemas import known_versions
from barnabas.wire.writing import Values

SMALL_BYTES: Final = 64 * 1024  # of frames that lie in one buffer; a longer one gets its own
_LENGTH: Final = struct.Struct(">i")
_LAST_ID: Final = 2**31 - 1
_FIRST_VERSION: Final = 0  # of ApiVersions: every node knows it, and its answer says which others there are


class SentRequest:
    """A request that was sent, and the future of its answer."""

    __slots__ = ("answer", "expiry", "size")

    def __init__(self, answer: "asyncio.Future[Buffer]", size: int) -> None:
        self.answer = answer
        self.size = size
        self.expiry: asyncio.TimerHandle | None = None  # of one that nobody waits for any more


class PeerConnection(asyncio.BufferedProtocol):
    """A protocol for `create_connection`. Usable once `greet` has returned."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, client_id: str, limits: PeerLimits) -> None:
        self.name = name
        self.ended: asyncio.Future[None] = loop.create_future()
        self.has_answered = False  # anything but the greeting
        self._loop = loop
        self._client_id = client_id.encode()
        self._limits = limits
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._small = bytearray(SMALL_BYTES)
        self._filled = 0  # of `_small`
        self._large: bytearray | None = None  # a frame that does not fit in there
        self._large_filled = 0
        self._waiting: dict[int, SentRequest] = {}
        self._in_flight_bytes = 0
        self._for_room: deque[asyncio.Future[None]] = deque()
        self._next_id = 0
        self._why: str | None = None  # it ended
        self._theirs: dict[int, tuple[int, int]] = {}

    @property
    def is_open(self) -> bool:
        return self._why is None

    @property
    def why_ended(self) -> str:
        return self._why or "it did not end"

    async def greet(self) -> None:
        """Ask which versions the other node supports."""
        answer = await self.ask(API_VERSIONS.key, _FIRST_VERSION, {})
        if answer.error_code:
            raise MalformedAnswer(f"{self.name} refused ApiVersions: error {answer.error_code}")
        self._theirs = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def version(self, api_key: int, *, min_version: int, max_version: int | None) -> int:
        """The newest version of an API that both sides support and that is allowed."""
        ours_oldest, ours_newest = known_versions(api_key)
        theirs_oldest, theirs_newest = self._theirs.get(api_key, (0, -1))
        newest = min(ours_newest if max_version is None else max_version, theirs_newest)
        if newest < max(ours_oldest, theirs_oldest, min_version):
            known = f"only versions {theirs_oldest} to {theirs_newest}" if api_key in self._theirs else "no version"
            raise UnsupportedVersion(f"{self.name} supports {known} of API {api_key}")
        return newest

    async def ask(self, api_key: int, version: int, values: Values) -> Any:
        """The answer to a request of the greeting or the authentication: one at a time, and short."""
        sent = self.send(api_key, version, [write_request(api_key, version, values)])
        return read_response(api_key, version, await sent.answer)

    async def wait_room(self, size: int) -> None:
        """Wait until a request of `size` bytes may be sent, or the connection has ended."""
        while self.is_open and not self._has_room(size):
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._for_room.append(waiter)
            try:
                await waiter
            except BaseException:
                if waiter in self._for_room:
                    self._for_room.remove(waiter)
                else:
                    self._offer_room()  # it was offered to one who is gone
                raise

    def send(self, api_key: int, version: int, body: Sequence[Buffer]) -> SentRequest:
        """Send a request whose body is in pieces. Its future has the frame of the answer, or `PeerLost`."""
        assert self.is_open, "nothing can be sent"
        self._next_id = self._next_id % _LAST_ID + 1
        size = sum(len(piece) for piece in body)
        head = request_head(
            api_key, version, self._next_id, self._client_id, size, is_flexible=is_flexible(api_key, version)
        )
        sent = SentRequest(self._loop.create_future(), size)
        self._waiting[self._next_id] = sent
        self._in_flight_bytes += size
        self._transport.writelines([head, *body])
        return sent

    def abandon(self, sent: SentRequest, deadline: float) -> None:
        """The caller has given up. The answer is dropped when it arrives; if it does not, the connection ends."""
        if not sent.answer.done() or sent.answer.cancelled():
            sent.expiry = self._loop.call_at(deadline, self.end, "it did not answer in time")

    def end(self, why: str) -> None:
        """Close the connection; requests in flight fail."""
        if self._why is not None:
            return
        self._why = why
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, {}
        self._in_flight_bytes = 0
        for sent in waiting.values():
            _stop(sent.expiry)
            if not sent.answer.done():
                sent.answer.set_exception(PeerLost(f"lost the connection to {self.name}: {why}"))
                sent.answer.exception()  # heard, even if nobody waits any more
        self._offer_room()
        if not self.ended.done():
            self.ended.set_result(None)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._why is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(str(exc) if exc else "it closed the connection")

    def eof_received(self) -> bool:
        return False

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return memoryview(self._small)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._large is None:
            self._filled += nbytes
            self._take_small()
            return
        self._large_filled += nbytes
        if self._large_filled == len(self._large):
            frame, self._large = self._large, None
            self._take(memoryview(frame).toreadonly())

    def _take_small(self) -> None:
        begin = 0
        while self.is_open and self._filled - begin >= LENGTH_SIZE:
            (size,) = _LENGTH.unpack_from(self._small, begin)
            if not 4 <= size <= self._limits.max_answer_bytes:
                self.end(f"it announced an answer of {size} bytes")
                return
            stop = begin + LENGTH_SIZE + size
            if stop > self._filled:
                if LENGTH_SIZE + size > SMALL_BYTES:
                    self._begin_large(begin + LENGTH_SIZE, size)
                    return
                break
            self._take(bytes(self._small[begin + LENGTH_SIZE : stop]))
            begin = stop
        self._small[: self._filled - begin] = self._small[begin : self._filled]
        self._filled -= begin

    def _begin_large(self, begin: int, size: int) -> None:
        self._large = bytearray(size)
        self._large_filled = self._filled - begin
        self._large[: self._large_filled] = self._small[begin : self._filled]
        self._filled = 0

    def _take(self, frame: Buffer) -> None:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        sent = self._waiting.pop(correlation_id, None)
        if sent is None:
            self.end(f"it answered with the unknown correlation id {correlation_id}")
            return
        self.has_answered |= bool(self._theirs)
        self._in_flight_bytes -= sent.size
        _stop(sent.expiry)
        if not sent.answer.done():
            sent.answer.set_result(frame)
        self._offer_room()

    def _has_room(self, size: int) -> bool:
        if not self._waiting:
            return True
        return (
            len(self._waiting) < self._limits.max_in_flight
            and self._in_flight_bytes + size <= self._limits.max_in_flight_bytes
        )

    def _offer_room(self) -> None:
        """Wake the first waiter; all, once the connection has ended."""
        while self._for_room:
            waiter = self._for_room.popleft()
            if not waiter.done():
                waiter.set_result(None)
                if self.is_open:
                    return


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
