"""Answers that clients do not read: what they hold is bounded, they wait, and nobody else does."""

import asyncio
from collections.abc import Callable

import pytest

from barnabas.runtime import answers
from tests.unit.runtime.connections.support import MIB, Run, Server, framed, serving, wait_until

LARGE = bytes(range(251)) * (20 * MIB // 251)


def held(server: Server) -> int:
    """Bytes of answers in the memory of the server."""
    return sum(each._transport.get_write_buffer_size() for each in server.connections.open)


async def wait_still(server: Server, amount: Callable[[], int]) -> None:
    """Until the server does nothing more on its own."""
    before, same = -1, 0
    while same < 20:
        await asyncio.sleep(0.002)
        same = same + 1 if amount() == before else 0
        before = amount()


def taken(server: Server) -> int:
    return sum(each.taken for each in server.handler.unread)


@pytest.mark.parametrize("kind", [b"U", b"C"])
def test_clients_that_do_not_read_hold_no_more_than_the_budget_together(run: Run, kind: bytes) -> None:
    async def scenario() -> None:
        async with serving(max_unread_bytes=4 * MIB) as server:
            server.handler.large = LARGE
            clients = [await server.connect(limit=1000) for _ in range(30)]
            for client in clients:
                await client.send(kind)
            await server.handler.wait_handled(30)
            await wait_still(server, lambda: taken(server))
            each = answers.SMALL_PIECE + answers.WRITE_HIGH_WATER
            assert held(server) <= 4 * MIB + answers.LARGE_PIECE + 30 * each
            # Others are served, records of their own that are not read among them.
            healthy = await server.connect()
            await healthy.send(b"e1", kind)
            assert await healthy.receive() == b"e1"
            assert await healthy.receive() == b"begin" + LARGE
            for client in clients:
                client.close()

    run(scenario)


@pytest.mark.parametrize("kind", [b"U", b"C"])
def test_an_answer_that_is_read_in_pieces_comes_whole_and_in_order(run: Run, kind: bytes) -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.handler.large = LARGE
            client = await server.connect()
            await client.send(b"e1", kind, b"e2", kind, b"p3")
            received = [await client.receive() for _ in range(4)]
            assert received == [b"e1", b"begin" + LARGE, b"e2", b"begin" + LARGE]
            await wait_until(lambda: b"p3" in server.handler.waiting)
            server.handler.waiting[b"p3"].answer()
            assert await client.receive() == b"p3"

    run(scenario)


def test_what_is_answered_meanwhile_waits_behind_an_answer_that_is_not_read(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.handler.large = LARGE
            client = await server.connect(limit=1000)
            await client.send(b"p1", b"U")
            await server.handler.wait_handled(1)
            server.handler.waiting[b"p1"].answer()
            await server.handler.wait_handled(2)
            await wait_still(server, lambda: taken(server))
            assert taken(server) < len(LARGE)
            await client.send(b"e2")
            assert [await client.receive() for _ in range(3)] == [b"p1", b"begin" + LARGE, b"e2"]

    run(scenario)


def test_a_client_that_reads_nothing_is_closed_after_a_while(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_unread_s=0.1) as server:
            server.handler.large = LARGE
            deaf, waiting = await server.connect(limit=1000), await server.connect()
            await deaf.send(b"U")
            await waiting.send(b"w1")
            await wait_until(lambda: len(server.connections.open) == 1)
            server.handler.waiting[b"w1"].answer()
            assert await waiting.receive() == b"w1"

    run(scenario)


def test_a_client_that_reads_nothing_is_closed_sooner_when_the_memory_is_used_up(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_unread_bytes=40 * MIB, max_unread_s=1000) as server:
            server.handler.large = bytes(30 * MIB)
            unread = server.connections.unread
            for _ in range(3):
                deaf = await server.connect(limit=1000)
                await deaf.send(b"L")
            await server.handler.wait_handled(3)
            await wait_still(server, lambda: held(server))
            assert unread.free <= 0
            now = server.connections.loop.time()
            server.connections._close_deaf(now + 99)
            assert unread.free <= 0, "there is time yet"
            server.connections._close_deaf(now + 101)  # a tenth of the time
            assert unread.free > 0
            await wait_until(lambda: len(server.connections.open) < 3)
            server.connections._close_deaf(now + 200)
            assert len(server.connections.open) > 0, "only as many as are in the way"

    run(scenario)


def test_a_connection_is_closed_when_the_rest_of_a_promised_answer_cannot_be_read(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client, other = await server.connect(), await server.connect()
            await client.send(b"F", b"e-never")
            received = await client.wait_closed_by_server()
            assert len(received) < len(server.handler.large)
            assert b"e-never" not in received
            await other.send(b"e1")
            assert await other.receive() == b"e1"

    run(scenario)


def test_closing_sends_an_answer_to_its_end(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.handler.large = LARGE
            client = await server.connect(limit=1000)
            await client.send(b"U")
            await server.handler.wait_handled(1)
            closing = asyncio.create_task(server.connections.close(grace_s=20))
            assert await client.wait_closed_by_server() == framed(b"begin" + LARGE)
            await closing

    run(scenario)
