"""A cluster for people's own tests: real processes on free ports, which end with the block, or with this process.

Not a mock: each node is a `barnabas serve` of its own, and any Kafka client can connect.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import BarnabasError
from barnabas.testing.cluster.local import LocalCluster, condition_of
from barnabas.testing.cluster.processes import Condition
from barnabas.testing.cluster.starting import Kept

if TYPE_CHECKING:
    from barnabas.client import Bus

# The data lives no longer than the processes, and a sync saves nothing that a SIGKILL would lose; a test has no more
# members to wait for than those that are there, and does not wait nine seconds until a dead node is noticed.
DEFAULTS: Final = {
    "log.flush.policy": "os",
    "group.initial.rebalance.delay.ms": "0",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
}


class TestNode:
    """One node of a `TestCluster`."""

    __test__ = False  # pytest: no test in spite of its name

    def __init__(self, cluster: LocalCluster, node_id: int) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self.bootstrap = cluster.state.node(node_id).bootstrap
        """Where clients reach this node."""

    @property
    def is_running(self) -> bool:
        """Whether its process runs and is not paused."""
        return condition_of(self._cluster.state.node(self.node_id)) is Condition.RUNNING

    @property
    def pid(self) -> int | None:
        """The id of the process that it is, or was last."""
        process = self._cluster.state.node(self.node_id).process
        return None if process is None else process.pid

    @property
    def log(self) -> str:
        """What it has written: warnings and errors."""
        return self._cluster.directory.log(self.node_id).read_text()

    def kill(self) -> None:
        """End it as a power cut does."""
        self._cluster.kill(self.node_id)

    def stop(self) -> None:
        """Have it leave cleanly."""
        self._cluster.stop(self.node_id)

    def start(self) -> None:
        """Start it again; returns when it serves clients, if a majority of the nodes runs."""
        self._cluster.start(self.node_id)

    def pause(self) -> None:
        """Freeze it: it keeps its connections, and answers nothing."""
        self._cluster.pause(self.node_id)

    def resume(self) -> None:
        """Let it go on."""
        self._cluster.resume(self.node_id)

    def __repr__(self) -> str:
        return f"<node {self.node_id} at {self.bootstrap}>"


class TestCluster:
    """A cluster of processes. Use it as a context manager, or `start` and `close` it."""

    __test__ = False

    def __init__(self, nodes: int = 3, settings: Mapping[str, str] | None = None, *, racks: Sequence[str] = ()) -> None:
        """`racks` are given to the nodes in turn: as many as there are nodes, and each has its own."""
        if nodes < 1:
            raise BarnabasError(f"a cluster has at least one node, not {nodes}")
        self._count = nodes
        self._racks = racks
        self._settings = {**DEFAULTS, **(settings or {})}
        self._local: LocalCluster | None = None
        self._kept: Kept | None = None
        self._bus: Bus | None = None
        self.nodes: list[TestNode] = []
        """The nodes, in the order of their ids, which begin at 1."""

    @property
    def bootstrap(self) -> str:
        """What a client connects to: ``bootstrap.servers``."""
        return self._running.bootstrap

    @property
    def bus(self) -> "Bus":
        """A client of this cluster, made on first use and closed with it."""
        if self._bus is None:
            from barnabas.client import Bus  # noqa: PLC0415 - whoever brings their own client need not load ours

            self._bus = Bus(self.bootstrap, config={"security.protocol": "plaintext"})  # whatever a client file says
        return self._bus

    @property
    def directory(self) -> Path:
        """Where its data, its settings and its logs are, until it ends."""
        return self._running.directory.path

    @property
    def controller(self) -> TestNode:
        """The node that is the active controller; waits for one."""
        leader_id = self._running.admin().quorum().leader_id
        return next(node for node in self.nodes if node.node_id == leader_id)

    def start(self) -> "TestCluster":
        """Start all nodes; returns when every one of them serves clients."""
        path = Path(tempfile.mkdtemp(prefix="barnabas-cluster-"))
        self._kept = Kept(remove=path)
        try:
            self._local = LocalCluster(path, self._kept)
            self._local.create(self._count, racks=self._racks, settings=self._settings)
            self.nodes = [TestNode(self._local, each.node_id) for each in self._local.state.nodes]
            self._local.start()
        except BaseException:
            self.close()
            raise
        return self

    def wait_ready(self) -> None:
        """Return when every node that runs knows every other as one that serves clients."""
        self._running.wait_serving(node.node_id for node in self.nodes if node.is_running)

    def close(self) -> None:
        """End all nodes at once, and remove their data."""
        bus, self._bus = self._bus, None
        kept, self._kept = self._kept, None
        self._local = None
        try:
            if bus is not None:
                bus.close()
        finally:
            if kept is not None:
                kept.close()

    def __enter__(self) -> "TestCluster":
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def _running(self) -> LocalCluster:
        if self._local is None:
            raise BarnabasError("the cluster is not running: start it first")
        return self._local


@contextmanager
def cluster(
    nodes: int = 3, settings: Mapping[str, str] | None = None, *, racks: Sequence[str] = ()
) -> Iterator[TestCluster]:
    """A cluster of processes for the time of a ``with`` block, with Kafka's names for `settings`.

    `racks` are given to the nodes in turn: as many as there are nodes, and each has its own.
    """
    with TestCluster(nodes, settings, racks=racks) as running:
        yield running
