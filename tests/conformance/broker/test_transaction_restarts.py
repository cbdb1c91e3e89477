"""A broker that ends in the middle of transactions, by SIGTERM or by SIGKILL: they go on where they were."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from barnabas.client import Bus
from tests.conformance.broker.clients import CLIENTS, QUIET, TIMEOUT_S
from tests.conformance.broker.served import ServedBroker
from tests.conformance.broker.transactional import PRODUCERS, TransactionalProducer

pytestmark = [
    pytest.mark.usefixtures("collected_sockets"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[ServedBroker]:
    """A broker that a test may end, with a topic of two partitions for each client."""
    with ServedBroker(tmp_path) as served:
        with Bus(served.bootstrap) as bus:
            for name in PRODUCERS:
                bus.create_topic(name, partitions=2)
        yield served
    assert "Traceback" not in served.log, served.log


def restart(served: ServedBroker, signal: str) -> None:
    if signal == "SIGKILL":
        served.kill()
    else:
        served.stop()
    served.start()


def group_of(served: ServedBroker, name: str) -> Any:
    """What a client's producer names a group without members by."""
    if name != "librdkafka":
        return name
    settings = {**QUIET, "bootstrap.servers": served.bootstrap, "group.id": name}
    with closing(confluent_kafka.Consumer(settings)) as consumer:
        return consumer.consumer_group_metadata()


def committed(served: ServedBroker, name: str) -> int:
    """The offset that is committed for a client's group, when it is stable."""
    settings = {**QUIET, "bootstrap.servers": served.bootstrap, "group.id": name}
    with closing(confluent_kafka.Consumer(settings)) as consumer:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(name, 0)], TIMEOUT_S)
        return int(found.offset)


def read_committed(served: ServedBroker, name: str, count: int) -> list[bytes]:
    with CLIENTS[name].consume(served.bootstrap, name, [0, 1], is_committed=True) as consumer:
        return sorted(read.value or b"" for read in consumer.read(count) + consumer.read(1, timeout_s=0.2))


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGKILL"])
def test_transactions_go_on_after_a_restart(own_broker: ServedBroker, signal: str) -> None:
    """One of each client is committed afterwards, with offsets, and one is aborted; what had ended before stays so."""
    with ExitStack() as stack:
        opened = {
            (name, end): stack.enter_context(closing(open_producer(own_broker.bootstrap, f"{name} {end}")))
            for name, open_producer in PRODUCERS.items()
            for end in ("committed", "aborted")
        }
        for (name, end), producer in opened.items():
            producer.begin()
            producer.send(name, 0, b"long " + end.encode())
            conclude(producer, end)
            producer.begin()
            producer.send(name, 0, b"before: " + end.encode())
            producer.flush()
            if end == "committed":
                producer.send_offsets(name, {0: 7}, group_of(own_broker, name))
        restart(own_broker, signal)
        for name in PRODUCERS:
            assert read_committed(own_broker, name, 1) == [b"long committed"]
        for (name, end), producer in opened.items():
            producer.send(name, 0, b"after: " + end.encode())
            producer.send(name, 1, b"elsewhere: " + end.encode())
            conclude(producer, end)
        for (name, end), producer in opened.items():
            producer.begin()
            producer.send(name, 1, b"next")
            conclude(producer, end)
    for name in PRODUCERS:
        expected = [b"after: committed", b"before: committed", b"elsewhere: committed", b"long committed", b"next"]
        assert read_committed(own_broker, name, 5) == expected
        assert committed(own_broker, name) == 7


def conclude(producer: TransactionalProducer, end: str) -> None:
    if end == "committed":
        producer.commit()
    else:
        producer.abort()
