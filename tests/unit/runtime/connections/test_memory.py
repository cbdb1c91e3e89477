"""The bytes that received frames may take, of one connection and of all together."""

import asyncio
import struct

import pytest

from barnabas.runtime import connections as module
from tests.unit.runtime.connections.support import (
    MIB,
    Client,
    Run,
    Server,
    first_connections,
    framed,
    serving,
    wait_until,
)


async def take_the_budget(server: Server, client: Client) -> bytes:
    """Send half of a frame of 4 MiB, of which nobody else has room then; gives the other half."""
    frame = framed(b"e" * (4 * MIB))
    client.writer.write(frame[: 2 * MIB])
    await wait_until(lambda: server.connections.free_bytes <= 0)
    return frame[2 * MIB :]


def test_a_claim_of_a_large_frame_takes_no_memory_before_its_bytes_come(run: Run) -> None:
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


def test_a_buffer_grows_with_what_was_received_not_with_what_was_claimed(run: Run) -> None:
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


def test_a_connection_waits_for_bytes_of_the_budget_and_goes_on(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            first, second = await server.connect(), await server.connect()
            rest = await take_the_budget(server, first)
            sending = asyncio.create_task(second.send(b"e" * (2 * MIB)))
            await wait_until(lambda: server.connections._waiting_for_bytes)
            # Small frames need none of it.
            third = await server.connect()
            await third.send(b"e-small")
            assert await third.receive() == b"e-small"
            assert server.connections._waiting_for_bytes
            first.writer.write(rest)
            assert len(await first.receive()) == 4 * MIB
            assert len(await second.receive()) == 2 * MIB
            await sending

    run(scenario)


def test_connections_that_all_wait_for_each_others_bytes_get_on_one_by_one(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            clients = [await server.connect() for _ in range(20)]
            size = 3 * MIB
            sending = [asyncio.create_task(client.send(b"e" * size)) for client in clients]
            for client in clients:
                assert len(await client.receive()) == size
            await asyncio.gather(*sending)

    run(scenario)


def test_a_client_that_leaves_gives_its_bytes_back(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            first, second = await server.connect(), await server.connect()
            await take_the_budget(server, first)
            sending = asyncio.create_task(second.send(b"e" * (2 * MIB)))
            await wait_until(lambda: server.connections._waiting_for_bytes)
            first.writer.transport.abort()
            assert len(await second.receive()) == 2 * MIB
            await sending

    run(scenario)


def test_a_client_that_leaves_while_it_waits_for_bytes_is_forgotten(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            first, second = await server.connect(), await server.connect()
            await take_the_budget(server, first)
            second.writer.write(framed(b"e" * (2 * MIB)))
            await wait_until(lambda: server.connections._waiting_for_bytes)
            for connection in list(server.connections._waiting_for_bytes):
                connection.abort()
            await wait_until(lambda: not server.connections._waiting_for_bytes)
            first.writer.transport.abort()

    run(scenario)


def test_a_frame_that_does_not_come_is_given_up_when_others_wait_for_its_room(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FRAME_S", 0.05)

    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB, max_idle_s=100) as server:
            stalled, second = await server.connect(), await server.connect()
            await take_the_budget(server, stalled)
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
