"""Connections: bytes in, whole frames to a handler, answers out in the order of the requests.

Owns sockets and what waits on them. A frame is handed over where it was received and belongs to the handler only until
it returns: what it needs longer it decodes or copies first. Small frames lie in one buffer that all connections share,
a large one gets its own and is received straight into it.

Order: answers leave in the order of their requests. Requests that `may_overlap` (produces) are handled without waiting
for each other's answers; everything else is handled only when every earlier request of its connection is answered, so
that what a client pipelines takes effect in the order it was sent.

Limits: a frame's size; the bytes of frames being received, over all connections (a connection that wants more waits its
turn, and one that holds some without getting on is closed); the requests of one connection that wait for their answer;
the time between two frames; how much of an answer a slow reader may leave in our memory before it is read no further.

Must not know: what is in a frame.
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from barnabas.core.errors import BarnabasError
from barnabas.core.records.batch import Buffer

log = logging.getLogger("barnabas.connections")

LENGTH_SIZE: Final = 4
SHARED_BUFFER: Final = 256 * 1024
GROWTH: Final = 8  # a frame's buffer is at most this many times what was received, whatever length it claims
SMALLEST_BUFFER: Final = 4096  # smaller ones do not count
MAX_FRAME_S: Final = 60.0  # how long a frame may take to come while others wait for the bytes it holds
WRITE_HIGH_WATER: Final = 4 * 1024 * 1024
_LENGTH: Final = struct.Struct(">i")

Answer = list[Buffer]


class Slot:
    """The place of one answer in the order of its connection; whoever has it puts the answer in, once."""

    __slots__ = ("_connection", "answer", "is_blocking", "on_close", "on_hurry", "size")

    def __init__(self, connection: "Connection", *, is_blocking: bool, size: int) -> None:
        self._connection = connection
        self.answer: Answer | None = None
        self.is_blocking = is_blocking
        self.size = size  # bytes of the request
        self.on_close: Callable[[], None] | None = None  # called when the client is gone before its answer
        self.on_hurry: Callable[[], None] | None = None  # called when the node stops: answer now

    def put(self, answer: Answer) -> None:
        """Send `answer` as soon as all earlier ones are sent. An empty one sends nothing."""
        assert self.answer is None, "answered twice"
        self.answer = answer
        self._connection.answered(self)

    def continue_with(self, result: "Answer | Work") -> None:
        """Put an answer, or the work that leads to it."""
        if isinstance(result, list):
            self.put(result)
        else:
            self._connection.start(result, self)


class Handler(Protocol):
    """Takes frames: the edge."""

    def may_overlap(self, frame: memoryview) -> bool:
        """Whether this request may begin before the ones that overlap, too, are answered."""
        ...

    def handle(self, frame: memoryview, connection: "Connection") -> "Answer | Callable[[Slot], None] | Work":
        """An answer, or work that leads to one: a coroutine, or a function that takes the slot and sees to it."""
        ...


Work = Coroutine[Any, Any, Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What one connection, and all of them, may hold."""

    max_frame_bytes: int = 100 * 1024 * 1024
    max_queued_bytes: int = 512 * 1024 * 1024
    max_in_flight_bytes: int = 64 * 1024 * 1024  # of one connection; one request is always let through
    max_waiting: int = 1000
    max_connections: int = 10_000
    max_idle_s: float = 600.0


class Connections:
    """All connections of a listener: `bind` takes its address, `serve` lets clients in, `close` ends everything."""

    def __init__(self, handler: Handler, limits: ConnectionLimits, tasks: asyncio.TaskGroup) -> None:
        self.handler = handler
        self.limits = limits
        self.tasks = tasks
        self.loop = asyncio.get_running_loop()
        self.open: dict[Connection, None] = {}
        self.free_bytes = limits.max_queued_bytes
        self.shared = bytearray(SHARED_BUFFER)
        self.refused = 0
        self._lost = asyncio.Event()
        self._holders: dict[Connection, None] = {}  # of bytes of the budget
        self._waiting_for_bytes: dict[Connection, None] = {}  # in the order in which they came
        self._is_giving = False
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
        if self._server is not None:
            await self._server.wait_closed()

    async def _wait_empty(self) -> None:
        while self.open:
            self._lost.clear()
            await self._lost.wait()

    def note_lost(self, connection: "Connection") -> None:
        self.open.pop(connection, None)
        self._lost.set()

    def take_bytes(self, connection: "Connection", size: int) -> bool:
        """Reserve room for what is received; False puts the connection in the queue for it."""
        if self.free_bytes <= 0 and self._is_receiving(connection):
            self._waiting_for_bytes[connection] = None
            return False
        # May go below zero by one frame, so that a frame larger than what is left is not starved by small ones.
        self.free_bytes -= size
        self._holders[connection] = None
        return True

    def _is_receiving(self, connection: "Connection | None" = None) -> bool:
        """Whether any other connection has bytes and goes on. If all wait, one must be let on, or none ever is."""
        return any(each is not connection and each not in self._waiting_for_bytes for each in self._holders)

    def give_back(self, connection: "Connection", size: int) -> None:
        """What a connection held is free; those who wait for it go on."""
        self.free_bytes += size
        self._holders.pop(connection, None)
        self._waiting_for_bytes.pop(connection, None)
        if self._is_giving:
            return  # one of those below gives back at once: it need not go deeper
        self._is_giving = True
        while self._waiting_for_bytes and (self.free_bytes > 0 or not self._is_receiving()):
            waiting = next(iter(self._waiting_for_bytes))
            del self._waiting_for_bytes[waiting]
            waiting.go_on()
        self._is_giving = False

    def _sweep(self) -> None:
        """Close what has been idle for too long, and what others have waited for for too long."""
        now = self.loop.time()
        for connection in list(self.open):
            if connection.last_frame_at < now - self.limits.max_idle_s and not connection.has_waiting:
                connection.close()
        if self._waiting_for_bytes:
            for connection in list(self._holders):
                if connection.reserved_at < now - MAX_FRAME_S and connection not in self._waiting_for_bytes:
                    connection.refuse(f"a frame took more than {MAX_FRAME_S} s to come, and others wait for its room")
        self._sweeper = self.loop.call_later(min(self.limits.max_idle_s / 4, 30.0), self._sweep)


