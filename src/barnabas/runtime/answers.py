"""Sending answers: what is in memory is sent at once, what is still on disk is read as the client reads.

An answer is pieces: bytes, and bytes that were located but not read (`Unread`). Those are read a piece at a time, the
next when the socket has taken the one before, so that a client that does not read holds a bounded part of its answer in
memory. All that clients have not read counts against one budget. When it is used up, pieces become small, but no client
is stopped; one that reads nothing at all is closed after a while.

The length of an answer is sent first: if a later piece cannot be read, the connection is closed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol, cast

from barnabas.core.errors import BarnabasError
from barnabas.core.records.batch import Buffer

SMALL_PIECE: Final = 64 * 1024  # what everybody may have, however many do not read
FIRST_PIECE: Final = 1024 * 1024  # of a client that has not shown how fast it reads
LARGE_PIECE: Final = 4 * 1024 * 1024  # of one that has; also the most that is read in a turn of the loop
WRITE_HIGH_WATER: Final = 256 * 1024  # a connection that holds no more than this is not counted


class Unread(Protocol):
    """Bytes of an answer that are still on disk. Its length is what is left."""

    def __len__(self) -> int: ...

    def take_nowait(self, max_bytes: int) -> Buffer | None:
        """The next bytes, if they are in memory. Refused if they no longer exist."""
        ...

    async def take(self, max_bytes: int) -> Buffer:
        """The next bytes, from the disk."""
        ...


Piece = Buffer | Unread
Answer = list[Piece]


class UnreadBudget:
    """The memory held by answers that clients have not read, over all connections."""

    def __init__(self, max_bytes: int) -> None:
        self.free = max_bytes

    @property
    def is_used_up(self) -> bool:
        return self.free <= 0


class Outgoing:
    """What one connection has to send after what is in its transport."""

    __slots__ = (
        "_budget",
        "_counted",
        "_is_reading",
        "_is_soon",
        "_loop",
        "_moved_at",
        "_on_drained",
        "_on_failed",
        "_piece",
        "_seen",
        "_start",
        "_transport",
        "_write",
        "is_held",
        "queue",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        budget: UnreadBudget,
        *,
        start: Callable[[Coroutine[Any, Any, None]], None],
        on_drained: Callable[[], None],
        on_failed: Callable[[BarnabasError], None],
    ) -> None:
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER)
        self._transport = transport
        # asyncio's own transport does not say, from Python 3.12 on, that it has enough after `writelines`.
        is_silent = type(transport).__module__.startswith("asyncio.")
        self._write = partial(_write_joined, transport) if is_silent else transport.writelines
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._start = start  # runs a coroutine as a task of the connection
        self._on_drained = on_drained
        self._on_failed = on_failed
        self.queue: deque[Piece] = deque()  # behind what the transport has
        self._piece = FIRST_PIECE
        self._counted = 0  # bytes of the budget that this connection has
        self._is_reading = self._is_soon = False
        self._moved_at = 0.0  # when the client was last seen to read
        self._seen = 0  # what was left then
        self.is_held = False  # the transport has enough

    @property
    def max_read_bytes(self) -> int:
        """How many bytes may be read for this client at once."""
        return SMALL_PIECE if self.is_held or self._budget.is_used_up else self._piece

    def send(self, pieces: Sequence[Buffer]) -> None:
        """Send bytes, after everything queued before."""
        if self.queue:
            self.queue.extend(pieces)
            return
        if self.is_held:
            self._count(sum(map(len, pieces)))
        self._write(pieces)

    def send_answer(self, answer: Answer) -> None:
        """Send an answer that may have parts still on disk."""
        if not self.queue and not any(map(_is_unread, answer)):
            self.send(cast("list[Buffer]", answer))
            return
        self.queue.extend(answer)
        if not self.is_held and not self._is_reading and not self._is_soon:
            self._pump()

    def _pump(self) -> None:
        """Pass pieces to the transport until it has enough, or it is the turn of others."""
        queue, allowed = self.queue, LARGE_PIECE
        while queue and not self.is_held:
            if allowed <= 0:
                self._is_soon = True
                self._loop.call_soon(self._pump_on)
                return
            try:
                pieces = self._next_pieces(allowed)
            except BarnabasError as error:
                self._on_failed(error)
                return
            if pieces:
                allowed -= sum(map(len, pieces))
                self._write(pieces)
            if self._is_reading:
                return
        if not queue:
            self._piece = min(2 * self._piece, LARGE_PIECE)  # a client that reads
            if not self.is_held:
                self._on_drained()

    def _next_pieces(self, allowed: int) -> list[Buffer]:
        """The next pieces, as far as they are in memory: bytes, and one piece of what is to be read."""
        queue = self.queue
        pieces: list[Buffer] = []
        while queue:
            piece = queue[0]
            if not isinstance(piece, bytes | bytearray | memoryview):
                data = piece.take_nowait(min(self.max_read_bytes, allowed))
                if data is None:
                    self._is_reading = True
                    self._start(self._read(piece))
                    break
                pieces.append(data)
                if not len(piece):
                    queue.popleft()
                break
            pieces.append(piece)
            queue.popleft()
        return pieces

    def _pump_on(self) -> None:
        self._is_soon = False
        if not self.is_held and not self._is_reading:
            self._pump()

    async def _read(self, piece: Unread) -> None:
        size = min(self.max_read_bytes, len(piece))
        self._budget.free -= size
        try:
            data = await piece.take(size)
        except BarnabasError as error:
            self._on_failed(error)
            return
        finally:
            self._budget.free += size
            self._is_reading = False
        if self.queue:  # and was not given up meanwhile
            if not len(piece):
                self.queue.popleft()
            self.queue.appendleft(data)
            if not self.is_held:
                self._pump()

    # What the transport says

    def pause(self) -> None:
        """The transport has more than it can send now: count it."""
        self.is_held = True
        self._seen = self._transport.get_write_buffer_size()
        self._moved_at = self._loop.time()
        self._count(self._seen)

    def resume(self) -> None:
        """The transport has sent nearly all of it."""
        self._give_back()
        if self.queue and not self._is_reading and not self._is_soon:
            self._pump()

    def _count(self, size: int) -> None:
        self._counted += size
        self._budget.free -= size

    def _give_back(self) -> None:
        self.is_held = False
        self._budget.free += self._counted
        self._counted = 0

    def clear(self) -> None:
        """The client is gone: drop everything."""
        self.queue.clear()
        if self._counted:
            self._give_back()

    def end(self) -> None:
        """The connection is gone: drop the reference to it, or each would leave a cycle for the garbage collector."""
        self.clear()
        self._start = self._on_drained = self._on_failed = _nothing

    def stalled_s(self, now: float) -> float:
        """How long the client has read nothing of what is ready for it."""
        if not self.is_held:
            return 0.0
        left = self._transport.get_write_buffer_size()
        if left != self._seen:
            self._seen, self._moved_at = left, now
        return now - self._moved_at


def _nothing(*_: object) -> None:
    pass


def _is_unread(piece: Piece) -> bool:
    return not isinstance(piece, bytes | bytearray | memoryview)


def _write_joined(transport: asyncio.Transport, pieces: Sequence[Buffer]) -> None:
    transport.write(b"".join(pieces))
