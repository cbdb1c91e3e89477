"""What the tests of the simulated network share: protocols that note what they hear, and hosts that talk."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from barnabas.testing.link import NetworkConfig
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
