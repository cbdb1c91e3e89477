"""A connection that pipelines has its turn, and so have the others."""

import asyncio

from barnabas.runtime.connection import FRAMES_PER_TURN
from tests.unit.runtime.connections.support import Run, first_connections, framed, serving, wait_until


def test_a_connection_that_pipelines_leaves_the_others_their_turn(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            rude, healthy = await server.connect(), await server.connect()
            handled = server.handler.handled
            count = 2000
            await first_connections(server, 2)
            # Both are there before the server has its first turn, the many before the one.
            rude.writer.write(b"".join(framed(b"e%d" % n) for n in range(count)))
            healthy.writer.write(framed(b"e-healthy"))
            await wait_until(lambda: len(handled) == count + 1)
            assert handled.index(b"e-healthy") <= 2 * FRAMES_PER_TURN
            assert [await rude.receive() for _ in range(count)] == [b"e%d" % n for n in range(count)]

    run(scenario)


def test_no_more_frames_are_taken_in_a_turn_than_are_allowed(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_waiting=1000) as server:
            client = await server.connect()
            handled = server.handler.handled
            largest, before, is_over = 0, 0, False

            def note_turn() -> None:
                nonlocal largest, before
                largest, before = max(largest, len(handled) - before), len(handled)
                if not is_over:
                    asyncio.get_running_loop().call_soon(note_turn)

            note_turn()
            await client.send(*[b"p%d" % n for n in range(900)])
            await server.handler.wait_handled(900)
            for n in range(900):
                server.handler.waiting[b"p%d" % n].answer()
                assert await client.receive() == b"p%d" % n
            is_over = True
            assert largest <= 2 * FRAMES_PER_TURN  # one in which it came, and one that was due

    run(scenario)
