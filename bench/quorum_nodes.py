"""A cluster of real processes on this machine: started, killed and started again, one node at a time.

All of them are of this checkout, vote, and are brokers too; the voters are a fixed list. Those that are left at the end
are stopped, or killed by their process ids.
"""

import asyncio
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import DESCRIBE_CLUSTER, DESCRIBE_QUORUM
from bench.measure import scratch_directory
from bench.served import BARNABAS, ENVIRON, Served

HOST: Final = "127.0.0.1"
PATIENCE_S: Final = 60.0
POLL_S: Final = 0.02
STOP_S: Final = 15.0
_CLUSTER_ID: Final = "YmVuY2hiZW5jaGJlbmNoMQ"
_METADATA: Final = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


class Nodes:
    """The nodes of a cluster by their numbers, from 1 on."""

    def __init__(self, count: int, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        ports = _free_ports(2 * count)
        self._directory = directory
        self._more_settings = dict(settings or {})
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._ports = dict(enumerate(ports[:count], 1))
        self._controller_ports = dict(enumerate(ports[count:], 1))
        for number in self._ports:
            self._write_settings(number)

    def _write_settings(self, number: int) -> None:
        voters = ",".join(f"{each}@{HOST}:{port}" for each, port in self._controller_ports.items())
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "cluster.id": _CLUSTER_ID,
            "listeners": f"PLAINTEXT://{HOST}:{self._ports[number]},CONTROLLER://{HOST}:{self._controller_ports[number]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": str(self._directory / f"data-{number}"),
            **self._more_settings,
        }
        self._file(number).write_text("".join(f"{name}={text}\n" for name, text in settings.items()))

    def _file(self, number: int) -> Path:
        return self._directory / f"{number}.properties"

    @property
    def numbers(self) -> list[int]:
        """All nodes, whether they run or not."""
        return list(self._ports)

    def address(self, number: int) -> str:
        """Where clients find a node."""
        return f"{HOST}:{self._ports[number]}"

    @property
    def bootstrap(self) -> str:
        """Where clients find the cluster."""
        return ",".join(map(self.address, self.numbers))

    @property
    def pids(self) -> list[int]:
        """The processes of the nodes that run."""
        return [process.pid for process in self._processes.values()]

    def start(self, *numbers: int) -> None:
        """Start nodes, and wait until each of them says that it is ready: that needs a majority."""
        for number in numbers:
            with (self._directory / f"{number}.log").open("a") as log:
                self._processes[number] = self._begin(number, log)
        for number in numbers:
            self._wait_ready(number, self._processes[number])

    def _begin(self, number: int, log: TextIO) -> "subprocess.Popen[str]":
        command = [*BARNABAS, "serve", "--config", str(self._file(number))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=ENVIRON)

    def _wait_ready(self, number: int, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "ready on " not in line:
            raise RuntimeError(f"node {number} did not start: {line!r}")

    def kill(self, number: int) -> None:
        """SIGKILL: it has no time for anything."""
        process = self._processes.pop(number)
        process.kill()
        process.wait()
        _close(process)

    def end(self) -> None:
        """Have all nodes stop, and kill those that do not."""
        for process in self._processes.values():
            process.terminate()
        for number in list(self._processes):
            with suppress(subprocess.TimeoutExpired):
                self._processes[number].wait(STOP_S)
            self.kill(number)

    def memory(self, number: int) -> int:
        """Bytes of memory that a node holds."""
        return Served("", self._processes[number].pid, 0.0).memory()

    async def connect(self, number: int) -> WireClient:
        """A connection to a node, as a client makes it."""
        return await WireClient.connect(HOST, self._ports[number])

    async def wait_settled(self) -> int:
        """Wait until every node runs, follows and is unfenced; returns the number of the active controller."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = await self._settled()
                if found is not None:
                    return found
                await asyncio.sleep(POLL_S)

    async def _settled(self) -> int | None:
        """The active controller, if all nodes have what it has committed and take part."""
        client = await self.connect(self.numbers[0])
        try:
            cluster = await client.ask(DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": False})
            quorum = (await client.ask(DESCRIBE_QUORUM, 1, _METADATA)).topics[0].partitions[0]
        finally:
            client.close()
        if quorum.error_code or len(cluster.brokers) < len(self.numbers) or not _is_caught_up(quorum):
            return None
        return int(quorum.leader_id)


def _is_caught_up(quorum: Any) -> bool:
    return quorum.high_watermark >= 0 and all(
        voter.log_end_offset >= quorum.high_watermark for voter in quorum.current_voters
    )


@contextmanager
def nodes(count: int, **settings: str) -> Iterator[Nodes]:
    """A cluster of so many nodes, all of which run, with empty data directories; names of settings with underscores."""
    with (
        scratch_directory() as scratch,
        running(Nodes(count, scratch, {name.replace("_", "."): text for name, text in settings.items()})) as found,
    ):
        yield found


@contextmanager
def running(found: Nodes) -> Iterator[Nodes]:
    """All nodes of a cluster run inside the block."""
    try:
        found.start(*found.numbers)
        yield found
    finally:
        found.end()


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; all are held until the last is found, so that they differ."""
    held = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    return ports


def _close(process: "subprocess.Popen[str]") -> None:
    if process.stdout is not None:
        process.stdout.close()
