"""A broker and the controller of another node over the simulated network: joining, a crash, a broker cut off."""

import asyncio
from collections.abc import Sequence
from typing import cast
from uuid import UUID

from barnabas.core.metadata import Image
from barnabas.core.metadata.quorum import Quorum
from barnabas.core.metadata.records import Endpoint, MetadataRecord
from barnabas.edge.kafka.remote_controller import RemoteController
from barnabas.node import Node, Ports
from barnabas.runtime.cluster_metadata import ClusterMetadata, LeadershipListener, Subscriber
from barnabas.runtime.controller_link import ControllerLink
from barnabas.runtime.offload import Threads
from barnabas.runtime.peers import Peers
from barnabas.services.membership import Membership, MembershipConfig
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.testing.simulation import Simulation

CONTROLLER, BROKER = "node-1", "node-5"
PORT = 9093
CONFIG = {
    "node.id": "1",
    "log.dirs": "/data",
    "listeners": f"PLAINTEXT://{CONTROLLER}:9092,CONTROLLER://{CONTROLLER}:{PORT}",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


class Mirror:
    """The metadata of the broker: what the controller has applied, at once; it knows who leads."""

    def __init__(self) -> None:
        self.image = Image()
        self.applied_offset = 0
        self.is_active = False
        self.quorum = Quorum(1, 1, 0, (), ())
        self._subscribers: list[Subscriber] = []

    def follow(self, node: Node) -> None:
        assert node.broker is not None
        source = node.broker.metadata

        def apply(records: Sequence[MetadataRecord]) -> None:
            self.image, self.applied_offset = source.image, source.applied_offset
            for subscriber in self._subscribers:
                subscriber(records)

        source.subscribe(apply)
        apply(list(source.image.to_records()))

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def follow_leadership(self, listener: LeadershipListener) -> None:
        """It never leads."""


class World:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.mirror = Mirror()
        self.node: Node | None = None

    @property
    def image(self) -> Image:
        return self.mirror.image

    async def start_controller(self) -> None:
        simulation, ready = self.simulation, asyncio.get_running_loop().create_future()
        ports = Ports(
            simulation.disk(CONTROLLER),
            simulation.clock(CONTROLLER),
            simulation.dice(CONTROLLER),
            Threads.in_one(simulation.offload(CONTROLLER)),
        )
        self.node = Node(BrokerConfig.from_properties(CONFIG), ports)
        simulation.host(CONTROLLER).start(self.node.run(ready.set_result))
        self.mirror.follow(await ready)

    async def run_broker(self, joined: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            peers = Peers(tasks, asyncio.get_running_loop(), self.simulation.dice(BROKER))
            peers.move(1, CONTROLLER, PORT)
            metadata = cast("ClusterMetadata", self.mirror)
            link = ControllerLink(metadata, peers, node_id=5)
            config = MembershipConfig(node_id=5, incarnation=UUID(int=1), directory_id=UUID(int=2))
            remote = RemoteController(link, timeout_s=4)
            membership = Membership(metadata, config, controller=None, remote=remote)
            await membership.start([Endpoint("PLAINTEXT", BROKER, 9092)], cluster_id=self.image.cluster_id)
            tasks.create_task(membership.run())
            await membership.wait_unfenced()
            joined.set()


def test_a_broker_joins_over_the_network_outlives_its_controller_and_is_fenced_when_cut_off() -> None:
    async def scenario() -> None:
        world = World(simulation)
        await world.start_controller()
        assert not world.image.nodes[1].is_fenced
        joined = asyncio.Event()
        simulation.host(BROKER).start(world.run_broker(joined))
        async with asyncio.timeout(5):
            await joined.wait()
        epoch = world.image.nodes[5].epoch

        await asyncio.sleep(30)
        assert world.image.is_active(5)
        simulation.crash(CONTROLLER)
        await asyncio.sleep(20)
        await world.start_controller()
        await asyncio.sleep(30)
        assert world.image.is_active(5)
        assert world.image.nodes[5].epoch == epoch

        simulation.network.partition([BROKER], [CONTROLLER])
        await asyncio.sleep(12)
        assert world.image.nodes[5].is_fenced
        assert world.image.is_active(1)
        simulation.network.heal()
        await asyncio.sleep(12)
        assert world.image.is_active(5)

    with Simulation(1, max_time_s=10_000) as simulation:
        simulation.run(scenario)
