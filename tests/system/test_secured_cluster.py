"""Three nodes as `barnabas security init` makes them: TLS, logins and ACLs between them, and for their clients."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from barnabas.client import Bus
from barnabas.client.config_file import read_client_file

TIMEOUT_S = 90
Config = dict[str, str | int | float | bool]
MORE_FOR_ANN = AclBinding(
    ResourceType.TOPIC,
    "hidden",
    ResourcePatternType.LITERAL,
    "User:ann",
    "*",
    AclOperation.ALL,
    AclPermissionType.ALLOW,
)


def barnabas(*arguments: str, environ: dict[str, str] | None = None, text: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas.cli.main", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, **(environ or {})},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory with the files of three nodes, which run."""
    directory = tmp_path / "secured"
    nodes = [option for port in _free_pairs(3) for option in ("--node", f"127.0.0.1:{port}")]
    said = barnabas("security", "init", str(directory), *nodes)
    assert "barnabas format" in said
    assert "--command-config" in said
    running: list[subprocess.Popen[bytes]] = []
    for number in (1, 2, 3):
        config = directory / f"node-{number}" / "server.properties"
        barnabas("format", "--config", str(config), "--add-scram-file", str(directory / "users"))
        command = [sys.executable, "-m", "barnabas.cli.main", "serve", "--config", str(config)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    logs = [_read_until_ready(process) for process in running]
    try:
        yield directory
    finally:
        for process in running:
            process.terminate()
        logs = [
            log + process.communicate(timeout=TIMEOUT_S)[0].decode() for log, process in zip(logs, running, strict=True)
        ]
    password = read_client_file(str(directory / "client.properties"))["sasl.password"]
    secret = (directory / "cluster.secret").read_text().strip()
    for log in logs:
        assert "Traceback" not in log
        assert password not in log
        assert secret not in log


def _read_until_ready(process: "subprocess.Popen[bytes]") -> str:
    """What a node says until it serves clients."""
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line.decode()
        if "is ready" in said:
            return said
    raise AssertionError(f"a node did not start: {said}")


def _free_pairs(count: int) -> list[int]:
    """Ports that are free, and so is the one after each."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            first = held.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = first.getsockname()[1]
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port + 1)))
                found.append(port)
    return found


def test_three_nodes_over_tls_and_sasl_replicate_and_serve_those_who_log_in(directory: Path) -> None:
    client = {"BARNABAS_CLIENT_CONFIG": str(directory / "client.properties")}
    config = read_client_file(client["BARNABAS_CLIENT_CONFIG"])
    bootstrap = config.pop("bootstrap.servers")
    with Bus(bootstrap, config=config, connect_timeout=TIMEOUT_S, timeout=TIMEOUT_S) as bus:
        bus.create_topic("orders", partitions=1, replication_factor=3)
        bus.send("orders", "first").result(TIMEOUT_S)
        assert [message.value for message in bus.consume("orders", until_end=True)] == [b"first"]
    barnabas("user", "create", "ann", "--password-file", "-", environ=client, text="a secret\n")
    assert "ann" in barnabas("user", "list", environ=client)
    assert oct((directory / "ca.key").stat().st_mode)[-3:] == "600"


def test_nodes_that_log_in_do_all_their_work_with_an_authorizer_on(directory: Path) -> None:
    """Replication, forwarding, producer ids, transactions and their markers, groups, share groups."""
    admin: Config = {**read_client_file(str(directory / "client.properties"))}
    client = {"BARNABAS_CLIENT_CONFIG": str(directory / "client.properties")}
    barnabas("user", "create", "ann", "--password-file", "-", environ=client, text="a secret\n")
    ann: Config = {**admin, "sasl.username": "ann", "sasl.password": "a secret"}
    make = AdminClient(admin)
    make.create_topics([NewTopic("orders", 3, 3), NewTopic("hidden", 3, 3)])["orders"].result(TIMEOUT_S)
    consumer: Config = {
        **ann,
        "group.id": "billing",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    assert _produce(ann, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    grants = ["--producer", "--consumer", "--topic", "orders", "--group", "billing", "--transactional-id", "t"]
    barnabas("acl", "add", "--allow-principal", "User:ann", *grants, environ=client)
    _wait_for(lambda: _produce(ann, "orders") is None)  # a change counts on other nodes moments later
    assert _produce(ann, "hidden") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    _copy_in_transactions(ann, consumer)
    asking = AdminClient(ann)
    assert "hidden" not in asking.list_topics(timeout=TIMEOUT_S).topics
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        asking.create_acls([MORE_FOR_ANN])[MORE_FOR_ANN].result(TIMEOUT_S)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        asking.create_topics([NewTopic("other", 1, 3)])["other"].result(TIMEOUT_S)
    assert "ann" in barnabas("acl", "list", "--json", environ=client)


def _produce(config: Config, topic: str) -> int | None:
    """The error that a record meets."""
    met: list[int | None] = []

    def note(error: KafkaError | None, _: object) -> None:
        met.append(None if error is None else error.code())

    producer = Producer({**config, "enable.idempotence": True, "message.timeout.ms": TIMEOUT_S * 1000})
    for partition in range(3):
        producer.produce(topic, b"x", partition=partition, on_delivery=note)
    assert producer.flush(TIMEOUT_S) == 0
    return next((code for code in met if code is not None), None)


def _copy_in_transactions(config: Config, reading: Config) -> None:
    producer = Producer({**config, "transactional.id": "t"})
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer(reading)
    consumer.subscribe(["orders"])
    message = consumer.poll(TIMEOUT_S)
    assert message is not None
    assert message.error() is None, message.error()
    producer.begin_transaction()
    for partition in range(3):
        producer.produce("orders", b"copied", partition=partition)
    offsets = [TopicPartition("orders", message.partition() or 0, (message.offset() or 0) + 1)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)
    seen: set[int | None] = set()
    while len(seen) < 3:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None, message.error()
        if message.value() == b"copied":
            seen.add(message.partition())
    consumer.close()


def _wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < until
