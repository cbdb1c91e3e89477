"""Three nodes as processes, in network namespaces where there are some, and what becomes of each."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from barnabas.client import Bus
from barnabas.core.errors import BarnabasError
from barnabas.testing.cluster.local import LocalCluster, condition_of
from barnabas.testing.cluster.processes import Condition
from barnabas.testing.cluster.starting import Kept
from tests.system.chaos.network import Network

NODES: Final = (1, 2, 3)
SETTINGS: Final = {
    "log.flush.policy": "fsync",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
    "allow.anonymous": "true",  # nodes in namespaces have addresses of their own, which nobody else can reach
}
"""Acknowledged means on the disks of two nodes at least; few coordinators, so that each of them has work."""
_COMPLAINTS: Final = (" ERROR ", " CRITICAL ", "Traceback")


class _InNamespaces:
    """Starts each node in its namespace; which node it is, the place of its log tells."""

    def __init__(self, kept: Kept, network: Network | None) -> None:
        self._kept = kept
        self._network = network

    def start(self, command: Sequence[str], log: Path) -> int:
        if self._network is not None:
            command = self._network.command(int(log.parent.name.rpartition("-")[2]), command)
        return self._kept.start(command, log)


class ChaosCluster:
    """The cluster that faults happen to."""

    def __init__(self, settings: dict[str, str], network: Network | None) -> None:
        path = Path(tempfile.mkdtemp(prefix="barnabas-chaos-"))
        self.network = network
        self._kept = Kept(remove=path)
        self._local = LocalCluster(path, _InNamespaces(self._kept, network))
        hosts = [] if network is None else [network.host(each) for each in NODES]
        try:
            self._local.create(len(NODES), settings={**SETTINGS, **settings}, hosts=hosts)
            self._local.start()
        except BaseException:
            self.close()
            raise
        self.bootstrap = self._local.bootstrap
        self.bus = Bus(self.bootstrap)

    def close(self) -> None:
        """Kill what runs still, and remove the data."""
        self._kept.close()

    def stop(self) -> None:
        """Have all nodes stop cleanly; their data stays until `close`."""
        self.bus.close()
        self._local.stop_all()

    # Faults

    def kill(self, *node_ids: int) -> None:
        for each in node_ids:
            self._local.kill(each)

    def start(self, *node_ids: int) -> None:
        self._local.start(*node_ids)

    def stop_cleanly(self, node_id: int) -> None:
        self._local.stop(node_id)

    def pause(self, node_id: int) -> None:
        self._local.pause(node_id)

    def resume(self, node_id: int) -> None:
        self._local.resume(node_id)

    # What is there

    def controller(self) -> int | None:
        """The active controller, or None where nobody says that it is."""
        try:
            return self._local.admin(timeout_s=10).quorum().leader_id
        except BarnabasError:
            return None

    def leader(self, topic: str, partition: int) -> int | None:
        return self.bus.describe_topic(topic).partitions[partition].leader

    def out_of_sync(self, topics: Sequence[str]) -> list[str]:
        """Partitions of which not all replicas are in sync."""
        try:
            found = {topic: self.bus.describe_topic(topic).partitions for topic in topics}
        except BarnabasError as error:
            return [str(error)]
        return [
            f"{topic}-{each.partition}: {each.in_sync}"
            for topic, partitions in found.items()
            for each in partitions
            if len(each.in_sync) < len(NODES)
        ]

    def not_running(self) -> list[int]:
        return [each.node_id for each in self._local.state.nodes if condition_of(each) is not Condition.RUNNING]

    def complaints(self) -> list[str]:
        """Lines in the logs of nodes that nothing explains."""
        return [
            f"node {each}: {line}"
            for each in NODES
            for line in self._local.directory.log(each).read_text(errors="replace").splitlines()
            if any(mark in line for mark in _COMPLAINTS)
        ]

    def log_tail(self, node_id: int, lines: int = 15) -> list[str]:
        text = self._local.directory.log(node_id).read_text(errors="replace")
        return text.splitlines()[-lines:]

    def partition_bytes(self, node_id: int, topic: str, partition: int) -> bytes:
        """The log of a replica, as it is on disk."""
        directory = self._local.directory.data_dir(node_id) / f"{topic}-{partition}"
        return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))
