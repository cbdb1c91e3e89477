"""Several brokers on a simulated network, with the metadata of one quorum that does what the test says.

Node N is on host ``nN``; its controllers' listener is real, and so are the connections between nodes. The quorum is a
fake: one log in memory, which its leader commits to at once, and which the others follow `lag_s` later.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, TypeVar, cast
from uuid import UUID

from barnabas.core.errors import DuplicateVoter, NotController, RequestTimedOut, VoterNotFound
from barnabas.core.metadata.cluster import start_cluster
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.quorum import Quorum
from barnabas.core.metadata.records import Endpoint, MetadataRecord
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.edge.kafka.server import KafkaServer
from barnabas.node import Node, Ports
from barnabas.runtime.cluster_metadata import Decide, LeadershipListener, Subscriber
from barnabas.runtime.connection_limits import ConnectionLimits
from barnabas.runtime.connections import Connections
from barnabas.runtime.controller_link import ControllerLink
from barnabas.runtime.flusher import Flusher
from barnabas.runtime.logs import Logs
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.offload import Threads
from barnabas.runtime.peers import Peers
from barnabas.services.broker import Broker
from barnabas.services.quorum import QuorumService
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.link import NetworkConfig
from barnabas.testing.simulation import Simulation
from barnabas.wire.apis import Api
from tests.support.nodes import register_node
from tests.support.ports import FixedClock, InPlace
from tests.unit.edge.kafka.calling import Caller, FakeConnection

T = TypeVar("T")

QUIET = NetworkConfig(spike_chance=0, split_chance=0)
CONTROLLER = "CONTROLLER"
PORT = 9093
NO_LEADER = -1


class FakeQuorum:
    """One log of commits; `leader_id` leads it."""

    def __init__(self) -> None:
        self.commits: list[Sequence[MetadataRecord]] = []
        self.leader_id = NO_LEADER
        self.epoch = 0
        self.lag_s = 0.0
        self.loses_next = False  # the leadership, as soon as something is decided
        self.nodes: dict[int, FakeMetadata] = {}

    def elect(self, node_id: int) -> None:
        self.leader_id = node_id
        self.epoch += 1
        for node in self.nodes.values():
            node.tell_leadership()


class FakeQuorumService:
    """The part in the quorum of a node whose metadata is fake."""

    kraft_version = 1

    def __init__(self, metadata: "FakeMetadata") -> None:
        self._metadata = metadata
        self.cluster_id = metadata.cluster_id

    @property
    def voters(self) -> VoterSet:
        return self._metadata.voters

    def describe(self) -> Quorum:
        return self._metadata.quorum

    async def add_voter(self, voter: Voter, **_: object) -> None:
        raise DuplicateVoter(f"node {voter.key.node_id} is a voter")

    async def remove_voter(self, key: ReplicaKey, **_: object) -> None:
        raise VoterNotFound(f"node {key.node_id} is no voter")


class FakeMetadata:
    """`ClusterMetadata` of one node."""

    def __init__(self, quorum: FakeQuorum, node_id: int) -> None:
        self._quorum = quorum
        self._node_id = node_id
        self._subscribers: list[Subscriber] = []
        self._listeners: list[LeadershipListener] = []
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.image = Image()
        self.applied_offset = 0
        self.before_commit: Callable[[], None] = lambda: None
        self.delays_s: list[float] = []  # of the next commits
        quorum.nodes[node_id] = self

    @property
    def quorum(self) -> Quorum:
        return Quorum(self._quorum.leader_id, self._quorum.epoch, len(self._quorum.commits), ())

    cluster_id = "cluster"
    unconfirmed_ms: int | None = 0
    former_leader: tuple[int, int] | None = None

    @property
    def directory_id(self) -> UUID:
        return UUID(int=self._node_id)

    @property
    def end_offset(self) -> int:
        return len(self._quorum.commits)

    @property
    def voters(self) -> VoterSet:
        return VoterSet.of(
            Voter(ReplicaKey(node_id), (VoterEndpoint(CONTROLLER, f"n{node_id}", PORT),))
            for node_id in self._quorum.nodes
        )

    @property
    def is_active(self) -> bool:
        return self._quorum.leader_id == self._node_id and self.applied_offset == len(self._quorum.commits)

    async def commit(self, decide: Decide[T]) -> T:
        await asyncio.sleep(self.delays_s.pop(0) if self.delays_s else 0.001)
        self.before_commit()
        if not self.is_active:
            raise NotController("this node does not lead the quorum")
        decision = decide(self.image)
        if decision.records:
            self._quorum.commits.append(decision.records)
            for node in self._quorum.nodes.values():
                if node is self:
                    node.catch_up()
                else:
                    asyncio.get_running_loop().call_later(self._quorum.lag_s, node.catch_up)
        if self._quorum.loses_next:
            self._quorum.elect(NO_LEADER)
            raise RequestTimedOut("the leadership went before this was committed")
        return decision.reply

    def catch_up(self) -> None:
        while self.applied_offset < len(self._quorum.commits):
            records = self._quorum.commits[self.applied_offset]
            for record in records:
                self.image.apply(record)
            self.applied_offset += 1
            for subscriber in self._subscribers:
                subscriber(records)
        for end_offset, waiter in self._waiters:
            if end_offset <= self.applied_offset and not waiter.done():
                waiter.set_result(None)

    async def wait_applied(self, end_offset: int) -> None:
        if self.applied_offset < end_offset:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((end_offset, waiter))
            await waiter

    def follow_leadership(self, listener: LeadershipListener) -> None:
        self._listeners.append(listener)
        self.tell_leadership()

    def tell_leadership(self) -> None:
        for listener in self._listeners:
            listener(self._quorum.epoch if self.is_active else None)

    def assume(self, decide: Decide[T]) -> T:
        raise AssertionError("there is room on the disk")

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def report(self, metrics: Metrics) -> None:
        raise NotImplementedError


class ControllersConnection(FakeConnection):
    """A connection through the listener of controllers."""

    listener = CONTROLLER


class Cluster:
    """The nodes, and ways to ask them."""

    def __init__(self, simulation: Simulation, quorum: FakeQuorum, brokers: dict[int, Broker]) -> None:
        self.simulation = simulation
        self.quorum = quorum
        self.brokers = brokers
        self.callers = {node_id: Caller(broker) for node_id, broker in brokers.items()}

    async def ask(self, node_id: int, api: Api, version: int, **values: Any) -> Any:
        """The answer of a node to a client of it, as kio reads it."""
        return await self.on(node_id, self._ask(self.callers[node_id], api, version, values))

    async def ask_controller(self, node_id: int, api: Api, version: int, **values: Any) -> Any:
        """The same through the listener of controllers."""
        caller = Caller(self.brokers[node_id], ControllersConnection())
        return await self.on(node_id, self._ask(caller, api, version, values))

    async def on(self, node_id: int, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the host of a node."""
        return await self.simulation.host(f"n{node_id}").run(work)

    async def _ask(self, caller: Caller, api: Api, version: int, values: dict[str, Any]) -> Any:
        return await caller.request(api, version, **values).read(within_s=100)


