"""A server on a loopback socket whose handler does what the frames say, and its clients."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.runtime.connections import Answer, Connection, ConnectionLimits, Connections, Slot
from barnabas.runtime.request_counts import RequestCounts

MIB = 1024 * 1024


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Waiting:
    """A request that waits until the test answers it."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.slot: Slot | None = None
        self.is_closed = self.is_hurried = False

    def __call__(self, slot: Slot) -> None:
        self.slot = slot
        slot.on_close, slot.on_hurry = self._note_closed, self._note_hurry

    def _note_closed(self) -> None:
        self.is_closed = True

    def _note_hurry(self) -> None:
        self.is_hurried = True
        self.answer()

    def answer(self) -> None:
        assert self.slot is not None
        self.slot.put([framed(self.name)])


class OnDisk:
    """Bytes of an answer that are read when they are asked for."""

    def __init__(self, data: bytes, *, is_cold: bool = False, fails_at: int | None = None) -> None:
        self._data = data
        self._is_cold = is_cold
        self._fails_at = fails_at
        self.taken = 0

    def __len__(self) -> int:
        return len(self._data) - self.taken

    def take_nowait(self, max_bytes: int) -> bytes | None:
        return None if self._is_cold else self._take(max_bytes)

    async def take(self, max_bytes: int) -> bytes:
        await asyncio.sleep(0)
        return self._take(max_bytes)

    def _take(self, max_bytes: int) -> bytes:
        if self._fails_at is not None and self.taken >= self._fails_at:
            raise BarnabasError("it was cut")
        data = self._data[self.taken : self.taken + max_bytes]
        self.taken += len(data)
        return data


class Handler:
    """Does what the first byte of a frame says, and echoes the frame.

    e: answer now; p: wait, and overlap with others; w: wait, alone; c: a coroutine; n: no answer; r: a refusal;
    b: a bug; x: a bug in a coroutine; L: a large answer; U: one that is on disk; C: one that is not in memory;
    F: one whose second half cannot be read.
    """

    def __init__(self) -> None:
        self.counts = RequestCounts()
        self.handled: list[bytes] = []
        self.waiting: dict[bytes, Waiting] = {}
        self.gates: dict[bytes, asyncio.Event] = {}
        self.cancelled: list[bytes] = []
        self.changed = asyncio.Event()
        self.large = b"L" * (3 * MIB)
        self.unread: list[OnDisk] = []

    def may_overlap(self, frame: memoryview) -> bool:
        return bytes(frame[:1]) in (b"p", b"n")

    def accept(self, connection: Connection) -> "Handler":
        """The same for all connections."""
        return self

    def handle(self, frame: memoryview) -> Any:
        data = bytes(frame)
        self.handled.append(data[:40])
        self.changed.set()
        match data[:1]:
            case b"p" | b"w":
                waiting = self.waiting[data] = Waiting(data)
                return waiting
            case b"c" | b"x":
                return self._work(data)
            case b"n":
                return []
            case b"r":
                raise BarnabasError("no")
            case b"b":
                raise RuntimeError("a bug")
            case b"U" | b"C" | b"F":
                fails_at = len(self.large) // 2 if data[:1] == b"F" else None
                unread = OnDisk(self.large, is_cold=data[:1] == b"C", fails_at=fails_at)
                self.unread.append(unread)
                return [struct.pack(">i", len(self.large) + 5), b"begin"[:3], b"in", unread]
            case b"L":
                return [struct.pack(">i", len(self.large)), self.large]
            case _:
                return [framed(data)]

    async def _work(self, data: bytes) -> Answer:
        gate = self.gates.setdefault(data, asyncio.Event())
        try:
            await gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(data)
            raise
        if data[:1] == b"x":
            raise RuntimeError("a bug")
        return [framed(data)]

    async def wait_handled(self, count: int) -> None:
        await wait_until(lambda: len(self.handled) >= count)


async def wait_until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for is not ours to signal
            await asyncio.sleep(0.001)


class Server:
    def __init__(self, handler: Handler, connections: Connections, port: int) -> None:
        self.handler = handler
        self.connections = connections
        self.port = port
        self.clients: list[Client] = []

    async def connect(self, **options: Any) -> "Client":
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port, **options)))
        return self.clients[-1]

    async def close(self) -> None:
        await self.connections.close(grace_s=0.01)
        for client in self.clients:
            client.close()
            with suppress(ConnectionError):
                await client.writer.wait_closed()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(framed(frame) for frame in frames))
        await self.writer.drain()

    async def receive(self) -> bytes:
        async with asyncio.timeout(60):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)

    async def wait_closed_by_server(self) -> bytes:
        """What came before the end."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[Server]:
    async with asyncio.TaskGroup() as tasks:
        handler = Handler()
        connections = Connections(handler, ConnectionLimits(**limits), tasks)
        _, port = await connections.bind("127.0.0.1", 0, listener="TEST")
        await connections.serve()
        server = Server(handler, connections, port)
        try:
            yield server
        finally:
            await server.close()
            assert not connections.open
            assert connections.receiving.free == connections.limits.max_queued_bytes
            assert connections.unread.free == connections.limits.max_unread_bytes


Scenario = Callable[[], Awaitable[None]]
Run = Callable[[Scenario], None]


async def first_connections(server: Server, count: int) -> list[Connection]:
    await wait_until(lambda: len(server.connections.open) >= count)
    return list(server.connections.open)
