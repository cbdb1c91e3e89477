"""The simulated network: asyncio's transports as protocols see them, and what goes wrong on purpose."""

import asyncio
import socket

import pytest

from barnabas.testing.hosts import current_life
from barnabas.testing.network import SimulatedNetwork
from tests.unit.testing.network_support import SPLITTING, BufferedEcho, Recorder, ask, connected, echo, run

# As on a real network.


def test_protocols_are_called_in_asyncios_order() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network, server=Recorder(echoes=True))
        client.transport.write(b"hello")
        await asyncio.sleep(1)
        client.transport.close()
        assert client.transport.is_closing()
        await client.lost.wait()
        await server.lost.wait()
        assert client.received == server.received == b"hello"
        assert client.calls == ["made", "data", "lost"]
        assert server.calls == ["made", "data", "eof", "lost"]
        assert client.error is server.error is None
        assert network.connections() == []

    run(scenario)


def test_both_ends_know_their_addresses() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        assert client.transport.get_extra_info("peername") == ("b", 9092)
        assert server.transport.get_extra_info("sockname") == ("b", 9092)
        assert server.transport.get_extra_info("peername") == client.transport.get_extra_info("sockname")
        assert client.transport.get_extra_info("sockname")[0] == "a"
        assert client.transport.get_extra_info("socket") is None
        assert client.transport.get_protocol() is client

    run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_and_whole_however_they_are_split(seed: int) -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        sent = bytes(n * n % 251 for n in range(50_000))
        for start in range(0, len(sent), 999):
            client.transport.writelines([sent[start : start + 500], memoryview(sent[start + 500 : start + 999])])
        client.transport.close()
        await server.lost.wait()
        assert server.received == sent
        assert server.chunks > 10

    run(scenario, seed=seed, config=SPLITTING)


def test_a_buffered_protocol_takes_no_more_than_its_buffer() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        loop = asyncio.get_running_loop()
        await network.host("b").run(loop.create_server(BufferedEcho, "0.0.0.0", 9092))
        reader, writer = await asyncio.open_connection("b", 9092)
        writer.write(b"x" * 10_000)
        assert await reader.readexactly(10_000) == b"x" * 10_000
        writer.close()
        await writer.wait_closed()

    run(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_streams_of_asyncio_work_under_delays_and_splits(seed: int) -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        server = await network.host("b").run(asyncio.start_server(echo, "b", 9092))
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(network.host(f"client-{n}").run(ask(20))) for n in range(5)]
        for client in clients:
            assert [int(line.split()[0]) for line in client.result()] == list(range(20))
        server.close()
        await server.wait_closed()

    run(scenario, seed=seed, config=SPLITTING)


def test_a_server_can_be_left_and_its_port_used_again() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        async with await asyncio.start_server(echo, "localhost", 0) as server:
            [listening] = server.sockets
            host, port = listening.getsockname()
            assert server.is_serving()
            assert len(await ask(3, "127.0.0.1", port)) == 3
            with pytest.raises(OSError, match="in use"):
                await asyncio.start_server(echo, host, port)
        assert server.sockets == ()
        async with await asyncio.start_server(echo, host, port):
            assert len(await ask(3, "localhost", port)) == 3

    run(scenario)


def test_one_end_may_stop_writing_and_go_on_reading() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network, server=Recorder(stays_open=True))
        client.transport.write(b"question")
        client.transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            client.transport.write(b"more")
        await server.ended.wait()
        server.transport.write(b"answer")
        server.transport.close()
        await client.lost.wait()
        assert client.received == b"answer"
        assert client.error is None

    run(scenario)


def test_a_reader_that_pauses_makes_the_writer_pause() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        server.transport.pause_reading()
        assert not server.transport.is_reading()
        client.transport.set_write_buffer_limits(high=1000)
        assert client.transport.get_write_buffer_limits() == (250, 1000)
        client.transport.write(b"x" * 5_000)
        assert client.transport.get_write_buffer_size() == 0
        client.transport.write(b"y" * 1_001)
        assert client.calls == ["made", "pause"]
        await asyncio.sleep(100)
        assert client.transport.get_write_buffer_size() == 1_001
        assert server.received == b""
        client.transport.close()
        server.transport.resume_reading()
        await server.lost.wait()
        assert client.calls == ["made", "pause", "resume", "lost"]
        assert server.received == b"x" * 5_000 + b"y" * 1_001

    run(scenario, config=SPLITTING)


def test_bytes_sent_to_a_closed_end_are_answered_by_a_reset() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network, client=Recorder(stays_open=True))
        server.transport.close()
        await client.ended.wait()
        client.transport.write(b"too late")
        await client.lost.wait()
        assert isinstance(client.error, ConnectionResetError)

    run(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_abort_ends_both_ends(seed: int) -> None:
    async def scenario(network: SimulatedNetwork) -> tuple[bytes, bool]:
        client, server = await connected(network)
        client.transport.write(b"half of it")
        client.transport.abort()
        await client.lost.wait()
        await server.lost.wait()
        assert client.error is None
        return bytes(server.received), server.error is not None

    assert run(scenario, seed=seed) in ((b"half of it", False), (b"", True))


def test_a_protocol_that_fails_is_reported_and_closed() -> None:
    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("cannot take it")

    async def scenario(network: SimulatedNetwork) -> None:
        client, _ = await connected(network, server=Failing())
        client.transport.write(b"x")
        await client.lost.wait()

    with pytest.raises(BaseExceptionGroup) as caught:
        run(scenario)
    assert isinstance(caught.value.exceptions[0], ValueError)


def test_code_of_no_host_may_name_one_by_its_own_address() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        await asyncio.start_server(echo, "b", 9092)
        _, writer = await asyncio.open_connection("b", 9092, local_addr=("a", 0))
        assert writer.get_extra_info("sockname")[0] == "a"
        assert len(network.connections("a", "b")) == 1
        writer.close()
        await writer.wait_closed()

    run(scenario)


def test_what_a_server_starts_belongs_to_its_host() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        lives: list[str] = []

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            life = current_life()
            lives.append(life.host_name if life else "nobody")
            writer.close()

        await network.host("b").run(asyncio.start_server(handle, None, 9092))
        reader, writer = await network.host("a").run(asyncio.open_connection("b", 9092))
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert lives == ["b"]

    run(scenario)


# Refusals.


def test_connecting_where_nobody_listens_is_refused() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        network.host("b")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("b", 9092)
        with pytest.raises(socket.gaierror, match="'c'"):
            await asyncio.open_connection("c", 9092)

    run(scenario)


def test_listening_on_another_hosts_address_is_refused() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        with pytest.raises(OSError, match="not an address of 'a'"):
            await network.host("a").run(asyncio.start_server(echo, "b", 9092))

    run(scenario)


def test_tls_is_refused() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        with pytest.raises(NotImplementedError, match="ssl"):
            await asyncio.open_connection("localhost", 9092, ssl=True)

    run(scenario)
