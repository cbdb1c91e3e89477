"""Frames however they are split and however large, and those that end their connection."""

import asyncio
import struct

import pytest

from tests.unit.runtime.connections.support import MIB, Run, framed, serving


def test_frames_may_be_split_anywhere(run: Run) -> None:
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


def test_a_byte_at_a_time_is_a_frame_in_the_end(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            for byte in framed(b"e-slow") + framed(b"e-again"):
                client.writer.write(bytes([byte]))
                await asyncio.sleep(0.001)
            assert [await client.receive() for _ in range(2)] == [b"e-slow", b"e-again"]

    run(scenario)


def test_thousands_of_frames_in_one_write(run: Run) -> None:
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
def test_frames_of_any_size_come_whole(run: Run, size: int) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            large = b"e" + bytes(n % 251 for n in range(997)) * (size // 997 + 1)
            sending = asyncio.create_task(client.send(large[:size], b"e-next", large[:size], b"e-last"))
            assert [await client.receive() for _ in range(4)] == [large[:size], b"e-next", large[:size], b"e-last"]
            await sending

    run(scenario)


@pytest.mark.parametrize("length", [-1, 0, 2**31 - 1, -(2**31), 1001])
def test_a_frame_of_an_impossible_length_closes_its_connection_only(run: Run, length: int) -> None:
    async def scenario() -> None:
        async with serving(max_frame_bytes=1000) as server:
            other, client = await server.connect(), await server.connect()
            client.writer.write(framed(b"e1") + struct.pack(">i", length) + b"e2")
            assert await client.wait_closed_by_server() == framed(b"e1")
            await other.send(b"e" * 1000)
            assert await other.receive() == b"e" * 1000
            assert server.handler.handled == [b"e1", b"e" * 40]

    run(scenario)


def test_a_refusal_sends_what_was_answered_before_it_and_handles_nothing_after(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"e1", b"r2", b"e3")
            assert await client.wait_closed_by_server() == framed(b"e1")
            assert server.handler.handled == [b"e1", b"r2"]

    run(scenario)


@pytest.mark.parametrize("name", [b"b", b"x"])
def test_a_bug_closes_the_connection_and_is_logged(run: Run, name: bytes, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_bug_in_a_frame_that_waited_does_not_reach_whoever_answered_the_one_before(run: Run) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            await client.send(b"p1", b"b")
            await server.handler.wait_handled(1)
            await asyncio.sleep(0.01)
            server.handler.waiting[b"p1"].answer()  # and raises nothing
            assert await client.wait_closed_by_server() == framed(b"p1")

    run(scenario)
