"""What a cluster of this machine is on disk: one JSON file that names its nodes, and a directory for each of them.

Each node has its settings (`node.properties`, written anew at each start), its log and its data. The file is replaced,
never changed in place, and changed by one process at a time.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from barnabas.core.errors import BarnabasError, StorageError
from barnabas.testing.cluster.ports import HOST
from barnabas.testing.cluster.processes import ProcessKey

STATE: Final = "cluster.json"
LOCK: Final = "cluster.lock"
CONSOLE_LOG: Final = "console.log"
CONTROLLER: Final = "CONTROLLER"


class NodeState(msgspec.Struct, kw_only=True):
    """One node: who it is, where it listens, and the process that it is, if it was started."""

    node_id: int
    directory_id: str
    port: int
    controller_port: int
    host: str = HOST
    rack: str | None = None
    is_voter: bool = True
    http: str | None = None
    """Where it serves HTTP, as host:port; None: nowhere, or where the settings of all say."""
    process: ProcessKey | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"


class ConsoleState(msgspec.Struct, kw_only=True):
    """The web console of a cluster: where it listens, and its process."""

    listen: str
    process: ProcessKey | None = None

    @property
    def url(self) -> str:
        return f"http://{self.listen}"


class ClusterState(msgspec.Struct, kw_only=True):
    """All nodes of a cluster, and the settings that they share."""

    cluster_id: str
    nodes: list[NodeState]
    next_id: int
    settings: dict[str, str] = {}
    console: ConsoleState | None = None

    def node(self, node_id: int) -> NodeState:
        """One node; refused if there is none of this id."""
        for each in self.nodes:
            if each.node_id == node_id:
                return each
        ids = ", ".join(str(each.node_id) for each in self.nodes)
        raise BarnabasError(f"the cluster has no node {node_id}: it has {ids}")

    @property
    def ports(self) -> set[int]:
        http = [int(each.http.rpartition(":")[2]) for each in self.nodes if each.http is not None]
        return {*http, *(port for each in self.nodes for port in (each.port, each.controller_port))}


class ClusterDirectory:
    """The files of one cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @property
    def is_there(self) -> bool:
        return (self.path / STATE).exists()

    def node_dir(self, node_id: int) -> Path:
        return self.path / f"node-{node_id}"

    def data_dir(self, node_id: int) -> Path:
        return self.node_dir(node_id) / "data"

    def log(self, node_id: int) -> Path:
        return self.node_dir(node_id) / "node.log"

    @property
    def console_log(self) -> Path:
        return self.path / CONSOLE_LOG

    def properties(self, node_id: int) -> Path:
        return self.node_dir(node_id) / "node.properties"

    def read(self) -> ClusterState:
        """The state; refused if there is none, or if it cannot be read."""
        try:
            return msgspec.json.decode((self.path / STATE).read_bytes(), type=ClusterState)
        except FileNotFoundError:
            raise BarnabasError(
                f"there is no cluster in {self.path}: create one with 'barnabas cluster up', or name its --dir"
            ) from None
        except (msgspec.MsgspecError, OSError) as error:
            raise StorageError(f"{self.path / STATE} cannot be read: {error}") from None

    def create(self, state: ClusterState) -> None:
        """Make the directory, for a new cluster."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.locked():
                if self.is_there:
                    raise BarnabasError(f"there is a cluster in {self.path} already")
                self._write(state)
        except OSError as error:
            raise StorageError(f"{self.path} cannot be used for a cluster: {error.strerror or error}") from None

    @contextlib.contextmanager
    def changing(self) -> Iterator[ClusterState]:
        """The state, to change within the block; written at its end, unless that raises. One process at a time."""
        with self.locked():
            state = self.read()
            yield state
            self._write(state)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        if not self.path.is_dir():
            self.read()  # says what is wrong
        with open(self.path / LOCK, "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, state: ClusterState) -> None:
        new = self.path / f"{STATE}.new"
        with new.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(state)))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path / STATE)

    def write_properties(self, state: ClusterState, node: NodeState) -> None:
        """Write the settings of a node as they are now."""
        self.node_dir(node.node_id).mkdir(mode=0o700, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self.settings_of(state, node).items()]
        note = "# Written by 'barnabas cluster' at each start of this node: changes made here are lost.\n"
        self.properties(node.node_id).write_text("".join([note, *lines]))

    def settings_of(self, state: ClusterState, node: NodeState) -> Mapping[str, str]:
        """The settings of a node, by Kafka's names."""
        controllers = ",".join(f"{each.host}:{each.controller_port}" for each in state.nodes)
        own = {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            "listeners": f"PLAINTEXT://{node.host}:{node.port},{CONTROLLER}://{node.host}:{node.controller_port}",
            "controller.listener.names": CONTROLLER,
            "controller.quorum.bootstrap.servers": controllers,
            "log.dirs": str(self.data_dir(node.node_id)),
        }
        off = {"http.listener": "off"}  # else one of the nodes would take the default address
        http = {} if node.http is None else {"http.listener": node.http}
        rack = {} if node.rack is None else {"broker.rack": node.rack}
        return {**off, **state.settings, **own, **http, **rack}

    def delete(self) -> None:
        """Remove what belongs to the cluster, and the directory, unless there is something else in it."""
        for each in self.path.glob("node-*"):
            shutil.rmtree(each)
        for name in (STATE, LOCK, CONSOLE_LOG):
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()


def last_line(log: Path) -> str:
    """The last line that a process wrote to its log."""
    try:
        with log.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 4096, 0))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except FileNotFoundError:
        lines = []
    return lines[-1].strip() if lines else "its log is empty"
