"""Clients that go away, and a server that does: what waits is answered, cancelled or cut off."""

import asyncio
import gc
import weakref

import pytest

from barnabas.runtime.connections import Slot
from tests.unit.runtime.connections.support import Run, first_connections, framed, serving, wait_until


def test_a_client_that_is_gone_takes_its_work_with_it(run: Run) -> None:
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


def test_work_that_never_began_is_closed_without_a_warning(run: Run) -> None:
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


def test_closing_answers_what_waits_and_tells_it_to_hurry(run: Run) -> None:
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


def test_what_is_not_answered_within_the_grace_is_cut_off(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"c1")
            await server.handler.wait_handled(1)
            await server.connections.close(grace_s=0.02)
            assert await client.wait_closed_by_server() == b""
            await wait_until(lambda: server.handler.cancelled == [b"c1"])

    run(scenario)


@pytest.mark.parametrize("asked", [b"", b"e: answered", b"p: waits", b"c: works", b"L: is not read"])
def test_a_connection_that_is_closed_leaves_nothing_to_the_collector(run: Run, asked: bytes) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await first_connections(server, 1)
            gone = weakref.ref(next(iter(server.connections.open)))
            if asked:
                await client.send(asked)
                await server.handler.wait_handled(1)
            gc.disable()
            try:
                client.writer.transport.abort()
                await wait_until(lambda: not server.connections.open)
                server.handler.waiting.clear()
                await wait_until(lambda: gone() is None)
            finally:
                gc.enable()

    run(scenario)
