"""One node in simulation with quotas, and clients that ignore what they are told: who counts is the broker alone."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from barnabas.core.records.record import Record, encode_batch
from barnabas.node import Node, Ports
from barnabas.runtime.offload import Threads
from barnabas.services.broker import Broker
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.testing.link import NetworkConfig
from barnabas.testing.simulation import Simulation
from barnabas.testing.wire_client import WireClient, fetch_request, produce_request
from barnabas.wire.apis import ALTER_CLIENT_QUOTAS, CREATE_TOPICS, FETCH, PRODUCE

HOST: Final = "node"
PORT: Final = 9092
QUIET: Final = NetworkConfig(spike_chance=0, split_chance=0)
TOPIC: Final = "orders"
NAMED: Final = 12  # the last version of Produce and of Fetch in which topics have names


class World:
    """A node, and how it is asked."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._clients: list[WireClient] = []

    @property
    def broker(self) -> Broker:
        assert self.node.broker is not None
        return self.node.broker

    async def connect(self, client_id: str = "client") -> WireClient:
        client = await WireClient.connect(HOST, PORT, client_id=client_id)
        self._clients.append(client)
        return client

    async def set_quota(self, name: str, value: float | None, **entity: str | None) -> None:
        """Set a quota, or remove it; an entity `client_id=None` is the default."""
        admin = await self.connect("admin")
        answer = await admin.ask(
            ALTER_CLIENT_QUOTAS,
            1,
            {
                "entries": [
                    {
                        "entity": [
                            {"entity_type": kind.replace("_", "-"), "entity_name": each}
                            for kind, each in entity.items()
                        ],
                        "ops": [{"key": name, "value": value or 0.0, "remove": value is None}],
                    }
                ],
                "validate_only": False,
            },
        )
        assert [int(entry.error_code) for entry in answer.entries] == [0], answer
        admin.close()

    async def create_topic(self, name: str = TOPIC, partitions: int = 1, *, version: int = 7) -> Any:
        admin = await self.connect("admin")
        answer = await self.ask_to_create(admin, name, partitions, version=version)
        admin.close()
        return answer

    @staticmethod
    async def ask_to_create(client: WireClient, name: str, partitions: int = 1, *, version: int = 7) -> Any:
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        return await client.ask(
            CREATE_TOPICS, version, {"topics": [topic], "timeout": 30_000, "validate_only": False}, timeout_s=10_000
        )

    def close(self) -> None:
        for client in self._clients:
            client.close()


def batch_of(size: int) -> bytes:
    """A batch of about so many bytes."""
    return bytes(encode_batch([Record(0, 0, None, bytes(max(size - 80, 1)))]))


async def produce(client: WireClient, data: bytes, *, acks: int = 1) -> Any:
    """Produce one batch; the answer."""
    request = produce_request({TOPIC: {0: data}}, version=NAMED, acks=acks)
    return await client.ask(PRODUCE, NAMED, request, timeout_s=1e6)


async def fetch(client: WireClient, offset: int, *, max_bytes: int = 1024 * 1024) -> Any:
    """Fetch from an offset."""
    request = fetch_request(
        {TOPIC: {0: offset}}, version=NAMED, max_bytes=max_bytes, partition_max_bytes=max_bytes, max_wait_ms=100
    )
    return await client.ask(FETCH, NAMED, request, timeout_s=1e6)


@asynccontextmanager
async def running(simulation: Simulation, properties: dict[str, str]) -> AsyncIterator[World]:
    config = BrokerConfig.from_properties(
        {"listeners": f"PLAINTEXT://{HOST}:{PORT}", "log.dirs": "/data", "log.flush.policy": "os", **properties}
    )
    threads = Threads.in_one(simulation.offload(HOST))
    node = Node(config, Ports(simulation.disk(HOST), simulation.clock(HOST), simulation.dice(HOST), threads))
    is_ready = asyncio.Event()
    serving = simulation.host(HOST).start(node.run(lambda _: is_ready.set()))
    await is_ready.wait()
    world = World(node)
    try:
        yield world
    finally:
        world.close()
        node.stop()
        await asyncio.wait([serving])
    serving.result()


def simulate(scenario: Callable[[World], Coroutine[Any, Any, None]], **properties: str) -> None:
    """Run a scenario with a node of its own; underscores stand for the dots of settings."""
    settings = {name.replace("_", "."): text for name, text in properties.items()}

    async def main() -> None:
        async with running(simulation, settings) as world:
            await scenario(world)

    with Simulation(1, network=QUIET, max_time_s=1e7, max_steps=10**8) as simulation:
        simulation.run(main)
