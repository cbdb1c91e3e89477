"""Another node for the tests of peers: answers as it is told to, and says what it was asked."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from barnabas.runtime.peers import PeerLimits, Peers
from barnabas.testing.link import NetworkConfig
from barnabas.testing.simulation import Simulation
from barnabas.wire.apis import API_VERSIONS
from barnabas.wire.responses import write_response

HEARTBEAT = 63
FETCH = 1
VERSIONS = [
    {"api_key": 18, "min_version": 0, "max_version": 4},
    {"api_key": FETCH, "min_version": 4, "max_version": 18},
    {"api_key": HEARTBEAT, "min_version": 0, "max_version": 1},
]
QUIET = NetworkConfig(spike_chance=0, split_chance=0)

# Takes a request's API, version and correlation id; gives the bytes to be sent, or None.
Reply = Callable[["FakeNode", int, int, int], bytes | None]


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def answer(key: int, version: int, correlation_id: int, values: dict[str, Any] | None = None) -> bytes:
    """A whole answer; all that is asked of the fake node is flexible but for ApiVersions."""
    tags = b"" if key == API_VERSIONS.key else b"\x00"
    return framed(correlation_id.to_bytes(4, "big") + tags + write_response(key, version, values or {}))


def well(node: "FakeNode", key: int, version: int, correlation_id: int) -> bytes | None:
    """As a node answers that is well."""
    if key == API_VERSIONS.key:
        return answer(key, version, correlation_id, {"api_keys": VERSIONS})
    return answer(key, version, correlation_id, {"is_caught_up": True} if key == HEARTBEAT else {})


class FakeNode:
    """Serves connections, on host b, port 9092 of a simulation once it listens."""

    def __init__(self, reply: Reply = well) -> None:
        self.simulation: Simulation | None = None
        self.reply = reply
        self.asked: list[tuple[int, int, int]] = []
        self._is_asked = asyncio.Event()
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def listen(self) -> None:
        assert self.simulation is not None
        await self.simulation.host("b").run(asyncio.start_server(self.serve, port=9092))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
                correlation_id = int.from_bytes(frame[4:8], "big")
                self.asked.append((key, version, correlation_id))
                self._is_asked.set()
                data = self.reply(self, key, version, correlation_id)
                if data is not None:
                    writer.write(data)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def wait_asked(self, key: int) -> None:
        """Until a request of an API has come."""
        while not self.only(key):
            self._is_asked.clear()
            await self._is_asked.wait()

    def only(self, key: int) -> list[tuple[int, int, int]]:
        return [each for each in self.asked if each[0] == key]


def run(
    scenario: Callable[[Simulation, FakeNode, Peers], Coroutine[Any, Any, None]],
    *,
    limits: PeerLimits | None = None,
    seed: int = 1,
    config: NetworkConfig = QUIET,
    listens: bool = True,
    authenticate: Any = None,
) -> str:
    """Run a scenario with a node that listens, and with peers on host a; gives the hash of the trace."""

    async def with_peers(simulation: Simulation, node: FakeNode) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            peers = Peers(tasks, loop, simulation.dice("a"), limits, authenticate=authenticate)
            try:
                await scenario(simulation, node, peers)
            finally:
                peers.close()

    async def all_of_it() -> None:
        node = FakeNode()
        node.simulation = simulation
        simulation.host("b")
        if listens:
            await node.listen()
        await simulation.host("a").run(with_peers(simulation, node))

    with Simulation(seed, network=config, max_time_s=10_000) as simulation:
        simulation.run(all_of_it)
        return simulation.trace_hash()
