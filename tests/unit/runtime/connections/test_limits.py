"""How many requests wait, connections are open, and how long: what is over a limit waits or is closed."""

import asyncio

import pytest

from tests.unit.runtime.connections.support import MIB, Run, first_connections, serving, wait_until


def test_no_more_requests_than_the_limit_wait_at_once(run: Run) -> None:
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


def test_no_more_bytes_than_the_limit_are_in_flight_but_one_request_always_is(run: Run) -> None:
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


def test_a_slow_reader_is_read_no_further_until_it_has_caught_up(run: Run) -> None:
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


def test_idle_connections_are_closed_and_those_that_wait_for_an_answer_are_not(run: Run) -> None:
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


def test_more_connections_than_the_limit_are_refused(run: Run) -> None:
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


def test_more_connections_of_one_address_than_the_limit_are_refused_and_a_few_lines_say_so(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        limits = {"max_connections_per_ip": 2, "max_connections_per_ip_overrides": {"127.0.0.3": 1}}
        async with serving(**limits) as server:
            here = [await server.connect() for _ in range(2)]
            await first_connections(server, 2)
            for _ in range(50):
                assert await (await server.connect()).wait_closed_by_server() == b""
            there = await server.connect(local_addr=("127.0.0.2", 0))
            await there.send(b"e1")
            assert await there.receive() == b"e1"
            await server.connect(local_addr=("127.0.0.3", 0))
            await first_connections(server, 4)
            assert await (await server.connect(local_addr=("127.0.0.3", 0))).wait_closed_by_server() == b""
            here[0].close()
            await wait_until(lambda: len(server.connections.open) == 3)
            again = await server.connect()
            await again.send(b"e2")
            assert await again.receive() == b"e2"
            assert server.connections.refused == 51

    run(scenario)
    said = [record.getMessage() for record in caplog.records if "max.connections.per.ip" in record.getMessage()]
    assert len(said) == 10
