"""The nodes of a simulated cluster, in all their lives, and the world that they make up with their clients."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Final
from uuid import UUID

from barnabas.core.errors import StorageError
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.metadata.image import Image
from barnabas.core.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.node import Node, Ports
from barnabas.runtime.metadata_log import MetadataLog
from barnabas.runtime.offload import Threads
from barnabas.services.formatting import format_directory
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage.data_dir import DataDir
from barnabas.testing.disk import Keep
from barnabas.testing.simulation import Simulation
from tests.simulation.cluster_checks import Checks, Watcher, digest_of
from tests.simulation.cluster_clients import CONTROLLER_PORT, PORT, Client, Given
from tests.simulation.node_support import FragileDisk

CLUSTER: Final = "simulated-cluster-0000"
LISTENER: Final = "CONTROLLER"
DATA: Final = "/data"
STOP_S: Final = 40.0
TIMES: Final = {
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1200",
    "controller.quorum.request.timeout.ms": "900",
    "controller.quorum.election.backoff.max.ms": "500",
    "broker.heartbeat.interval.ms": "400",
    "broker.session.timeout.ms": "2000",
}


class WatchedNode(Node):
    """The node that is shipped; whoever watches is shown its metadata before it takes part in the quorum."""

    on_metadata: Callable[[MetadataLog], None]

    def _open_metadata(self, data_dir: DataDir, meta: MetaProperties) -> MetadataLog:
        metadata = super()._open_metadata(data_dir, meta)
        self.on_metadata(metadata)
        return metadata


class ClusterNode:
    """One node, in all its lives."""

    def __init__(self, world: "ClusterWorld", node_id: int, *, is_controller: bool) -> None:
        self.world = world
        self.node_id = node_id
        self.name = f"node-{node_id}"
        self.is_controller = is_controller
        self.directory_id: UUID
        self.disk: FragileDisk
        self._disks = 0
        self.insert_disk()
        self.config: BrokerConfig
        self.metadata: MetadataLog | None = None
        self.is_up = self.is_ready = self.is_paused = self.is_stopping = self.has_bad_disk = False
        self._node: WatchedNode | None = None
        self._running: asyncio.Task[None] | None = None

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def endpoint(self) -> VoterEndpoint:
        return VoterEndpoint(LISTENER, self.name, CONTROLLER_PORT)

    @property
    def image(self) -> Image | None:
        return None if self.metadata is None else self.metadata.image

    @property
    def is_active(self) -> bool:
        """Whether it is the active controller, as it sees it."""
        return self.metadata is not None and self.metadata.is_active

    def __str__(self) -> str:
        """As it is now, for the message of a failure."""
        states = ("is_up", "is_ready", "is_paused", "is_stopping", "has_bad_disk")
        found = [name for name in states if getattr(self, name)]
        metadata = self.metadata
        if metadata is None:
            return f"{self.name}: {found}"
        raft, applied = metadata.driver.node, metadata._applied
        brokers = {
            node.node_id: f"{node.epoch}{' fenced' * node.is_fenced}{' leaving' * node.is_leaving}"
            for node in metadata.image.nodes.values()
        }
        return (
            f"{self.name}: {found}, {type(raft.role).__name__} in {metadata.epoch} of {metadata.quorum.leader_id}, "
            f"voters {list(raft.voters.current.node_ids)}, applied {metadata.applied_offset} of "
            f"{metadata.high_watermark} of {metadata.end_offset}, active {metadata.is_active}, "
            f"failure {applied.failure}, brokers {brokers}"
        )

    # Its lives

    def insert_disk(self) -> None:
        """Give it a disk that is empty, its first or another."""
        self._disks += 1
        self.directory_id = UUID(int=self._disks * 0xD000 + self.node_id)
        self.disk = FragileDisk(self.world.simulation.random(f"disk/{self.name}/{self._disks}"))
        self.disk.on_crash = self._note_crash
        self.world.simulation._disks[self.name] = self.disk

    def format(self, voters: VoterSet) -> None:
        """Make its disk that of the cluster."""
        format_directory(self.disk, DATA, MetaProperties(CLUSTER, self.node_id, self.directory_id), voters)

    def start(self) -> None:
        simulation = self.world.simulation
        self.is_up, self.is_ready = True, False
        threads = Threads.in_one(simulation.offload(self.name))
        ports = Ports(self.disk, simulation.clock(self.name), simulation.dice(self.name), threads)
        self._node = WatchedNode(self.config, ports)
        self._node.on_metadata = self._watch
        self._running = simulation.host(self.name).start(self._node.run(self._note_ready))
        self._running.add_done_callback(self._note_end)
        self.world.counts["start"] += 1

    def _watch(self, metadata: MetadataLog) -> None:
        self.metadata = metadata
        Watcher(self.world.checks, self.node_id, metadata)

    def _note_ready(self, _node: Node) -> None:
        self.is_ready = True

    def _note_end(self, running: "asyncio.Task[None]") -> None:
        """It has stopped, as it was told to; a node that ends by itself has failed, unless its disk has."""
        if running is not self._running or running.cancelled():
            return
        error = running.exception()
        if error is None:
            self._end(None)
        elif self.has_bad_disk and _is_of_the_disk(error):
            self._end(None)
            self.world.counts["gave up on its disk"] += 1
        elif not self.disk._is_down:
            self.world.checks.require(False, f"{self.name} ended by itself: {error!r} {_leaves(error)}")

    def crash(self, keep: Keep | None) -> None:
        """Cut the power, or end the process alone."""
        self._end(keep)

    async def stop(self) -> None:
        """Have it stop cleanly; with the help of others, so it may take its time."""
        node, running = self._node, self._running
        if node is None or running is None:
            return
        self.is_stopping = True
        node.stop()
        await asyncio.wait([running], timeout=STOP_S)
        if self._running is running:
            self.world.checks.require(running.done(), f"{self.name} has not stopped within {STOP_S} s")
            self._end(None)

    def pause(self) -> None:
        self.is_paused = True
        self.world.simulation.pause(self.name)

    def resume(self) -> None:
        if self.is_paused:
            self.is_paused = False
            self.world.simulation.resume(self.name)

    def _note_crash(self) -> None:
        """In the middle of a disk call: not a line of the process runs any more."""
        self.world.simulation.network.crash(self.name)
        self.world.simulation.loop.call_soon(self._end, Keep.RANDOM, context=self.world.context)
        self.world.counts["crash in a disk call"] += 1

    def _end(self, keep: Keep | None) -> None:
        self.metadata = self._node = self._running = None
        self.is_up = self.is_ready = self.is_paused = self.is_stopping = False
        self.disk.crash_after(10**9)
        if keep is None:
            self.world.simulation.kill(self.name)
        else:
            self.world.simulation.crash(self.name, keep)


def _is_of_the_disk(error: BaseException) -> bool:
    return all(isinstance(each, OSError | StorageError) for each in _leaves(error))


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in _leaves(each)]


class ClusterWorld:
    """All nodes and clients, and what they are checked against."""

    properties: Mapping[str, str] = {}
    """What its nodes are configured with besides."""

    def __init__(self, simulation: Simulation, *, voters: int | None = None) -> None:
        """A cluster of so many voters; or of any size and kind."""
        self.simulation = simulation
        self.context = copy_context()  # of the test, in which code runs for no host
        self.random = simulation.random("cluster")
        self.counts: Counter[str] = Counter()
        self.checks = Checks(self.counts)
        self.given = Given(self.checks)
        count = voters or self.random.choice((1, 2, 3, 3, 3, 4, 5, 5, 7))
        controllers = count if voters or count < 4 or self.random.random() < 0.6 else 3
        self.nodes = [ClusterNode(self, number, is_controller=number <= controllers) for number in range(1, count + 1)]
        self.is_static = voters is None and self.random.random() < 0.2
        self._form(joins_later=voters is None)
        self.clients = [
            Client(
                f"client{number}",
                self.nodes,
                random=simulation.random(f"client{number}"),
                checks=self.checks,
                given=self.given,
                counts=self.counts,
            )
            for number in range(3)
        ]

    @property
    def controllers(self) -> list[ClusterNode]:
        return [node for node in self.nodes if node.is_controller]

    # Forming

    def _form(self, *, joins_later: bool) -> None:
        """Give every node its settings, and format its disk; some controllers may be left to join later."""
        first = self.controllers
        if joins_later and not self.is_static and len(first) > 1 and self.random.random() < 0.4:
            first = first[: self.random.randrange(1, len(first))]
        voters = NO_VOTERS if self.is_static else VoterSet.of(Voter(node.key, (node.endpoint,)) for node in first)
        snapshot_bytes = self.random.choice((300, 300, 1500, 10**6))
        for node in self.nodes:
            node.config = self._config(node, snapshot_bytes)
            node.format(voters if node in first else NO_VOTERS)

    def _config(self, node: ClusterNode, snapshot_bytes: int) -> BrokerConfig:
        addresses = [(each.node_id, f"{each.name}:{CONTROLLER_PORT}") for each in self.controllers]
        listeners = [f"PLAINTEXT://{node.name}:{PORT}"]
        if node.is_controller:
            listeners.append(f"{LISTENER}://{node.name}:{CONTROLLER_PORT}")
        properties = {
            **TIMES,
            **self.properties,
            "node.id": str(node.node_id),
            "process.roles": "broker,controller" if node.is_controller else "broker",
            "listeners": ",".join(listeners),
            "controller.listener.names": LISTENER,
            "log.dirs": DATA,
            "auto.create.topics.enable": "false",
            "metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes),
        }
        if self.is_static:
            properties["controller.quorum.voters"] = ",".join(f"{number}@{address}" for number, address in addresses)
        else:
            properties["controller.quorum.bootstrap.servers"] = ",".join(address for _, address in addresses)
        return BrokerConfig.from_properties(properties)

    # Whether all is well

    def why_not_whole(self) -> str | None:
        """What is missing for a cluster in which everybody serves, and all say the same; None if nothing is."""
        ready = [node for node in self.nodes if node.is_ready and node.metadata is not None]
        if len(ready) < len(self.nodes):
            return f"only {[node.node_id for node in ready]} are ready"
        active = [node.node_id for node in ready if node.is_active]
        if len(active) != 1:
            return f"the active controllers are {active}"
        everybody = {node.node_id for node in self.nodes}
        for node in ready:
            assert node.image is not None
            unfenced = {each.node_id for each in node.image.nodes.values() if each.is_active}
            if unfenced != everybody:
                return f"for node {node.node_id} only {sorted(unfenced)} are unfenced"
        states = {(node.metadata.applied_offset, digest_of(node.metadata.image)) for node in ready if node.metadata}
        return None if len(states) == 1 else f"images differ: {states}"

    def check_history(self) -> None:
        """Every node has what anybody was told to be done."""
        for node in self.nodes:
            assert node.image is not None
            for client in self.clients:
                for topic in client.topics:
                    topic.check(node.node_id, node.image, self.checks)
            self.given.check(node.node_id, node.image)
        self.checks.raise_broken()
