"""Nodes of a quorum that talk over the simulated network: the production metadata log, peers, connections and edge.

    PYTHONPATH=. python -m tests.simulation.wire_quorum_support 42

Nodes lose their power or their process, are cut off in one direction or both, and take snapshots that others fetch,
while changes are asked of all of them. After everything that happens: one leader leads an epoch, images are equal at
equal offsets, what was acknowledged stays. After healing all nodes have the same image, and changes are committed.
"""

import asyncio
import hashlib
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final
from uuid import UUID

import msgspec

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata import allocate_producer_ids
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import Endpoint as BrokerEndpoint
from barnabas.core.metadata.records import MetadataRecord, encode_record
from barnabas.core.raft.state import Leader, RaftConfig, bootstrap_ids
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.edge.kafka.server import KafkaServer
from barnabas.node import Node, Ports
from barnabas.runtime.connections import ConnectionLimits, Connections
from barnabas.runtime.logs import Logs
from barnabas.runtime.metadata_log import MetadataLog, MetadataLogConfig
from barnabas.runtime.offload import Threads
from barnabas.runtime.peers import PeerLimits, Peers
from barnabas.runtime.raft_driver.peers import WirePeers
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import Keep
from barnabas.testing.hosts import HostCrashed
from barnabas.testing.link import NetworkConfig
from barnabas.testing.simulation import Simulation
from tests.simulation.node_history import Violation
from tests.simulation.quorum_support import CLUSTER, HEALING_S, require
from tests.support.nodes import register_node

FAULTS_S: Final = 10.0
PORT: Final = 9093
LISTENER: Final = "CONTROLLER"
NETWORK: Final = NetworkConfig(spike_chance=0.02, reset_chance=0.001, refuse_chance=0.01)
LIMITS: Final = PeerLimits(connect_timeout_s=0.5, max_backoff_s=0.2)
TIMES: Final = RaftConfig(
    election_timeout_ms=400,
    fetch_timeout_ms=800,
    request_timeout_ms=600,
    fetch_max_wait_ms=200,
    election_backoff_max_ms=400,
)


