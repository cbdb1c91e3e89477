"""Answers leave in the order of their requests, and what may overlap does."""

import asyncio

from tests.unit.runtime.connections.support import Run, serving


def test_answers_leave_in_the_order_of_their_requests(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"p1", b"p2", b"p3")
            await server.handler.wait_handled(3)
            for name in (b"p3", b"p2", b"p1"):
                server.handler.waiting[name].answer()
            assert [await client.receive() for _ in range(3)] == [b"p1", b"p2", b"p3"]

    run(scenario)


def test_what_may_overlap_begins_before_earlier_answers_and_the_rest_waits_for_them(run: Run) -> None:
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


def test_a_coroutine_holds_up_even_what_may_overlap(run: Run) -> None:
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


def test_no_answer_is_an_answer_that_sends_nothing(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"n", b"p1", b"n", b"n", b"e2")
            await server.handler.wait_handled(4)
            server.handler.waiting[b"p1"].answer()
            assert [await client.receive() for _ in range(2)] == [b"p1", b"e2"]

    run(scenario)