class Connection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, connections: Connections) -> None:
        self._all = connections
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._own: bytearray | None = None  # bytes of frames that are not handled yet
        self._filled = 0  # of `_own`
        self._reserved = 0  # bytes of the budget that `_own` has
        self._must_grow = False  # `_own` is full, and there was no budget for a larger one
        self._max_frame_bytes = connections.limits.max_frame_bytes
        self._ready: list[Buffer] = []  # answers of the frames being taken, which leave together
        self._slots: deque[Slot] = deque()
        self._blocking = 0  # how many of those must be answered before anything else begins
        self._in_flight = 0  # bytes of the requests that wait for their answer
        self._is_paused = False
        self._writes_held = False
        self._is_closed = False
        self._is_closing = False
        self._tasks: dict[asyncio.Task[None], Work] = {}
        self.reserved_at = 0.0
        self.last_frame_at = 0.0
        self.peer: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        connections = self._all
        if len(connections.open) >= connections.limits.max_connections:
            connections.refused += 1
            self._is_closed = True
            self._transport.abort()
            return
        self.peer = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self.last_frame_at = connections.loop.time()
        connections.open[self] = None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._is_closed = True
        self._all.note_lost(self)
        for slot in self._slots:
            if slot.on_close is not None:
                slot.on_close()
        self._slots.clear()
        self._own = None
        for task in self._tasks:
            task.cancel()
        self._release()
        self._all.give_back(self, 0)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._own is None:
            return memoryview(self._all.shared)
        return memoryview(self._own)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._own is None:
            shared = self._all.shared
            done = self._take_frames(shared, nbytes)
            if done < nbytes and not self._is_closed:
                self._make_room(memoryview(shared)[done:nbytes])
            return
        self._filled += nbytes
        self._take_own()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writes_held = True

    def resume_writing(self) -> None:
        self._writes_held = False
        self.go_on()

    # Frames

    def _make_room(self, begun: memoryview) -> None:
        """Put what cannot be handled yet into a buffer of this connection, with room for more of it."""
        filled = len(begun)
        wanted = self._wanted(begun)
        if wanted > SMALLEST_BUFFER and not self._reserve(wanted - self._reserved):
            self._must_grow = True
            wanted = filled + 1
            self._pause()
        own = bytearray(wanted)  # and not own.extend(): the loop may still hold a view of it
        own[:filled] = begun
        self._own, self._filled = own, filled

    def _wanted(self, begun: memoryview) -> int:
        """How large the buffer for what is begun should be."""
        filled = len(begun)
        size = 0 if filled < LENGTH_SIZE else LENGTH_SIZE + int(_LENGTH.unpack_from(begun)[0])
        return max(SMALLEST_BUFFER, min(size, GROWTH * filled), filled + 1)

    def _reserve(self, size: int) -> bool:
        """Take bytes out of the budget of all; False when this connection has to wait for them."""
        if size > 0:
            if not self._all.take_bytes(self, size):
                return False
            if not self._reserved:
                self.reserved_at = self._all.loop.time()
            self._reserved += size
        return True

    def _release(self) -> None:
        self._must_grow = False
        if self._reserved:
            reserved, self._reserved = self._reserved, 0
            self._all.give_back(self, reserved)

    def _take_own(self) -> None:
        """Handle the whole frames in this connection's own buffer."""
        own, filled = self._own, self._filled
        assert own is not None
        done = self._take_frames(own, filled)
        if self._is_closed:
            return
        if done == filled:
            self._own, self._filled = None, 0
            self._release()
        elif done:
            self._own = None
            self._release()
            self._make_room(memoryview(own)[done:filled])
        elif filled == len(own) and not self._is_paused:
            self._make_room(memoryview(own))

    def _take_frames(self, buffer: bytearray, end: int) -> int:
        """Handle whole frames from the start of `buffer`; returns where it stopped."""
        position = 0
        view = memoryview(buffer)
        while end - position >= LENGTH_SIZE:
            (size,) = _LENGTH.unpack_from(buffer, position)
            if not 0 < size <= self._max_frame_bytes:
                self.refuse(f"a frame of {size} bytes; at most {self._max_frame_bytes} are taken")
                return end
            stop = position + LENGTH_SIZE + size
            if stop > end:
                break
            if not self._take_frame(view[position + LENGTH_SIZE : stop]):
                self._pause()
                break
            if self._is_closed:
                return end
            position = stop
        if position:
            self.last_frame_at = self._all.loop.time()
        if self._ready:
            self._write_ready()
        return position

    def _take_frame(self, frame: memoryview) -> bool:
        """Handle one frame; False when it must wait."""
        handler = self._all.handler
        if self._writes_held or (
            self._slots
            and (
                self._blocking
                or len(self._slots) >= self._all.limits.max_waiting
                or self._in_flight >= self._all.limits.max_in_flight_bytes
                or not handler.may_overlap(frame)
            )
        ):
            return False
        try:
            result = handler.handle(frame, self)
        except BarnabasError as error:
            self.refuse(str(error))
            return True
        except Exception:
            # A bug, and seen: but whoever called may be the flusher, and must not fall with this client.
            log.exception("a request of %s failed; its connection is closed", self.peer)
            self._end()
            return True
        if isinstance(result, list):
            if self._slots:
                slot = Slot(self, is_blocking=False, size=0)
                slot.answer = result
                self._slots.append(slot)
            else:
                self._ready += result
                if len(result) > 1:  # records: let them count against what a slow reader may leave
                    self._write_ready()
            return True
        is_blocking = isinstance(result, Coroutine) or not handler.may_overlap(frame)
        slot = Slot(self, is_blocking=is_blocking, size=len(frame))
        self._slots.append(slot)
        self._blocking += is_blocking
        self._in_flight += slot.size
        if isinstance(result, Coroutine):
            self.start(result, slot)
        else:
            result(slot)
        return True

    def _write_ready(self) -> None:
        """Write the answers that were made while frames were taken, in one go."""
        ready, self._ready = self._ready, []
        if not self._is_closed:
            self._transport.writelines(ready)

    def start(self, work: Work, slot: Slot) -> None:
        """Run work whose outcome is the answer of `slot`."""
        task = self._all.tasks.create_task(self._work(work, slot))
        self._tasks[task] = work
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task).close()  # it never began, if the client left before it could

    async def _work(self, work: Work, slot: Slot) -> None:
        try:
            answer = await work
        except BarnabasError as error:
            self.refuse(str(error))
            return
        except Exception:
            log.exception("a request of %s failed; its connection is closed", self.peer)
            self._end()
            return
        slot.put(answer)

    # Answers

    def answered(self, slot: Slot) -> None:
        """A slot has its answer: send what is next in order."""
        self._blocking -= slot.is_blocking
        self._in_flight -= slot.size
        slots = self._slots
        if self._is_closed:
            return
        ready, self._ready = self._ready, []
        while slots and slots[0].answer is not None:
            answer = slots.popleft().answer
            assert answer is not None
            ready += answer
        if ready:
            self._transport.writelines(ready)
        if self._is_closing:
            if not slots:
                self._end()
        elif self._is_paused:
            self.go_on()

    @property
    def has_waiting(self) -> bool:
        return bool(self._slots)

    def _pause(self) -> None:
        if not self._is_paused and not self._is_closed:
            self._is_paused = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """What made this connection wait may be over: handle what is there, then read on."""
        if not self._is_paused or self._is_closed or self._is_closing:
            return
        self._is_paused = False
        if self._own is not None:
            if self._must_grow:
                self._must_grow = False
                self._make_room(memoryview(self._own)[: self._filled])
            if not self._is_paused:
                self._take_own()
        if not self._is_paused and not self._is_closed:
            self._transport.resume_reading()

    def refuse(self, reason: str) -> None:
        """Nothing that comes after this makes sense: say why in the log, send what is ready, and close."""
        log.warning("closing %s:%s: %s", *self.peer, reason)
        if self._ready:
            self._write_ready()
        self._end()

    def close(self) -> None:
        """Close when what waits has been answered."""
        if not self._slots or self._is_closed:
            self._end()
            return
        self._is_closing = True
        self._pause()
        for slot in list(self._slots):
            if slot.on_hurry is not None:
                slot.on_hurry()

    def abort(self) -> None:
        """Close now, answered or not."""
        self._is_closed = True
        self._transport.abort()

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._transport.close()


def _address(name: Any) -> tuple[str, int]:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else ("", 0)