@asynccontextmanager
async def _broker(
    simulation: Simulation, node_id: int, quorum: FakeQuorum, settings: dict[str, str]
) -> AsyncIterator[Broker]:
    host = f"n{node_id}"
    config = BrokerConfig.from_properties(
        {
            "log.dirs": "/data",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{host}:9092,CONTROLLER://{host}:9093",
            "controller.listener.names": CONTROLLER,
            **settings,
        }
    )
    ports = Ports(simulation.disk(host), FixedClock(), simulation.dice(host), Threads.in_one(InPlace()))
    data_dir = DataDir(ports.disk, "/data")
    logs = Logs(data_dir)
    logs.flusher = Flusher(ports.threads.syncs, listener=logs)
    async with asyncio.TaskGroup() as tasks:
        peers = Peers(tasks, asyncio.get_running_loop(), ports.dice)
        metadata = FakeMetadata(quorum, node_id)
        broker = Node(config, ports)._build(cast("MetadataLog", metadata), logs)
        broker.quorum = cast("QuorumService", FakeQuorumService(metadata))
        broker.link = ControllerLink(metadata, peers, node_id=node_id)
        for other in range(1, 4):
            peers.move(other, f"n{other}", PORT)
        connections = Connections(KafkaServer(broker), ConnectionLimits(), tasks)
        await connections.bind("0.0.0.0", PORT, listener=CONTROLLER)
        await connections.serve()
        broker.served.start(tasks)
        broker.groups.start(tasks)
        broker.transactions.start(tasks)
        broker.shares.start(tasks)
        flushing = tasks.create_task(logs.flusher.run())
        yield broker
        broker.groups.close()
        broker.transactions.close()
        broker.shares.close()
        peers.close()
        await connections.close(grace_s=0)
        await broker.served.wait_all_removed()
        flushing.cancel()


def run(
    scenario: Callable[[Cluster], Coroutine[Any, Any, None]],
    *,
    nodes: int = 2,
    settings: dict[int, dict[str, str]] | None = None,
    seed: int = 1,
) -> None:
    """Run a scenario with so many nodes; node 1 is the controller."""

    async def all_of_it() -> None:
        quorum = FakeQuorum()
        brokers: dict[int, Broker] = {}
        is_over = asyncio.Event()
        ready: list[asyncio.Future[None]] = []

        async def node(node_id: int, is_ready: "asyncio.Future[None]") -> None:
            async with AsyncExitStack() as stack:
                given = (settings or {}).get(node_id, {})
                brokers[node_id] = await stack.enter_async_context(_broker(simulation, node_id, quorum, given))
                is_ready.set_result(None)
                await is_over.wait()

        tasks = []
        for node_id in range(1, nodes + 1):
            ready.append(asyncio.get_running_loop().create_future())
            tasks.append(simulation.host(f"n{node_id}").start(node(node_id, ready[-1])))
            await asyncio.wait([ready[-1], tasks[-1]], return_when=asyncio.FIRST_COMPLETED)
            if tasks[-1].done():
                tasks[-1].result()
        quorum.elect(1)
        await _form(brokers)
        try:
            await scenario(Cluster(simulation, quorum, brokers))
        finally:
            is_over.set()
            await asyncio.wait(tasks)
        for task in tasks:
            task.result()

    with Simulation(seed, network=QUIET, max_time_s=10_000) as simulation:
        simulation.run(all_of_it)


async def _form(brokers: dict[int, Broker]) -> None:
    commit = brokers[1].metadata.commit
    await commit(lambda image: start_cluster(image, cluster_id="c" * 22, min_insync_replicas="1"))
    for node_id in sorted(brokers):
        await commit(
            partial(
                register_node,
                node_id=node_id,
                endpoints=[
                    Endpoint("PLAINTEXT", f"n{node_id}.test", 9092),
                    Endpoint("OUTSIDE", f"n{node_id}.outside", 9192),
                ],
                rack=brokers[node_id].config.broker_rack,
                incarnation=UUID(int=node_id),
            )
        )
    for broker in brokers.values():
        await broker.metadata.wait_applied(brokers[1].metadata.applied_offset)
