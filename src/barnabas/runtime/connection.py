"""One connection: bytes in, whole frames to a handler, answers out in the order of the requests.

A frame is handed over where it was received and belongs to the handler only until it returns: what it needs longer it
decodes or copies first. Small frames lie in one buffer that all connections share, a large one gets its own and is
received straight into it.

Order: answers leave in the order of their requests. Requests that `may_overlap` (produces) are handled without waiting
for each other's answers; everything else is handled only when every earlier request of its connection is answered, so
that what a client pipelines takes effect in the order it was sent.

Turns: after `FRAMES_PER_TURN` frames the other connections are served before this one continues, after fewer if others
were served just now.

Held: a connection that is muted is not read, and what was received is not handled, until its time is over; its answers
leave. One that is held from the start (`Connections.hold_s`) is closed then, and never read.

Must not know: what is in a frame.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from barnabas.core.errors import BarnabasError
from barnabas.core.records.batch import Buffer
from barnabas.runtime.answers import Answer, Outgoing
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.request_counts import RequestCounts

if TYPE_CHECKING:
    import ssl

    from barnabas.runtime.connections import Connections

log = get_logger("barnabas.connections")

LENGTH_SIZE: Final = 4
FRAMES_PER_TURN: Final = 64
FRAMES_PER_SHARED_TURN: Final = 6
SHARED_S: Final = 0.1  # how long another connection that was served counts as one that shares the loop
ANSWERS_PER_WRITE: Final = 4 * FRAMES_PER_TURN  # so many are gathered over turns that follow each other
GROWTH: Final = 8  # a frame's buffer is at most this many times what was received, whatever length it claims
GROWTH_WHEN_SCARCE: Final = 2
SMALLEST_BUFFER: Final = 4096  # smaller ones do not count
_unpack_length: Final = struct.Struct(">i").unpack_from

Work = Coroutine[Any, Any, Answer]


class Slot:
    """The place of one answer in the order of its connection; the answer is put in once."""

    __slots__ = ("_begun_ns", "_connection", "_counts", "answer", "is_blocking", "on_close", "on_hurry", "size")

    def __init__(
        self,
        connection: "Connection",
        *,
        is_blocking: bool,
        size: int,
        counts: RequestCounts | None = None,
        begun_ns: int = 0,
    ) -> None:
        self._connection = connection
        self._counts = counts  # told when the answer is there; None: it was told
        self._begun_ns = begun_ns
        self.answer: Answer | None = None
        self.is_blocking = is_blocking
        self.size = size  # bytes of the request
        self.on_close: Callable[[], None] | None = None  # called when the client is gone before its answer
        self.on_hurry: Callable[[], None] | None = None  # called when the node stops: answer now

    def put(self, answer: Answer) -> None:
        """Send `answer` as soon as all earlier ones are sent. An empty one sends nothing."""
        assert self.answer is None, "answered twice"
        self.answer = answer
        self.on_close = self.on_hurry = None  # whoever they are of has this slot
        if self._counts is not None:
            self._counts.note_answered(self._begun_ns, answer)
        self._connection.answered(self)

    def continue_with(self, result: "Answer | Work") -> None:
        """Put an answer, or the work that leads to it."""
        if isinstance(result, list):
            self.put(result)
        else:
            self._connection.start(result, self)


class Handler(Protocol):
    """Takes the frames of one connection."""

    @property
    def counts(self) -> RequestCounts:
        """Those of the kind of request that was handled last."""
        ...

    def may_overlap(self, frame: memoryview) -> bool:
        """Whether this request may begin before earlier overlapping requests are answered."""
        ...

    def handle(self, frame: memoryview) -> "Answer | Callable[[Slot], None] | Work":
        """An answer, or work that leads to one: a coroutine, or a function that puts it into the slot."""
        ...


class Edge(Protocol):
    """Serves connections: interprets their frames and answers them."""

    def accept(self, connection: "Connection") -> Handler:
        """The handler for the frames of a new connection."""
        ...


class Connection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, connections: "Connections", listener: str, *, is_counted: bool = False) -> None:
        self._all = connections
        self.is_counted = is_counted  # since before its TLS handshake
        self.is_let_in = False
        self.listener = listener  # the name of the one that the client came through
        self._handler: Handler = cast("Handler", None)
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._out: Outgoing = cast("Outgoing", None)
        self._own: bytearray | None = None  # bytes of frames that are not handled yet
        self._begin = self._filled = 0  # where they begin and end in it
        self._must_grow = False  # `_own` is full, and there was no budget for a larger one
        self._max_frame_bytes = connections.limits.max_frame_bytes
        self._ready: Answer = []  # answers of the frames being taken, which leave together
        self._slots: deque[Slot] = deque()
        self._blocking = 0  # how many of those must be answered before anything else begins
        self._in_flight = 0  # bytes of the requests that wait for their answer
        self._left = FRAMES_PER_TURN  # to be taken in this turn
        self._is_paused = False
        self._is_yielding = False
        self._muting: asyncio.TimerHandle | None = None  # while it is muted
        self._is_closed = False
        self._is_closing = False
        self._tasks: dict[asyncio.Task[None], Coroutine[Any, Any, Any]] = {}
        self.frame_bytes = 0  # of the frame that is being received
        self.reserved = 0  # bytes of the budget for frames that `_own` has
        self.reserved_at = 0.0
        self.last_frame_at = 0.0
        self.peer: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)
        self.ip = ""
        self.on_lost: Callable[[], None] | None = None  # called when the client is gone

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = _address(transport.get_extra_info("peername"))
        self.local = _address(transport.get_extra_info("sockname"))
        self.ip = self.peer[0]
        if not self._all.let_in(self):
            self.abort()
            return
        self._out = Outgoing(
            self._transport,
            self._all.unread,
            start=self._run,
            on_drained=self._note_drained,
            on_failed=self._note_unreadable,
        )
        if self._all.hold_s is not None and (hold_s := self._all.hold_s(self)) > 0.0:
            self._pause()
            self._muting = self._all.loop.call_later(hold_s, self.abort)
            return
        self.last_frame_at = self._all.loop.time()
        try:
            self._handler = self._all.edge.accept(self)
        except BarnabasError as error:
            self.refuse(str(error), kind=type(error).__name__)

    @property
    def tls(self) -> "ssl.SSLObject | None":
        """The TLS of this connection, if it has any."""
        return cast("ssl.SSLObject | None", self._transport.get_extra_info("ssl_object"))

    def begin_authentication(self, max_frame_bytes: int) -> None:
        """The client is not known yet: it may send only short frames, and has not long for it."""
        self._max_frame_bytes = max_frame_bytes
        self._all.note_authenticating(self)

    def end_authentication(self, handler: Handler) -> None:
        """The client is known: from the next frame on this handler takes what it sends."""
        self._max_frame_bytes = self._all.limits.max_frame_bytes
        self._all.newcomers.remove(self)
        self._handler = handler

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._is_closed = True
        if self._muting is not None:
            self._muting.cancel()
        if not self._all.note_lost(self):
            return  # it was never let in
        for slot in self._slots:
            on_close, slot.on_close, slot.on_hurry = slot.on_close, None, None
            if on_close is not None:
                on_close()
        self._slots.clear()
        for task in self._tasks:
            task.cancel()
        self._out.end()
        self._own = None
        self._all.receiving.give_back(self)
        if self.on_lost is not None:
            self.on_lost()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        if self._own is None:
            return memoryview(self._all.shared)
        return memoryview(self._own)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._all.received_bytes += nbytes
        self._begin_turn()
        if self._own is None:
            shared = self._all.shared
            done = self._take_frames(shared, 0, nbytes)
            if done < nbytes and not self._is_closed:
                self._keep(memoryview(shared)[done:nbytes])
            return
        self._filled += nbytes
        self._take_own()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._out.pause()

    def resume_writing(self) -> None:
        self._out.resume()
        self._note_drained()

    # Room for frames

    def _keep(self, begun: memoryview) -> None:
        """Keep what cannot be handled yet in a buffer of this connection, with room for the rest if reading goes on."""
        filled = len(begun)
        if self._is_paused:  # it waits for its turn, or for an answer: what is here counts, and more is not wanted
            self._set_own(begun, filled)
            if filled > SMALLEST_BUFFER:
                self._all.receiving.take(self, filled, is_there=True)
            return
        wanted = self._wanted(begun)
        if wanted > SMALLEST_BUFFER and not self._reserve(wanted):
            self._must_grow = True
            wanted = filled + 1
            self._pause()
        self._set_own(begun, wanted)

    def _set_own(self, begun: memoryview, size: int) -> None:
        own = bytearray(size)  # and not own.extend(): the loop may still hold a view of it
        own[: len(begun)] = begun
        self._own, self._begin, self._filled = own, 0, len(begun)

    def _wanted(self, begun: memoryview) -> int:
        """The size that the buffer for a partly received frame should have."""
        filled = len(begun)
        size = 0 if filled < LENGTH_SIZE else LENGTH_SIZE + int(_unpack_length(begun)[0])
        self.frame_bytes = size
        growth = GROWTH_WHEN_SCARCE if self._all.receiving.is_scarce else GROWTH
        return max(SMALLEST_BUFFER, min(size, growth * filled), filled + 1)

    def _reserve(self, wanted: int) -> bool:
        """Take this many bytes of the shared budget; False if this connection has to wait for them."""
        more = wanted - self.reserved
        return more <= 0 or self._all.receiving.take(self, more)

    def _release(self) -> None:
        self._must_grow = False
        if self.reserved:
            self._all.receiving.give_back(self)

    @property
    def session(self) -> Any:
        """What the edge knows of this client; None before it is let in."""
        return getattr(self._handler, "session", None)

    @property
    def received(self) -> int:
        """Received bytes of frames that are not handled yet."""
        return self._filled - self._begin

    @property
    def is_held_up(self) -> bool:
        """Whether reading is paused by us."""
        return self._is_paused

    # Frames

    def _take_own(self) -> None:
        """Handle the whole frames in this connection's own buffer."""
        own, begin, filled = self._own, self._begin, self._filled
        assert own is not None
        done = self._take_frames(own, begin, filled)
        if self._is_closed:
            return
        if done == filled:
            self._own, self._begin, self._filled = None, 0, 0
            self._release()
        elif self._is_paused:
            self._begin = done
        elif done:
            self._own = None
            self._release()
            self._keep(memoryview(own)[done:filled])
        elif filled == len(own):
            self._keep(memoryview(own))

    def _take_frames(self, buffer: bytearray, begin: int, end: int) -> int:
        """Handle whole frames from `begin` on; returns where it stopped."""
        position = begin
        view, max_bytes = memoryview(buffer), self._max_frame_bytes
        while end - position >= LENGTH_SIZE:
            (size,) = _unpack_length(buffer, position)
            if not 0 < size <= max_bytes:
                self.refuse(f"a frame of {size} bytes; the maximum is {max_bytes}", kind="frame size")
                return end
            start = position + LENGTH_SIZE
            stop = start + size
            if stop > end:
                break
            if self._left <= 0:
                self._yield_turn()
                break
            if not self._take_frame(view[start:stop]):
                self._pause()
                break
            if self._is_closed:
                return end
            self._left -= 1
            position = stop
        if position > begin:
            self.last_frame_at = self._all.loop.time()
        if self._ready and (not self._is_yielding or self._muting is not None or len(self._ready) >= ANSWERS_PER_WRITE):
            self._write_ready()
        return position

    def _take_frame(self, frame: memoryview) -> bool:
        """Handle one frame; False when it must wait."""
        handler = self._handler
        out = self._out
        if (
            out.is_held
            or out.queue
            or (
                self._slots
                and (
                    self._blocking
                    or len(self._slots) >= self._all.limits.max_waiting
                    or self._in_flight >= self._all.limits.max_in_flight_bytes
                    or not handler.may_overlap(frame)
                )
            )
        ):
            return False
        begun_ns = perf_counter_ns()
        try:
            result = handler.handle(frame)
        except BarnabasError as error:
            self.refuse(str(error), kind=type(error).__name__)
            return True
        except Exception:
            # A bug, and seen: but whoever called may be the flusher, and must not fall with this client.
            self._all.closed += 1
            log.exception("a request from %s failed; closing its connection", self.peer)
            self._end()
            return True
        counts = handler.counts
        if isinstance(result, list):
            counts.note_answered(begun_ns, result)
            if self._slots:
                slot = Slot(self, is_blocking=False, size=0)
                slot.answer = result
                self._slots.append(slot)
            elif len(result) > 1:  # records, which may have to be read first
                self._write_ready()
                self._out.send_answer(result)
            else:
                self._ready += result
            return True
        is_work = isinstance(result, CoroutineType)  # not `Coroutine`: asking an abstract class takes long
        is_blocking = is_work or not handler.may_overlap(frame)
        slot = Slot(self, is_blocking=is_blocking, size=len(frame), counts=counts, begun_ns=begun_ns)
        self._slots.append(slot)
        self._blocking += is_blocking
        self._in_flight += slot.size
        if is_work:
            self.start(cast("Work", result), slot)
        else:
            cast("Callable[[Slot], None]", result)(slot)
        return True

    def _yield_turn(self) -> None:
        """Continue when the other connections have had their turn."""
        self._pause()
        if not self._is_yielding:
            self._is_yielding = True
            self._all.loop.call_soon(self._take_turn)

    def mute(self, seconds: float, on_end: Callable[[], None]) -> None:
        """Take nothing more from the client for so long, or for longer if it is muted for longer already."""
        loop = self._all.loop
        until = loop.time() + seconds
        if self._is_closed or (self._muting is not None and self._muting.when() >= until):
            return
        if self._muting is not None:
            self._muting.cancel()
        self._pause()
        self._left = 0  # of the frames that are being taken, this is the last
        self._is_yielding = True
        self._muting = loop.call_at(until, self._unmute, on_end)

    def _unmute(self, on_end: Callable[[], None]) -> None:
        self._muting = None
        on_end()
        self._take_turn()

    def _take_turn(self) -> None:
        if self._muting is not None:
            return
        self._is_yielding = False
        self._begin_turn()
        self.go_on()

    def _begin_turn(self) -> None:
        """Set how many frames are fair in this turn: fewer if others were served just now."""
        connections = self._all
        if connections.served_last is not self:
            connections.served_last, connections.shared_at = self, connections.loop.time()
            self._left = FRAMES_PER_SHARED_TURN
        elif connections.loop.time() - connections.shared_at < SHARED_S:
            self._left = FRAMES_PER_SHARED_TURN
        else:
            self._left = FRAMES_PER_TURN

    def start(self, work: Work, slot: Slot) -> None:
        """Run work whose outcome is the answer of `slot`."""
        self._run(self._work(work, slot), work)

    def _run(self, running: Coroutine[Any, Any, None], within: Coroutine[Any, Any, Any] | None = None) -> None:
        """Run a task that ends with this connection."""
        task = self._all.tasks.create_task(running)
        self._tasks[task] = running if within is None else within
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task).close()  # it never began, if the client left before it could

    async def _work(self, work: Work, slot: Slot) -> None:
        try:
            answer = await work
        except BarnabasError as error:
            self.refuse(str(error), kind=type(error).__name__)
            return
        except Exception:
            self._all.closed += 1
            log.exception("a request from %s failed; closing its connection", self.peer)
            self._end()
            return
        slot.put(answer)

    # Answers

    @property
    def max_read_bytes(self) -> int:
        """How many bytes of an answer may be read from disk before the client reads."""
        return self._out.max_read_bytes

    @contextmanager
    def reading(self) -> Iterator[int]:
        """While an answer is read on a thread: how many bytes may be read; they count against the budget."""
        size = self._out.max_read_bytes
        self._all.unread.free -= size
        try:
            yield size
        finally:
            self._all.unread.free += size

    def answered(self, slot: Slot) -> None:
        """A slot has its answer: send what is next in order."""
        self._blocking -= slot.is_blocking
        self._in_flight -= slot.size
        slots = self._slots
        if self._is_closed or (slots and slots[0].answer is None and not slot.is_blocking):
            return  # it leaves with the one that is first
        while slots and slots[0].answer is not None:
            answer = slots.popleft().answer
            assert answer is not None
            if len(answer) > 1:
                self._write_ready()
                self._out.send_answer(answer)
            else:
                self._ready += answer
        self._write_ready()
        if self._is_closing:
            if not slots:
                self._end()
        elif self._is_paused:
            self.go_on()

    def _write_ready(self) -> None:
        """Write the answers that were made while frames were taken, in one go."""
        if self._ready:
            ready, self._ready = self._ready, []
            if not self._is_closed:
                self._out.send(cast("list[Buffer]", ready))

    def _note_drained(self) -> None:
        """Everything to be sent is in the transport."""
        if self._out.queue:
            return
        if self._is_closed:
            self._transport.close()
        else:
            self.go_on()

    def _note_unreadable(self, error: BarnabasError) -> None:
        """The rest of an answer cannot be read, and its length was sent already: close the connection."""
        if not self._is_closed or self._out.queue:
            log.warning("closing %s:%s in the middle of a response: %s", *self.peer, error)
            self.abort()

    @property
    def has_waiting(self) -> bool:
        return bool(self._slots) or self._out.is_held or bool(self._out.queue)

    @property
    def has_unread(self) -> bool:
        """Whether the client has not read most of what is ready for it."""
        return self._out is not None and self._out.is_held

    def stalled_s(self, now: float) -> float:
        """How long the client has read nothing of what is ready for it."""
        return self._out.stalled_s(now)

    # Waiting and closing

    def _pause(self) -> None:
        if not self._is_paused and not self._is_closed:
            self._is_paused = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """What made this connection wait may be over: handle what was received, then read on."""
        if not self._is_paused or self._is_closed or self._is_closing or self._is_yielding:
            return
        self._is_paused = False
        if self._own is not None:
            if self._must_grow:
                self._must_grow = False
                self.reserved_at = self._all.loop.time()  # its client could not send meanwhile
                self._keep(memoryview(self._own)[self._begin : self._filled])
            if not self._is_paused:
                self._take_own()
        if not self._is_paused and not self._is_closed:
            self._transport.resume_reading()

    def refuse(self, reason: str, *, kind: str) -> None:
        """The rest cannot be interpreted: log why, send what is ready, and close."""
        self._all.closed += 1
        log.warning("closing %s:%s: %s", *self.peer, reason, extra={"kind": kind})
        self._write_ready()
        self._end()

    def close(self) -> None:
        """Close when the pending requests have been answered."""
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
        if self in self._all.open:
            self._out.clear()
            self._own = None
            self._release()
        self._transport.abort()

    def _end(self) -> None:
        """Close when the answers have been sent."""
        if self._is_closed:
            return
        self._pause()
        self._is_closed = True
        self._own = None
        self._release()
        if not self._out.queue:
            self._transport.close()


def _address(name: Any) -> tuple[str, int]:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else ("", 0)
