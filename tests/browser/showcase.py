"""A node with something to see, and a console beside it: topics, groups with lag, a transaction, odd content."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas import EmbeddedBroker
from tests.browser.driver import free_port, wait_until

EVIL: Final = "<script>window.wasHit=1</script><img src=x onerror=window.wasHit=1>\"'`"
EVIL_GROUP: Final = "<img src=x onerror=window.wasHit=1>'\""
EVIL_USER: Final = "<img src=x onerror=window.wasHit=1>"
EVIL_CLIENT: Final = "<b onmouseover=window.wasHit=1>client</b>"
SETTINGS: Final = {"http.listener": "127.0.0.1:0", "broker.rack": "west"}


@contextmanager
def console(api_url: str, *more: str) -> Iterator[str]:
    """A console process for a node; where it is."""
    port = free_port()
    command = [sys.executable, "-m", "barnabas.cli.main", "console", "--api", api_url, "--listen", f"127.0.0.1:{port}"]
    command += more
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NICEGUI", "PYTEST"))}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "is ready" in line, f"the console said {line!r} and ended with {process.poll()}"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


def wait_for_api(broker: EmbeddedBroker) -> None:
    """Wait until the API is loaded."""
    wait_until(lambda: httpx.get(f"{broker.http}/api/v1/cluster", trust_env=False).status_code == 200, "the API is up")


def fill(broker: EmbeddedBroker) -> Producer:
    """Write something; the producer that is returned has a transaction open."""
    bus = broker.bus
    bus.create_topic("orders", partitions=3)
    bus.create_topic("payments", partitions=2, config={"retention.ms": "86400000"})
    bus.create_topic("customers", partitions=1, config={"cleanup.policy": "compact"})
    bus.create_topic("clicks", partitions=6)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(400):
        order = {"id": number, "customer": f"c-{number % 17}", "sum": number * 7 % 311, "status": "paid"}
        headers: list[tuple[str, bytes | str | None]] = [("trace-id", f"{number:08x}".encode()), ("origin", b"shop")]
        producer.produce("orders", json.dumps(order).encode(), f"c-{number % 17}".encode(), headers=headers)
        producer.produce("clicks", b"/page/%d" % number, partition=number % 6)
    for number in range(60):
        producer.produce("payments", b"\x00\x01\xff\xfe" + number.to_bytes(4, "big"), b"p-%d" % number)
    producer.produce("customers", b'{":x": "alert(1)", "name": "Ada"}', b"c-1")
    producer.flush()
    _read(broker, "billing", "orders", "billing-1", partitions=3, each=20)
    _read(broker, "analytics", "clicks", "analytics-1", partitions=2, each=5)
    settings = {"transactional.id": "transfers-1", "transaction.timeout.ms": 600_000}
    writer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    writer.init_transactions()
    writer.begin_transaction()
    writer.produce("payments", b"debit", b"p-1", partition=0)
    writer.flush()
    return writer


def fill_oddly(broker: EmbeddedBroker) -> None:
    """Write what must never be taken for markup or code."""
    broker.bus.create_topic("odd", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers: list[tuple[str, bytes | str | None]] = [(EVIL, EVIL.encode()), (":x", b"window.wasHit=1")]
    producer.produce("odd", EVIL.encode(), EVIL.encode(), headers=headers)
    producer.produce("odd", json.dumps({":x": "window.wasHit=1", EVIL: [{":y": "window.wasHit=1"}]}).encode(), b":x")
    producer.produce("odd", b"a" * 50_000 + b"THE END", b"big")
    producer.produce("odd", b"\xff\x00\x01", None)
    producer.flush()
    _read(broker, EVIL_GROUP, "odd", EVIL_CLIENT, partitions=1, each=2)


def _read(broker: EmbeddedBroker, group: str, topic: str, client: str, *, partitions: int, each: int) -> None:
    """Read and commit so many records of each partition, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "client.id": client,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    left = dict.fromkeys(range(partitions), each)
    while left:
        message = consumer.poll(10)
        assert message is not None, f"group {group} was given nothing"
        partition = message.partition()
        if partition in left and message.offset() == each - 1:
            del left[partition]
    offsets = [TopicPartition(topic, partition, each) for partition in range(partitions)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
