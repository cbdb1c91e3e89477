"""Connections over real loopback sockets, on both event loops: order, limits, and clients that go away."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop

from barnabas.core.errors import BarnabasError
from barnabas.runtime import connections as module
from barnabas.runtime.connections import Answer, Connection, ConnectionLimits, Connections, Slot

MIB = 1024 * 1024
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


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


class Handler:
    """Does what the first byte of a frame says, and echoes the frame.

    e: answer now; p: wait, and overlap with others; w: wait, alone; c: a coroutine; n: no answer; r: a refusal;
    b: a bug; x: a bug in a coroutine; L: a large answer.
    """

    def __init__(self) -> None:
        self.handled: list[bytes] = []
        self.waiting: dict[bytes, Waiting] = {}
        self.gates: dict[bytes, asyncio.Event] = {}
        self.cancelled: list[bytes] = []
        self.changed = asyncio.Event()
        self.large = b"L" * (3 * MIB)

    def may_overlap(self, frame: memoryview) -> bool:
        return bytes(frame[:1]) in (b"p", b"n")

    def handle(self, frame: memoryview, connection: Connection) -> Any:
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
    async with asyncio.timeout(20):
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
        async with asyncio.timeout(20):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)

    async def wait_closed_by_server(self) -> bytes:
        """What came before the end."""
        async with asyncio.timeout(20):
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
        _, port = await connections.bind("127.0.0.1", 0)
        await connections.serve()
        server = Server(handler, connections, port)
        try:
            yield server
        finally:
            await server.close()
            assert not connections.open
            assert connections.free_bytes == connections.limits.max_queued_bytes


Scenario = Callable[[], Awaitable[None]]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    def run_it(scenario: Scenario) -> None:
        async def main() -> None:
            async with asyncio.timeout(60):
                await scenario()

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main())

    return run_it


# Order


def test_answers_leave_in_the_order_of_their_requests(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"p1", b"p2", b"p3")
            await server.handler.wait_handled(3)
            for name in (b"p3", b"p2", b"p1"):
                server.handler.waiting[name].answer()
            assert [await client.receive() for _ in range(3)] == [b"p1", b"p2", b"p3"]

    run(scenario)


def test_what_may_overlap_begins_before_earlier_answers_and_the_rest_waits_for_them(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client, handler = await server.connect(), server.handler
            await client.send(b"p1", b"p2", b"e3", b"p4", b"w5", b"p6", b"e7")
            await handler.wait_handled(2)
            await asyncio.sleep(0.01)
            assert handler.handled == [b"p1", b"p2"]
            handler.waiting[b"p1"].answer()
            assert await client.receive() == b"p1"
            assert handler.handled == [b"p1", b"p2"]
            handler.waiting[b"p2"].answer()
            assert handler.handled == [b"p1", b"p2", b"e3", b"p4"]
            assert [await client.receive() for _ in range(2)] == [b"p2", b"e3"]
            handler.waiting[b"p4"].answer()
            assert handler.handled[4:] == [b"w5"]
            handler.waiting[b"w5"].answer()
            assert handler.handled[5:] == [b"p6"]
            handler.waiting[b"p6"].answer()
            assert [await client.receive() for _ in range(4)] == [b"p4", b"w5", b"p6", b"e7"]

    run(scenario)


def test_a_coroutine_holds_up_even_what_may_overlap(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client, handler = await server.connect(), server.handler
            await client.send(b"c1", b"p2")
            await handler.wait_handled(1)
            await asyncio.sleep(0.01)
            assert handler.handled == [b"c1"]
            handler.gates[b"c1"].set()
            assert await client.receive() == b"c1"
            handler.waiting[b"p2"].answer()
            assert await client.receive() == b"p2"

    run(scenario)


def test_no_answer_is_an_answer_that_sends_nothing(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"n", b"p1", b"n", b"n", b"e2")
            await server.handler.wait_handled(4)
            server.handler.waiting[b"p1"].answer()
            assert [await client.receive() for _ in range(2)] == [b"p1", b"e2"]

    run(scenario)


# Frames


def test_frames_may_be_split_anywhere(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            data = framed(b"e-first") + framed(b"e2") + framed(b"e-third-one")
            for at in range(1, len(data)):
                client = await server.connect()
                client.writer.write(data[:at])
                await asyncio.sleep(0.002)
                client.writer.write(data[at:])
                assert [await client.receive() for _ in range(3)] == [b"e-first", b"e2", b"e-third-one"]
                client.close()

    run(scenario)


def test_a_byte_at_a_time_is_a_frame_in_the_end(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            for byte in framed(b"e-slow") + framed(b"e-again"):
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0.001)
            assert [await client.receive() for _ in range(2)] == [b"e-slow", b"e-again"]

    run(scenario)


def test_thousands_of_frames_in_one_write(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            names = [b"e%d" % n for n in range(50_000)]
            sending = asyncio.create_task(client.send(*names))
            for name in names:
                assert await client.receive() == name
            await sending

    run(scenario)


@pytest.mark.parametrize("size", [4091, 4092, 4093, 256 * 1024 - 4, 256 * 1024 - 3, 3 * MIB, 20 * MIB])
def test_frames_of_any_size_come_whole(run: Callable[[Scenario], None], size: int) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            large = b"e" + bytes(n % 251 for n in range(997)) * (size // 997 + 1)
            sending = asyncio.create_task(client.send(large[:size], b"e-next", large[:size], b"e-last"))
            assert [await client.receive() for _ in range(4)] == [large[:size], b"e-next", large[:size], b"e-last"]
            await sending

    run(scenario)


@pytest.mark.parametrize("length", [-1, 0, 2**31 - 1, -(2**31), 1001])
def test_a_frame_of_an_impossible_length_closes_its_connection_only(
    run: Callable[[Scenario], None], length: int
) -> None:
    async def scenario() -> None:
        async with serving(max_frame_bytes=1000) as server:
            other, client = await server.connect(), await server.connect()
            client.writer.write(framed(b"e1") + struct.pack(">i", length) + b"e2")
            assert await client.wait_closed_by_server() == framed(b"e1")
            await other.send(b"e" * 1000)
            assert await other.receive() == b"e" * 1000
            assert server.handler.handled == [b"e1", b"e" * 40]

    run(scenario)


def test_a_refusal_sends_what_was_answered_before_it_and_handles_nothing_after(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"e1", b"r2", b"e3")
            assert await client.wait_closed_by_server() == framed(b"e1")
            assert server.handler.handled == [b"e1", b"r2"]

    run(scenario)


@pytest.mark.parametrize("name", [b"b", b"x"])
def test_a_bug_closes_the_connection_and_is_logged(
    run: Callable[[Scenario], None], name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client, other = await server.connect(), await server.connect()
            server.handler.gates[b"x"] = asyncio.Event()
            server.handler.gates[b"x"].set()
            await client.send(name)
            await client.wait_closed_by_server()
            await other.send(b"e1")
            assert await other.receive() == b"e1"

    run(scenario)
    assert any(record.exc_info for record in caplog.records)


def test_a_bug_in_a_frame_that_waited_does_not_reach_whoever_answered_the_one_before(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"p1", b"b")
            await server.handler.wait_handled(1)
            await asyncio.sleep(0.01)
            server.handler.waiting[b"p1"].answer()  # and raises nothing
            assert await client.wait_closed_by_server() == framed(b"p1")

    run(scenario)


# Limits


def test_no_more_requests_than_the_limit_wait_at_once(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(max_waiting=3) as server:
            client, handler = await server.connect(), server.handler
            names = [b"p%d" % n for n in range(10)]
            await client.send(*names)
            for n, name in enumerate(names):
                await handler.wait_handled(min(n + 3, 10))
                await asyncio.sleep(0.002)
                assert len(handler.handled) == min(n + 3, 10)
                handler.waiting[name].answer()
                assert await client.receive() == name

    run(scenario)


def test_no_more_bytes_than_the_limit_are_in_flight_but_one_request_always_is(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(max_in_flight_bytes=5) as server:
            client, handler = await server.connect(), server.handler
            names = [b"p%d" % n for n in range(6)] + [b"p-large", b"p9"]
            await client.send(*names)
            for n, name in enumerate(names):
                # Of two bytes each: the third is let in while four are in flight, the fourth is not.
                await handler.wait_handled(min(n + 3, 7) if n < 6 else n + 1)
                await asyncio.sleep(0.002)
                assert len(handler.handled) <= n + 3
                handler.waiting[name].answer()
                assert await client.receive() == name

    run(scenario)


def test_a_claim_of_a_large_frame_takes_no_memory_before_its_bytes_come(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=10 * MIB) as server:
            clients = [await server.connect() for _ in range(50)]
            for client in clients:
                client.writer.write(struct.pack(">i", 100 * MIB) + b"e")
            await wait_until(lambda: all(each._own is not None for each in server.connections.open))
            held = sum(len(each._own or b"") for each in server.connections.open)
            assert held <= 50 * module.SMALLEST_BUFFER
            # And nobody else waits for what was only claimed.
            honest = await server.connect()
            await honest.send(b"e" * (3 * MIB))
            assert len(await honest.receive()) == 3 * MIB
            for client in clients:
                client.close()

    run(scenario)


def test_a_buffer_grows_with_what_was_received_not_with_what_was_claimed(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            client.writer.write(struct.pack(">i", 100 * MIB))
            (connection,) = await first_connections(server, 1)
            sent = 4
            for _ in range(20):
                client.writer.write(b"e" * 5000)
                sent += 5000
                await wait_until(lambda: connection._filled == sent)  # noqa: B023 - waited for here
                assert len(connection._own or b"") <= max(module.SMALLEST_BUFFER, module.GROWTH * sent)
            client.close()

    run(scenario)


async def first_connections(server: Server, count: int) -> list[Connection]:
    await wait_until(lambda: len(server.connections.open) >= count)
    return list(server.connections.open)


def test_a_connection_waits_for_bytes_of_the_budget_and_goes_on(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            first, second = await server.connect(), await server.connect()
            frame = framed(b"e" * (4 * MIB))
            first.writer.write(frame[: 2 * MIB])
            await wait_until(lambda: server.connections.free_bytes <= 0)
            sending = asyncio.create_task(second.send(b"e" * (2 * MIB)))
            await wait_until(lambda: server.connections._waiting_for_bytes)
            # Small frames need none of it.
            third = await server.connect()
            await third.send(b"e-small")
            assert await third.receive() == b"e-small"
            assert server.connections._waiting_for_bytes
            first.writer.write(frame[2 * MIB :])
            assert len(await first.receive()) == 4 * MIB
            assert len(await second.receive()) == 2 * MIB
            await sending

    run(scenario)


def test_connections_that_all_wait_for_each_others_bytes_get_on_one_by_one(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            clients = [await server.connect() for _ in range(20)]
            size = 3 * MIB
            sending = [asyncio.create_task(client.send(b"e" * size)) for client in clients]
            for client in clients:
                assert len(await client.receive()) == size
            await asyncio.gather(*sending)

    run(scenario)


def test_a_client_that_leaves_gives_its_bytes_back(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            first, second = await server.connect(), await server.connect()
            first.writer.write(framed(b"e" * (4 * MIB))[: 2 * MIB])
            await wait_until(lambda: server.connections.free_bytes <= 0)
            sending = asyncio.create_task(second.send(b"e" * (2 * MIB)))
            await wait_until(lambda: server.connections._waiting_for_bytes)
            first.writer.transport.abort()
            assert len(await second.receive()) == 2 * MIB
            await sending

    run(scenario)


def test_a_client_that_leaves_while_it_waits_for_bytes_is_forgotten(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            first, second = await server.connect(), await server.connect()
            first.writer.write(framed(b"e" * (4 * MIB))[: 2 * MIB])
            await wait_until(lambda: server.connections.free_bytes <= 0)
            second.writer.write(framed(b"e" * (2 * MIB)))
            await wait_until(lambda: server.connections._waiting_for_bytes)
            for connection in list(server.connections._waiting_for_bytes):
                connection.abort()
            await wait_until(lambda: not server.connections._waiting_for_bytes)
            first.writer.transport.abort()

    run(scenario)


def test_a_frame_that_does_not_come_is_given_up_when_others_wait_for_its_room(
    run: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FRAME_S", 0.05)

    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB, max_idle_s=100) as server:
            stalled, second = await server.connect(), await server.connect()
            stalled.writer.write(framed(b"e" * (4 * MIB))[: 2 * MIB])
            await wait_until(lambda: server.connections.free_bytes <= 0)
            await asyncio.sleep(0.1)
            server.connections._sweep()
            assert len(server.connections.open) == 2, "nobody waits yet"
            sending = asyncio.create_task(second.send(b"e" * (2 * MIB)))
            await wait_until(lambda: server.connections._waiting_for_bytes)
            server.connections._sweep()
            await stalled.wait_closed_by_server()
            assert len(await second.receive()) == 2 * MIB
            await sending

    run(scenario)


def test_a_slow_reader_is_read_no_further_until_it_has_caught_up(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client, other = await server.connect(limit=1000), await server.connect()
            count = 60
            await client.send(*[b"L%d" % n for n in range(count)])
            await server.handler.wait_handled(2)
            await asyncio.sleep(0.05)
            handled = len(server.handler.handled)
            # What the sockets took, one answer that went over the mark, and no more.
            assert handled < 15
            await other.send(b"e1")
            assert await other.receive() == b"e1"
            for _ in range(count):
                assert len(await client.receive()) == 3 * MIB
            assert len(server.handler.handled) == count + 1

    run(scenario)


def test_idle_connections_are_closed_and_those_that_wait_for_an_answer_are_not(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario() -> None:
        async with serving(max_idle_s=0.2) as server:
            idle, slow, waiting, busy = [await server.connect() for _ in range(4)]
            await waiting.send(b"p1")
            slow.writer.write(b"\x00\x00\x00")  # which is no frame, ever
            for n in range(20):
                await busy.send(b"e%d" % n)
                assert await busy.receive() == b"e%d" % n
                await asyncio.sleep(0.02)
            assert await idle.wait_closed_by_server() == b""
            assert await slow.wait_closed_by_server() == b""
            server.handler.waiting[b"p1"].answer()
            assert await waiting.receive() == b"p1"

    run(scenario)


def test_more_connections_than_the_limit_are_refused(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(max_connections=3) as server:
            clients = [await server.connect() for _ in range(3)]
            await first_connections(server, 3)
            refused = await server.connect()
            assert await refused.wait_closed_by_server() == b""
            assert server.connections.refused == 1
            clients[0].close()
            await wait_until(lambda: len(server.connections.open) == 2)
            late = await server.connect()
            await late.send(b"e1")
            assert await late.receive() == b"e1"

    run(scenario)


# The end


def test_a_client_that_is_gone_takes_its_work_with_it(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            polling, working = await server.connect(), await server.connect()
            await polling.send(b"w1")
            await working.send(b"c2")
            await server.handler.wait_handled(2)
            polling.writer.transport.abort()
            working.writer.transport.abort()
            await wait_until(lambda: server.handler.waiting[b"w1"].is_closed)
            await wait_until(lambda: server.handler.cancelled == [b"c2"])
            assert not server.connections.open
            server.handler.waiting[b"w1"].answer()  # late, and harmless

    run(scenario)


def test_work_that_never_began_is_closed_without_a_warning(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            (connection,) = await first_connections(server, 1)
            slot = Slot(connection, is_blocking=True, size=0)
            connection.start(server.handler._work(b"c"), slot)
            connection.connection_lost(None)
            await asyncio.sleep(0.01)
            assert not connection._tasks
            client.close()

    run(scenario)


def test_closing_answers_what_waits_and_tells_it_to_hurry(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            polling, working, idle = [await server.connect() for _ in range(3)]
            await polling.send(b"p1", b"e2")
            await working.send(b"c3")
            await server.handler.wait_handled(2)
            closing = asyncio.create_task(server.connections.close(grace_s=20))
            assert await idle.wait_closed_by_server() == b""
            assert await polling.wait_closed_by_server() == framed(b"p1")
            assert server.handler.waiting[b"p1"].is_hurried
            server.handler.gates[b"c3"].set()
            assert await working.wait_closed_by_server() == framed(b"c3")
            await closing
            assert sorted(server.handler.handled) == [b"c3", b"p1"]

    run(scenario)


def test_what_is_not_answered_within_the_grace_is_cut_off(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"c1")
            await server.handler.wait_handled(1)
            await server.connections.close(grace_s=0.02)
            assert await client.wait_closed_by_server() == b""
            await wait_until(lambda: server.handler.cancelled == [b"c1"])

    run(scenario)
