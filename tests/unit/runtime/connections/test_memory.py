"""The bytes that received frames may take, of one connection and of all together."""

import asyncio
import struct
from typing import cast

import pytest

from barnabas.runtime import connection as module
from barnabas.runtime import receiving
from barnabas.runtime.connection import Connection
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
    await wait_until(lambda: server.connections.receiving.free <= 0)
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
            await wait_until(lambda: server.connections.receiving.waiting)
            # Small frames need none of it.
            third = await server.connect()
            await third.send(b"e-small")
            assert await third.receive() == b"e-small"
            assert server.connections.receiving.waiting
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
            await wait_until(lambda: server.connections.receiving.waiting)
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
            await wait_until(lambda: server.connections.receiving.waiting)
            for connection in list(server.connections.receiving.waiting):
                cast("Connection", connection).abort()
            await wait_until(lambda: not server.connections.receiving.waiting)
            first.writer.transport.abort()

    run(scenario)


def test_a_frame_that_comes_slowly_is_given_up_when_others_wait_for_its_room(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "HURRY_S", 0.05)
    monkeypatch.setattr(receiving, "SLOWEST_BYTES_PER_S", 2**40)  # nobody is that fast

    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            stalled, second = await server.connect(), await server.connect()
            await take_the_budget(server, stalled)
            await asyncio.sleep(0.1)
            server.connections._sweep()
            assert len(server.connections.open) == 2, "nobody waits yet"
            sending = asyncio.create_task(second.send(b"e" * (2 * MIB)))
            await stalled.wait_closed_by_server()
            assert len(await second.receive()) == 2 * MIB
            await sending

    run(scenario)


def test_half_sent_frames_of_many_hold_up_nobody_for_long(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "HURRY_S", 0.05)

    async def scenario() -> None:
        async with serving(max_queued_bytes=8 * MIB) as server:
            crowd = [await server.connect() for _ in range(100)]
            for client in crowd:
                client.writer.write(struct.pack(">i", 100 * MIB) + b"e" * (100 * 1024))
            await wait_until(lambda: server.connections.receiving.waiting)
            for _ in range(5):
                honest = await server.connect()
                await honest.send(b"e" * 900_000)
                assert len(await honest.receive()) == 900_000

    run(scenario)


def test_one_address_leaves_half_of_the_room_to_others(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=8 * MIB, max_frame_bytes=2 * MIB) as server:
            crowd = [await server.connect() for _ in range(20)]
            for client in crowd:
                client.writer.write(struct.pack(">i", 2 * MIB) + b"e" * MIB)
            await wait_until(lambda: server.connections.receiving.waiting)
            assert server.connections.receiving.free >= 2 * MIB
            other = await server.connect(local_addr=("127.0.0.2", 0))
            await other.send(b"e" * MIB)
            assert len(await other.receive()) == MIB
            assert len(server.connections.open) == 21

    run(scenario)


def test_a_frame_that_takes_too_long_is_given_up_though_nobody_waits(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_frame_s=0.1) as server:
            stalled, steady = await server.connect(), await server.connect()
            stalled.writer.write(struct.pack(">i", MIB) + b"e" * 1000)
            stalled.writer.write(b"e" * 5000)
            await steady.send(b"e1")
            assert await stalled.wait_closed_by_server() == b""
            assert await steady.receive() == b"e1"

    run(scenario)


def test_a_frame_that_waits_behind_another_is_not_called_slow(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "HURRY_S", 0.01)

    async def scenario() -> None:
        async with serving(max_queued_bytes=MIB) as server:
            client, second = await server.connect(), await server.connect()
            large = b"e" + bytes(200 * 1024)
            await client.send(b"w1", large, large)  # which is sent in one go, and waits for the first
            await server.handler.wait_handled(1)
            sending = asyncio.create_task(second.send(b"e" * (2 * MIB)))
            assert len(await second.receive()) == 2 * MIB
            server.handler.waiting[b"w1"].answer()
            assert [len(await client.receive()) for _ in range(3)] == [2, len(large), len(large)]
            await sending

    run(scenario)


def test_an_ordinary_frame_finds_room_at_once_though_large_ones_have_taken_all_they_may(run: Run) -> None:
    async def scenario() -> None:
        async with serving(max_queued_bytes=32 * MIB) as server:
            crowd = [await server.connect() for _ in range(100)]
            for client in crowd:
                client.writer.write(struct.pack(">i", 100 * MIB) + b"e" * (400 * 1024))
            await wait_until(lambda: server.connections.receiving.waiting)
            honest = await server.connect()
            await honest.send(b"e" * 900_000)
            assert len(await honest.receive()) == 900_000
            assert len(server.connections.open) == 101, "nobody had to go for it"

    run(scenario)
