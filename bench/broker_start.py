"""A broker at rest: how soon it is ready, and how much memory it takes."""

import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator

from bench.measure import Row
from bench.served import served

READY_TARGET_S = 0.5
EMBEDDED_TARGET_S = 0.1
MEMORY_TARGET = 60e6
ROUNDS = 5

_EMBEDDED = """
import time
from barnabas.testing.embedded import EmbeddedBroker
start = time.perf_counter()
broker = EmbeddedBroker().start()
print(time.perf_counter() - start)
broker.stop()
"""


def rows(*, quick: bool) -> Iterator[Row]:
    yield _ready_row()
    yield _embedded_row()
    with served("log.flush.policy=os") as broker:
        _ask_once(broker.bootstrap)
        idle = broker.memory()
        yield Row("idle memory, one client served", _mb(idle), "at most 60 MB", MEMORY_TARGET / idle, 1.0)
        yield _connections_row(broker.bootstrap, broker.memory, count=100 if quick else 1000)
    yield from _partitions_rows(count=500 if quick else 10_000)


def _ready_row() -> Row:
    with served():
        pass  # leaves the bytecode behind
    found = []
    for _ in range(ROUNDS):
        with served() as broker:
            found.append(broker.ready_after_s)
    took = statistics.median(found)
    return Row("from exec to ready", f"{took * 1000:,.0f} ms", "at most 500 ms", READY_TARGET_S / took, 1.0)


def _embedded_row() -> Row:
    runs = [subprocess.run([sys.executable, "-c", _EMBEDDED], capture_output=True, check=True) for _ in range(ROUNDS)]
    took = statistics.median(float(run.stdout) for run in runs)
    return Row(
        "embedded broker, start after import", f"{took * 1000:,.0f} ms", "at most 100 ms", EMBEDDED_TARGET_S / took, 1.0
    )


def _connections_row(bootstrap: str, memory: Callable[[], int], *, count: int) -> Row:
    host, _, port = bootstrap.rpartition(":")
    before = memory()
    connections = [socket.create_connection((host, int(port))) for _ in range(count)]
    _ask_once(bootstrap)
    after = memory()
    for connection in connections:
        connection.close()
    return Row(f"memory with {count:,} connections", _mb(after), f"{(after - before) / count / 1000:,.1f} kB each")


def _partitions_rows(*, count: int) -> Iterator[Row]:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - slow to load
    from confluent_kafka.cimpl import NewTopic  # noqa: PLC0415

    with served("log.flush.policy=os") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.create_topics([NewTopic("many", count)], request_timeout=60).values():
            future.result(60)
        yield Row(f"memory with a topic of {count:,} partitions, none written to", _mb(broker.memory()))
        _write_each(broker.bootstrap, count)
        yield Row(f"memory with {count:,} partitions, a record in each", _mb(broker.memory()))


def _write_each(bootstrap: str, count: int) -> None:
    from confluent_kafka import Producer  # noqa: PLC0415 - slow to load

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 100})
    for partition in range(count):
        producer.produce("many", b"value", partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def _ask_once(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - slow to load

    AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30)


def _mb(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"
