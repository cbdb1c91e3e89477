"""A node on virtual time that coordinates groups, and clients that speak to it over a simulated network.

The node may be killed (its disk keeps all), lose its power (its disk keeps what was synced) and start again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from barnabas.node import Node, Ports
from barnabas.runtime.offload import Threads
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.testing.disk import Keep
from barnabas.testing.simulation import Simulation
from barnabas.testing.wire_client import WireClient, create_topic_request
from barnabas.wire.apis import (
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_TOPICS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    INCREMENTAL_ALTER_CONFIGS,
    JOIN_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SYNC_GROUP,
)

HOST: Final = "node"
PORT: Final = 9092
SESSION_MS: Final = 10_000
MEMBER_ID_REQUIRED: Final = 79


class GroupWorld:
    """One node, and what its clients ask."""

    def __init__(self, simulation: Simulation, settings: dict[str, str]) -> None:
        self.simulation = simulation
        self._settings = {
            "listeners": f"PLAINTEXT://{HOST}:{PORT}",
            "log.dirs": "/data",
            "offsets.topic.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            **settings,
        }
        self._node: Node | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        simulation = self.simulation
        threads = Threads.in_one(simulation.offload(HOST))
        ports = Ports(simulation.disk(HOST), simulation.clock(HOST), simulation.dice(HOST), threads)
        self._node = Node(BrokerConfig.from_properties(self._settings), ports)
        ready = asyncio.Event()
        self._running = simulation.host(HOST).start(self._node.run(lambda _: ready.set()))
        await ready.wait()

    async def stop(self) -> None:
        assert self._node is not None
        assert self._running is not None
        self._node.stop()
        await asyncio.wait([self._running])
        self._running.result()
        self.simulation.kill(HOST)

    async def restart(self, *, how: str, **settings: str) -> None:
        """End the node in this way, and start it again, perhaps with other settings."""
        self._settings |= {name.replace("_", "."): text for name, text in settings.items()}
        if how == "stop":
            await self.stop()
        elif how == "kill":
            self.simulation.kill(HOST)
        else:
            self.simulation.crash(HOST, Keep.NOTHING if how == "power cut" else Keep.RANDOM)
        await self.start()

    async def connect(self) -> "GroupClient":
        return GroupClient(await WireClient.connect(HOST, PORT, client_id="member"))


class Joined(Protocol):
    """The answer to a join."""

    member_id: str
    generation_id: int
    members: Sequence[Any]


class GroupClient:
    """One connection."""

    def __init__(self, wire: WireClient) -> None:
        self.wire = wire

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        answer = await self.wire.ask(CREATE_TOPICS, 7, create_topic_request(name, partitions=partitions))
        assert answer.topics[0].error_code == 0

    async def join(self, member_id: str = "", *, group: str = "g", timeout_s: float = 600) -> Any:
        """Join, with the id that a new member is first told."""
        answer = await self.wire.ask(
            JOIN_GROUP,
            9,
            {
                "group_id": group,
                "session_timeout": SESSION_MS,
                "rebalance_timeout": 30_000,
                "member_id": member_id,
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b"meta"}],
                "reason": None,
            },
            timeout_s=timeout_s,
        )
        if answer.error_code == MEMBER_ID_REQUIRED:
            return await self.join(answer.member_id, group=group, timeout_s=timeout_s)
        return answer

    async def sync(self, joined: Any, assignments: dict[str, bytes] | None = None, *, group: str = "g") -> Any:
        return await self.wire.ask(
            SYNC_GROUP,
            5,
            {
                "group_id": group,
                "generation_id": joined.generation_id,
                "member_id": joined.member_id,
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [
                    {"member_id": member_id, "assignment": data} for member_id, data in (assignments or {}).items()
                ],
            },
        )

    async def heartbeat(self, joined: Any, *, group: str = "g") -> int:
        asked = {
            "group_id": group,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "group_instance_id": None,
        }
        return int((await self.wire.ask(HEARTBEAT, 4, asked)).error_code)

    async def commit(self, offset: int, *, topic: str = "t", group: str = "g", joined: Any = None) -> int:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        answer = await self.wire.ask(
            OFFSET_COMMIT,
            9,
            {
                "group_id": group,
                "generation_id_or_member_epoch": -1 if joined is None else joined.generation_id,
                "member_id": "" if joined is None else joined.member_id,
                "group_instance_id": None,
                "topics": [{"name": topic, "partitions": [{**partition, "committed_leader_epoch": -1}]}],
            },
        )
        return int(answer.topics[0].partitions[0].error_code)

    async def fetch(self, *, topic: str = "t", group: str = "g") -> int:
        topics = [{"name": topic, "partition_indexes": (0,)}]
        groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics}]
        answer = await self.wire.ask(OFFSET_FETCH, 9, {"groups": groups, "require_stable": True})
        assert answer.groups[0].error_code == 0
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)

    async def set_config(self, group: str, name: str, value: str) -> None:
        change = {"name": name, "value": value, "config_operation": 0}
        resource = {"resource_type": 32, "resource_name": group, "configs": [change]}
        asked = {"resources": [resource], "validate_only": False}
        (answer,) = (await self.wire.ask(INCREMENTAL_ALTER_CONFIGS, 1, asked)).responses
        assert answer.error_code == 0, answer.error_message

    async def state(self, group: str = "g") -> tuple[str, int]:
        """The state of a classic group, and how many members it has."""
        asked = {"groups": (group,), "include_authorized_operations": False}
        (described,) = (await self.wire.ask(DESCRIBE_GROUPS, 5, asked)).groups
        return described.group_state, len(described.members)

    async def beat(
        self, epoch: int, *, member_id: str = "m", group: str = "g", rack: str | None = None, owns: Any = None
    ) -> Any:
        """A heartbeat of a member of a consumer group, which reads the topic t."""
        is_joining = epoch == 0
        return await self.wire.ask(
            CONSUMER_GROUP_HEARTBEAT,
            1,
            {
                "group_id": group,
                "member_id": member_id,
                "member_epoch": epoch,
                "instance_id": None,
                "rack_id": rack,
                "rebalance_timeout": 30_000 if is_joining else -1,
                "subscribed_topic_names": ("t",) if is_joining else None,
                "subscribed_topic_regex": None,
                "server_assignor": None,
                "topic_partitions": () if is_joining else owns,
            },
        )


def run_world(scenario: Callable[[GroupWorld], Awaitable[None]], *, seed: int = 1, **settings: str) -> None:
    """Run a scenario with a node that has started."""
    names = {name.replace("_", "."): text for name, text in settings.items()}
    with Simulation(seed) as simulation:
        world = GroupWorld(simulation, names)

        async def main() -> None:
            await world.start()
            await scenario(world)
            await world.stop()

        simulation.run(main)
