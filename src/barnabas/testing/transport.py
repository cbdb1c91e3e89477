"""One end of a simulated connection: what a protocol takes for a socket's transport.

Calls a protocol in asyncio's order: `connection_made`, then data, `eof_received` at most once, `connection_lost` last
and once; never from within a call of the protocol's own, but for `pause_writing`, as in asyncio. All in the context in
which the end was made, so that they belong to its host.

Must not know: how bytes travel (`link`), who listens where (`network`).
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, Protocol

from barnabas.testing.link import Link

HIGH_WATER: Final = 64 * 1024


class EndOwner(Protocol):
    """Notified when an end is gone: the server that accepted it, or its connection."""

    def note_gone(self, transport: "SimulatedTransport") -> None: ...


class SimulatedTransport(asyncio.Transport):
    """A stream transport for a Protocol or a BufferedProtocol."""

    outgoing: Link
    incoming: Link

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        host_name: str,
        context: Context,
        sockname: tuple[str, int],
        peername: tuple[str, int],
    ) -> None:
        super().__init__({"socket": None, "sockname": sockname, "peername": peername})
        self.host_name = host_name
        self.context = context
        self.owners: list[EndOwner] = []
        self.is_gone = False  # the socket is closed
        self._loop = loop
        self._protocol: asyncio.BaseProtocol | None = None
        self._buffer = bytearray()
        self._has_started = False
        self._is_paused = False
        self._is_closing = False
        self._is_lost = False  # connection_lost was called or will be
        self._has_written_eof = False
        self._has_read_end = False
        self._holds_writer = False
        self._low_water, self._high_water = HIGH_WATER // 4, HIGH_WATER

    def start(self, protocol: asyncio.BaseProtocol, waiter: asyncio.Future[None] | None = None) -> None:
        """Tell the protocol that it is connected, then begin to read, then wake `waiter`."""
        self._protocol = protocol
        self._soon(protocol.connection_made, self)
        self._soon(self._begin_reading)
        if waiter is not None:
            self._soon(_wake, waiter)

    def vanish(self) -> None:
        """The host crashed: the socket is gone, without a call of the protocol."""
        self.is_gone = self._is_lost = self._is_closing = True
        self._buffer.clear()
        self._tell_owners()

    # What a protocol calls.

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Whom it calls."""
        assert self._protocol is not None, "this end is gone, or not accepted yet"
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Call another one from now on."""
        self._protocol = protocol

    def is_closing(self) -> bool:
        """Whether it is closed or will be."""
        return self._is_closing

    def is_reading(self) -> bool:
        """Whether the protocol takes bytes."""
        return not self._is_closing and not self._is_paused

    def pause_reading(self) -> None:
        """Give the protocol no bytes for now."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Give it bytes again."""
        if self._is_paused and not self._is_closing:
            self._is_paused = False
            self.incoming.kick()

    def get_write_buffer_size(self) -> int:
        """How many bytes the network has not taken yet."""
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Below which size the protocol may go on writing, above which it should stop."""
        return self._low_water, self._high_water

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set them; each follows from the other as in asyncio."""
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low_water, self._high_water = low, high
        self._hold_writer()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; what the network does not take now is kept."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._has_written_eof:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._is_lost or not data:
            return
        view = memoryview(data).cast("B")
        taken = 0 if self._buffer else self.outgoing.send(view)
        self._buffer += view[taken:]
        self._hold_writer()

    def writelines(self, list_of_data: Any) -> None:
        """Send several pieces as one."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Always."""
        return True

    def write_eof(self) -> None:
        """End the stream after what was written; go on reading."""
        if self._is_closing or self._has_written_eof:
            return
        self._has_written_eof = True
        if not self._buffer:
            self.outgoing.end()

    def close(self) -> None:
        """Send what was written, then close."""
        if self._is_closing:
            return
        self._is_closing = True
        if not self._buffer:
            self._lose_soon(None)

    def abort(self) -> None:
        """Close at once. What the network has taken may still arrive, or a reset instead of it."""
        if not self._is_lost:
            self.outgoing.abandon()
            self.lose(None)

    # What a link calls.

    def is_ready(self) -> bool:
        """Whether bytes can be read now."""
        return self._has_started and not self._has_read_end and self.is_reading()

    def read(self, size: int, take: Callable[[int], bytes]) -> None:
        """Up to `size` bytes are here: take them and hand them to the protocol."""
        try:
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                _read_into(self._protocol, size, take)
            else:
                assert isinstance(self._protocol, asyncio.Protocol)
                self._protocol.data_received(take(size))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._fail(error, "Fatal error: a protocol failed to take data.")

    def read_end(self) -> None:
        """The peer sends no more."""
        self._has_read_end = True
        assert isinstance(self._protocol, (asyncio.BufferedProtocol, asyncio.Protocol))
        try:
            stays_open = self._protocol.eof_received()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._fail(error, "Fatal error: protocol.eof_received() call failed.")
        else:
            if not stays_open:
                self.close()

    def note_room(self) -> None:
        """The network takes bytes again."""
        if self._is_lost or not self._buffer:
            return
        taken = self.outgoing.send(memoryview(bytes(self._buffer)))
        del self._buffer[:taken]
        self._release_writer()
        if self._buffer:
            return
        if self._is_closing:
            self._lose_soon(None)
        elif self._has_written_eof:
            self.outgoing.end()

    def lose(self, error: BaseException | None) -> None:
        """The connection is over: drop what was not sent, and tell the protocol."""
        if self._is_lost:
            return
        self._buffer.clear()
        self._is_closing = True
        self._lose_soon(error)

    def _begin_reading(self) -> None:
        self._has_started = True
        self.incoming.kick()

    def _lose_soon(self, error: BaseException | None) -> None:
        self._is_lost = True
        self._soon(self._end, error)

    def _end(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        try:
            if protocol is not None:
                protocol.connection_lost(error)
        finally:
            self.is_gone = True
            self.outgoing.end()
            self.incoming.kick()  # what comes too late is answered by a reset
            self._tell_owners()

    def _tell_owners(self) -> None:
        owners, self.owners = self.owners, []
        for owner in owners:
            owner.note_gone(self)

    def _hold_writer(self) -> None:
        if len(self._buffer) > self._high_water and not self._holds_writer:
            self._holds_writer = True
            self._call_writer("pause_writing")

    def _release_writer(self) -> None:
        if self._holds_writer and len(self._buffer) <= self._low_water:
            self._holds_writer = False
            self._call_writer("resume_writing")

    def _call_writer(self, name: str) -> None:
        try:
            getattr(self._protocol, name)()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._report(error, f"protocol.{name}() failed")

    def _fail(self, error: BaseException, message: str) -> None:
        self._report(error, message)
        self.lose(error)

    def _report(self, error: BaseException, message: str) -> None:
        context = {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
        self._loop.call_exception_handler(context)

    def _soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._loop.call_soon(callback, *args, context=self.context)

    def __repr__(self) -> str:
        return f"<SimulatedTransport {self.get_extra_info('sockname')} to {self.get_extra_info('peername')}>"


def _read_into(protocol: asyncio.BufferedProtocol, size: int, take: Callable[[int], bytes]) -> None:
    buffer = memoryview(protocol.get_buffer(-1)).cast("B")
    if not len(buffer):
        raise RuntimeError("get_buffer() returned an empty buffer")
    data = take(min(size, len(buffer)))
    buffer[: len(data)] = data
    buffer.release()
    protocol.buffer_updated(len(data))


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
