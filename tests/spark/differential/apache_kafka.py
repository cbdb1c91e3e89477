"""One broker of Apache Kafka, which is its own controller."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from barnabas.spark import find_java

STARTS_WITHIN_S = 120.0
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
def apache_kafka(jars: Path, directory: Path) -> Iterator[str]:
    """The address of a broker that runs inside the block."""
    broker, controller = _free_ports(2)
    settings = directory / "server.properties"
    settings.write_text(SETTINGS.format(broker=broker, controller=controller, data=directory / "data"))
    java = [str(find_java().path / "bin" / "java"), "-Xmx512m", "-cp", f"{jars}/*"]
    cluster_id = "MkU3OEVBNTcwNTJENDM2Qk"
    format_ = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(settings)]
    subprocess.run(format_, check=True, capture_output=True, timeout=STARTS_WITHIN_S)
    with (directory / "kafka.log").open("w") as log:
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=log)
        try:
            bootstrap = f"127.0.0.1:{broker}"
            _wait_ready(process, bootstrap, directory / "kafka.log")
            yield bootstrap
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
