"""The simulated network: asyncio's transports as protocols see them, and what goes wrong on purpose."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import pytest

from barnabas.testing.hosts import Host, current_life
from barnabas.testing.link import NetworkConfig
from barnabas.testing.loop import SimulationStuck
from barnabas.testing.network import SimulatedNetwork
from barnabas.testing.simulation import Simulation

T = TypeVar("T")

QUIET = NetworkConfig(spike_chance=0, split_chance=0)
SPLITTING = NetworkConfig(split_chance=0.9, spike_chance=0.2, link_bytes=5_000)


def run(
    scenario: Callable[[SimulatedNetwork], Coroutine[Any, Any, T]],
    *,
    seed: int = 1,
    config: NetworkConfig | None = None,
) -> T:
    with Simulation(seed, network=config, max_time_s=10_000) as simulation:
        return simulation.run(lambda: scenario(simulation.network))


class Recorder(asyncio.Protocol):
    """Notes every call; echoes if told to."""

    def __init__(self, *, echoes: bool = False, stays_open: bool = False) -> None:
        self.calls: list[str] = []
        self.received = bytearray()
        self.chunks = 0
        self.echoes = echoes
        self.stays_open = stays_open
        self.error: Exception | None = None
        self.transport: asyncio.Transport
        self.made, self.ended, self.lost = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")
        self.made.set()
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.calls[-1] != "data":
            self.calls.append("data")
        self.received += data
        self.chunks += 1
        if self.echoes:
            self.transport.write(data)

    def eof_received(self) -> bool:
        self.calls.append("eof")
        self.ended.set()
        return self.stays_open

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.error = exc
        self.lost.set()


class BufferedEcho(asyncio.BufferedProtocol):
    """Echoes through a small buffer of its own."""

    def __init__(self) -> None:
        self.buffer = bytearray(100)
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(self.buffer[:nbytes])


async def connected(
    network: SimulatedNetwork, *, client: Recorder | None = None, server: Recorder | None = None
) -> tuple[Recorder, Recorder]:
    """Two protocols, the client on host a, the server on host b."""
    near, far = client or Recorder(), server or Recorder()
    loop = asyncio.get_running_loop()
    await network.host("b").run(loop.create_server(lambda: far, port=9092))
    await network.host("a").run(loop.create_connection(lambda: near, "b", 9092))
    await far.made.wait()
    return near, far


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


async def ask(lines: int, host: str = "b", port: int = 9092) -> list[bytes]:
    reader, writer = await asyncio.open_connection(host, port)
    answers = []
    for number in range(lines):
        writer.write(b"%d %s\n" % (number, b"x" * (number * 37 % 999)))
        await writer.drain()
        answers.append(await reader.readline())
    writer.close()
    await writer.wait_closed()
    return answers


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


# Faults.


def test_a_reset_reaches_both_ends() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        [connection] = network.connections("a", "b")
        network.reset(connection)
        client.transport.write(b"lost")
        await client.lost.wait()
        await server.lost.wait()
        assert isinstance(client.error, ConnectionResetError)
        assert isinstance(server.error, ConnectionResetError)
        assert server.received == b""

    run(scenario)


def test_resets_and_refusals_by_chance_are_survived_by_trying_again() -> None:
    async def scenario(network: SimulatedNetwork) -> int:
        async def careful(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await echo(reader, writer)
            except ConnectionError:
                writer.close()

        await network.host("b").run(asyncio.start_server(careful, "b", 9092))
        failures = 0
        for _ in range(20):
            try:
                await ask(5)
            except (ConnectionError, AssertionError):
                failures += 1
        return failures

    config = NetworkConfig(reset_chance=0.05, refuse_chance=0.2)
    assert 0 < run(scenario, config=config) < 20


@pytest.mark.parametrize("seed", range(5))
def test_a_partition_holds_bytes_back_until_it_heals(seed: int) -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        network.partition(["a"], ["b"])
        client.transport.write(b"patience")
        client.transport.close()
        await client.lost.wait()
        await asyncio.sleep(500)
        assert server.received == b""
        network.heal()
        await server.lost.wait()
        assert server.received == b"patience"
        assert server.error is None

    run(scenario, seed=seed)


def test_a_partition_that_drops_bytes_ends_in_a_reset() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        network.isolate("b", drop=True)
        client.transport.write(b"gone")
        await asyncio.sleep(10)
        network.heal()
        await client.lost.wait()
        await server.lost.wait()
        assert isinstance(server.error, ConnectionResetError)
        assert server.received == b""

    run(scenario)


def test_a_partition_may_be_one_way() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        network.partition(["a"], ["b"], one_way=True)
        client.transport.write(b"there")
        server.transport.write(b"back")
        await asyncio.sleep(10)
        assert client.received == b"back"
        assert server.received == b""

    run(scenario)


def test_connecting_across_a_partition_times_out_or_waits_for_it_to_heal() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        loop = asyncio.get_running_loop()
        await network.host("b").run(asyncio.start_server(echo, "b", 9092))
        network.partition(["localhost"], ["b"])
        began = loop.time()
        with pytest.raises(TimeoutError):
            await asyncio.open_connection("b", 9092)
        assert loop.time() - began == pytest.approx(127)
        asking = asyncio.create_task(ask(3))
        await asyncio.sleep(60)
        assert not asking.done()
        network.heal()
        assert len(await asking) == 3

    run(scenario)


def test_a_crashed_host_hears_nothing_and_its_peers_see_a_reset() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, server = await connected(network)
        server.transport.write(b"unread")
        network.crash("b")
        await client.lost.wait()
        await asyncio.sleep(100)
        assert isinstance(client.error, ConnectionResetError)
        assert server.calls == ["made"]
        assert network.connections() == []
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("b", 9092)
        await network.host("b").run(asyncio.start_server(echo, "b", 9092))
        assert len(await ask(3)) == 3

    run(scenario)


def test_a_host_that_crashes_behind_a_partition_is_missed_only_after_it_heals() -> None:
    async def scenario(network: SimulatedNetwork) -> None:
        client, _ = await connected(network)
        network.isolate("b")
        network.crash("b")
        await asyncio.sleep(100)
        assert client.calls == ["made"]
        network.heal()
        await client.lost.wait()
        assert isinstance(client.error, ConnectionResetError)

    run(scenario)


def test_a_server_task_of_a_crashed_host_is_not_what_a_simulation_is_stuck_on() -> None:
    async def serve() -> None:
        server = await asyncio.start_server(echo, None, 9092)
        await server.serve_forever()

    async def scenario(network: SimulatedNetwork) -> None:
        host: Host = network.host("b")
        host.start(serve())
        await asyncio.sleep(1)
        network.crash("b")
        await asyncio.Event().wait()

    with pytest.raises(SimulationStuck, match="1 pending task"):
        run(scenario)