class WireNode:
    """One node, in all its lives."""

    def __init__(self, world: "WireWorld", node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.name = f"node-{node_id}"
        self.key = ReplicaKey(node_id, UUID(int=node_id))
        self.endpoint = VoterEndpoint(LISTENER, self.name, PORT)
        self.metadata: MetadataLog | None = None
        self.is_up = False

    def start(self) -> None:
        self.is_up = True
        task = self.world.simulation.host(self.name).start(self._run())
        task.add_done_callback(self._note_end)

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.broken = error

    async def _run(self) -> None:
        world, simulation = self.world, self.world.simulation
        disk, threads = simulation.disk(self.name), Threads.in_one(simulation.offload(self.name))
        ports = Ports(disk, simulation.clock(self.name), simulation.dice(self.name), threads)
        config = BrokerConfig.from_properties(
            {
                "node.id": str(self.node_id),
                "listeners": f"PLAINTEXT://{self.name}:9092,{LISTENER}://{self.name}:{PORT}",
                "controller.listener.names": LISTENER,
                "log.dirs": "/data",
            }
        )
        data_dir = DataDir(disk, "/data")
        metadata = MetadataLog.open(
            data_dir,
            offload=threads.syncs,
            clock=ports.clock,
            dice=ports.dice,
            replica=self.key,
            cluster_id=CLUSTER,
            static_voters=self._static_voters(),
            raft=world.times,
            config=MetadataLogConfig(max_records_between_snapshots=world.records_between_snapshots),
        )
        metadata.subscribe(lambda records: world.check_image(self, metadata, records))
        broker = Node(config, ports)._build(metadata, Logs(data_dir))
        async with asyncio.TaskGroup() as tasks:
            connections = Connections(KafkaServer(broker), ConnectionLimits(), tasks)
            await connections.bind(self.name, PORT, listener=LISTENER)
            await connections.serve()
            peers = Peers(tasks, asyncio.get_running_loop(), ports.dice, LIMITS)
            wire = WirePeers(
                peers,
                node_id=self.node_id,
                bootstrap=world.bootstrap,
                listener=LISTENER,
                endpoints=[self.endpoint],
                timeout_s=TIMES.request_timeout_ms / 1000,
            )
            assert broker.quorum is not None
            broker.quorum.peers = wire
            self.metadata = metadata
            await metadata.start(tasks, wire, endpoints=[self.endpoint], joins=True)

    def _static_voters(self) -> VoterSet | None:
        """A fixed list; else the first node forms the quorum, and the others join it."""
        if self.world.is_fixed:
            return self.world.voters
        return None if self.node_id == min(self.world.nodes) else NO_VOTERS

    def note_received(self) -> None:
        if self.metadata is not None:
            self.world.counts["snapshot received"] += self.metadata.snapshots_received

    def stop(self, keep: Keep | None) -> None:
        """Cut the power, or end the process alone."""
        self.note_received()
        self.metadata, self.is_up = None, False
        if keep is None:
            self.world.simulation.kill(self.name)
        else:
            self.world.simulation.crash(self.name, keep)


class WireWorld:
    """All nodes, and what must hold."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.random: Random = simulation.random("wire quorum")
        self.counts: Counter[str] = Counter()
        self.nodes = {node_id: WireNode(self, node_id) for node_id in (1, 2, 3)}
        self.voters = VoterSet.of(Voter(ReplicaKey(node.node_id), (node.endpoint,)) for node in self.nodes.values())
        self.is_fixed = self.random.random() < 0.5
        self.bootstrap: Sequence[tuple[str, int]] = [] if self.is_fixed else [("node-1", PORT), ("node-2", PORT)]
        self.times = msgspec.structs.replace(TIMES, bootstrap_ids=bootstrap_ids(len(self.bootstrap)))
        self.records_between_snapshots = self.random.choice([5, 25, 1000])
        self.images: dict[int, str] = {}
        self.leaders: dict[int, int] = {}
        self.acknowledged: list[range] = []
        self.broken: BaseException | None = None
        self._asked = 0

    def check_image(self, node: WireNode, metadata: MetadataLog, records: Sequence[MetadataRecord]) -> None:
        """Whatever node applies the log up to an offset has the same image then."""
        offset, image = metadata.applied_offset, digest(metadata.image)
        try:
            before = self.images.setdefault(offset, image)
            require(before == image, f"{node.name} has another image at {offset} than others had, after {records}")
        except Violation as violation:
            self.broken = violation

    def check_leaders(self) -> None:
        for node in self.nodes.values():
            if node.metadata is None or not isinstance(node.metadata.driver.node.role, Leader):
                continue
            epoch = node.metadata.epoch
            before = self.leaders.setdefault(epoch, node.node_id)
            require(before == node.node_id, f"nodes {before} and {node.node_id} lead epoch {epoch}")

    def check(self) -> None:
        self.check_leaders()
        if self.broken is not None:
            raise Violation(f"{self.broken!r}") from self.broken

    async def change(self, node: WireNode) -> None:
        """Ask a node for a change: the leader alone makes it."""
        if node.metadata is None:
            return
        self._asked += 1
        value, metadata = self._asked, node.metadata
        try:
            if value % 3:
                ids = await self.simulation.host(node.name).run(
                    metadata.commit(lambda image: allocate_producer_ids(image, 1 + value % 7))
                )
                self._acknowledge(ids)
            else:
                await self.simulation.host(node.name).run(
                    metadata.commit(
                        lambda image: register_node(
                            image,
                            node_id=100 + value % 5,
                            endpoints=[BrokerEndpoint("PLAINTEXT", f"host{value}", 9092)],
                            rack=None,
                            incarnation=UUID(int=value),
                        )
                    )
                )
        except (BarnabasError, HostCrashed):
            self.counts["refused"] += 1
        else:
            self.counts["acknowledged"] += 1

    def _acknowledge(self, ids: range) -> None:
        overlapping = [other for other in self.acknowledged if other.start < ids.stop and ids.start < other.stop]
        require(not overlapping, f"{ids} was given away before: {overlapping}")
        self.acknowledged.append(ids)


def digest(image: Image) -> str:
    blob = b"".join(encode_record(record) for record in image.to_records())
    return hashlib.blake2b(blob, digest_size=8).hexdigest()


class Trouble:
    """Faults for a while, then peace."""

    def __init__(self, world: WireWorld) -> None:
        self._world = world
        self._random = world.random
        self._loop = world.simulation.loop
        self._network = world.simulation.network

    async def run(self) -> None:
        for node in self._world.nodes.values():
            node.start()
        async with asyncio.TaskGroup() as tasks:
            while self._loop.time() < FAULTS_S:
                await asyncio.sleep(self._random.uniform(0, 0.2))
                self._happen(tasks)
                self._world.check()
            await self._heal(tasks)

    def _happen(self, tasks: asyncio.TaskGroup) -> None:
        world, random = self._world, self._random
        node = random.choice(list(world.nodes.values()))
        dice = random.random()
        if dice < 0.7:
            for each in world.nodes.values():
                tasks.create_task(world.change(each))
        elif dice < 0.8:
            self._stop_or_start(node)
        elif dice < 0.87:
            self._cut(node)
            world.counts["cut"] += 1
        elif dice < 0.95:
            self._network.heal()
        else:
            world.simulation.offload(node.name).max_delay_s = random.choice([0.001, 0.01, 0.1])

    def _cut(self, node: WireNode) -> None:
        """From all others, or in one direction from one of them."""
        random, drop = self._random, self._random.random() < 0.5
        if random.random() < 0.6:
            self._network.isolate(node.name, drop=drop)
            return
        other = random.choice([each for each in self._world.nodes.values() if each is not node])
        self._network.partition([node.name], [other.name], one_way=True, drop=drop)

    def _stop_or_start(self, node: WireNode) -> None:
        if not node.is_up:
            node.start()
            return
        node.stop(self._random.choice([None, Keep.RANDOM, Keep.NOTHING]))
        self._world.counts["death"] += 1
        if self._random.random() < 0.5:
            node.start()

    async def _heal(self, tasks: asyncio.TaskGroup) -> None:
        world = self._world
        self._network.heal()
        for node in world.nodes.values():
            world.simulation.offload(node.name).max_delay_s = 0.005
            if not node.is_up:
                node.start()
        acknowledged, deadline = world.counts["acknowledged"], self._loop.time() + HEALING_S
        while not (world.counts["acknowledged"] > acknowledged and self._is_whole()):
            require(self._loop.time() < deadline, f"after {HEALING_S} s of peace the quorum does not go on")
            for each in world.nodes.values():
                tasks.create_task(world.change(each))
            await asyncio.sleep(1.5)
            world.check()
        for node in world.nodes.values():
            assert node.metadata is not None
            node.note_received()
            for ids in world.acknowledged:
                require(node.metadata.image.next_producer_id >= ids.stop, f"{node.name} has lost {ids}")
            voters = node.metadata.driver.node.voters.current
            require(len(voters.voters) == len(world.nodes), f"{node.name} knows the voters {voters} alone")
            world.counts["log cut"] += node.metadata.log_start_offset > 0

    def _is_whole(self) -> bool:
        found = [node.metadata for node in self._world.nodes.values() if node.metadata is not None]
        ends = {metadata.applied_offset for metadata in found} | {metadata.end_offset for metadata in found}
        return len(found) == len(self._world.nodes) and len(ends) == 1 and self._has_joined(found)

    def _has_joined(self, found: Sequence[MetadataLog]) -> bool:
        """Whether all of them vote."""
        return all(each.driver.node.is_voter for each in found)


def run_seed(seed: int) -> tuple[Counter[str], str]:
    """One run: how often what happened, and a hash of all of it."""
    with Simulation(seed, network=NETWORK, max_steps=2_000_000) as simulation:
        world = WireWorld(simulation)
        simulation.run(lambda: Trouble(world).run())
        world.counts["leader"] += len(world.leaders)
        return world.counts, simulation.trace_hash()


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(*run_seed(int(argument)))
