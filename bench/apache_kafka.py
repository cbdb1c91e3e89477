"""One broker of Apache Kafka, which is its own controller: what Barnabas is compared with.

Its JARs are those of `maven`. A run that is measured gives it the heap and the collector of Kafka's own start script.
"""

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from barnabas.spark import find_java
from bench.served import Served

STARTS_WITHIN_S: Final = 120.0
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
    cluster_id = "MkU3OEVBNTcwNTJENDM2Qk"
    format_ = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(settings)]
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


def _wait_ready(process: "subprocess.Popen[bytes]", bootstrap: str, log: Path) -> None:
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
