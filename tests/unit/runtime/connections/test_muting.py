"""A connection that is muted is not read until its time is over, and what was answered leaves."""

from typing import Any

from barnabas.runtime.connection import Connection
from tests.unit.runtime.connections.support import Run, Server, first_connections, serving, wait_until

HOUR_S = 3600.0


async def only_connection(server: Server) -> Connection:
    await first_connections(server, 1)
    return next(iter(server.connections.open))


def nothing() -> None:
    pass


def test_what_comes_while_a_connection_is_muted_is_taken_afterwards(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            connection = await only_connection(server)
            connection.mute(0.05, lambda: server.handler.handled.append(b"over"))
            await client.send(b"e1", b"e2")
            assert [await client.receive(), await client.receive()] == [b"e1", b"e2"]
            assert server.handler.handled == [b"over", b"e1", b"e2"]

    run(scenario)


def test_the_request_that_mutes_is_answered_at_once_and_is_the_last_for_now(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            connection, handle = await only_connection(server), server.handler.handle

            def muting(frame: memoryview) -> Any:
                if bytes(frame) == b"e2":
                    connection.mute(HOUR_S, nothing)
                return handle(frame)

            server.handler.handle = muting  # type: ignore[method-assign]  # this handler is of this test alone
            await client.send(b"e1", b"e2", b"e3", b"p4")
            assert [await client.receive(), await client.receive()] == [b"e1", b"e2"]
            assert server.handler.handled == [b"e1", b"e2"]
            assert connection.is_held_up
            connection.go_on()  # whoever says so does not know that it is muted
            assert server.handler.handled == [b"e1", b"e2"]

    run(scenario)


def test_an_answer_that_was_waited_for_leaves_a_muted_connection(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            connection = await only_connection(server)
            await client.send(b"p1")
            await server.handler.wait_handled(1)
            connection.mute(HOUR_S, nothing)
            await client.send(b"e2")
            server.handler.waiting[b"p1"].answer()
            assert await client.receive() == b"p1"
            assert server.handler.handled == [b"p1"]

    run(scenario)


def test_of_two_times_the_longer_counts(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            connection, ended = await only_connection(server), []
            connection.mute(0.01, lambda: ended.append("short"))
            connection.mute(0.1, lambda: ended.append("long"))
            connection.mute(0.05, lambda: ended.append("middle"))
            await client.send(b"e1")
            assert await client.receive() == b"e1"
            assert ended == ["long"]

    run(scenario)


def test_a_muted_connection_can_be_lost(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            connection = await only_connection(server)
            connection.mute(HOUR_S, nothing)
            connection.abort()
            await client.wait_closed_by_server()
            await wait_until(lambda: not server.connections.open)
            connection.mute(HOUR_S, nothing)

    run(scenario)


def test_a_connection_that_is_held_from_the_start_is_closed_and_never_read(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.connections.hold_s = lambda _: 0.01
            client = await server.connect()
            await client.send(b"e1")
            assert await client.wait_closed_by_server() == b""
            await wait_until(lambda: not server.connections.open)
            assert server.handler.handled == []
            server.connections.hold_s = lambda _: 0.0
            client = await server.connect()
            await client.send(b"e2")
            assert await client.receive() == b"e2"

    run(scenario)
