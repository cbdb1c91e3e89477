"""Apache Kafka, one broker or several, each a controller too: what Barnabas is compared with.

Its JARs are those of `maven`. A run that is measured gives it the heap and the collector of Kafka's own start script.
"""

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from confluent_kafka.admin import AdminClient

from barnabas.spark import find_java
from bench.measure import scratch_directory
from bench.quorum_nodes import Nodes, running
from bench.served import Served

STARTS_WITHIN_S: Final = 120.0
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
SMALL: Final = ("-Xmx512m",)
AS_SHIPPED: Final = (
    *("-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={data}
log.retention.ms=-1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@contextmanager
def apache_kafka(jars: Path, directory: Path, *, java_options: Sequence[str] = SMALL) -> Iterator[Served]:
    """A broker that runs inside the block, with its data and its log in `directory`."""
    broker, controller = _free_ports(2)
    settings = directory / "server.properties"
    settings.write_text(SETTINGS.format(broker=broker, controller=controller, data=directory / "data"))
    java = [str(find_java().path / "bin" / "java"), *java_options, "-cp", f"{jars}/*"]
    format_ = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings)]
    subprocess.run(format_, check=True, capture_output=True, timeout=STARTS_WITHIN_S)
    with (directory / "kafka.log").open("w") as log:
        start = time.perf_counter()
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
        try:
            bootstrap = f"127.0.0.1:{broker}"
            _wait_ready(process, bootstrap, directory / "kafka.log")
            yield Served(bootstrap, process.pid, time.perf_counter() - start)
        finally:
            process.terminate()
            process.wait(60)


def _wait_ready(process: "subprocess.Popen[Any]", bootstrap: str, log: Path) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + STARTS_WITHIN_S
    while True:
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, "Apache Kafka did not start in time"
        try:
            admin.list_topics(timeout=1)
            return
        except Exception:
            continue


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        with closing(each):
            pass
    return ports


class KafkaNodes(Nodes):
    """A cluster of Apache Kafka with its own defaults, on the settings of ours."""

    def __init__(self, count: int, directory: Path, jars: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(count, directory, settings)
        self._java = [str(find_java().path / "bin" / "java"), *AS_SHIPPED, "-cp", f"{jars}/*"]
        for number in self.numbers:
            file = self._file(number)
            file.write_text(f"{file.read_text()}advertised.listeners=PLAINTEXT://{self.address(number)}\n")
            command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)]
            subprocess.run(command, check=True, capture_output=True, timeout=STARTS_WITHIN_S)

    def _begin(self, number: int, log: TextIO) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self._java, "kafka.Kafka", str(self._file(number))], stdout=log, stderr=log, text=True
        )

    def _wait_ready(self, number: int, process: "subprocess.Popen[str]") -> None:
        _wait_ready(process, self.address(number), self._directory / f"{number}.log")


@contextmanager
def kafka_nodes(count: int, jars: Path, settings: Mapping[str, str] | None = None) -> Iterator[Nodes]:
    """A cluster of Apache Kafka, all of whose nodes run."""
    with scratch_directory() as scratch, running(KafkaNodes(count, scratch, jars, settings)) as found:
        yield found
