"""A cluster for the client to talk to: librdkafka's own mock, which serves produce, fetch, offsets and metadata.

It makes a topic of four partitions when one is produced to. It has no controller, so nothing that changes topics
can be tried on it; nor does it know enough of transactions. For those there is a broker of our own.
"""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.client.bus import Bus
from barnabas.testing.embedded import EmbeddedBroker


@pytest.fixture(scope="session")
def mock_bootstrap() -> Iterator[str]:
    cluster = AdminClient({"test.mock.num.brokers": 2, "log_level": 0})
    brokers = cluster.list_topics(timeout=60).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del cluster


@pytest.fixture
def bus(mock_bootstrap: str) -> Iterator[Bus]:
    # The mock does not answer questions about settings, so how to deliver is said here.
    with Bus(mock_bootstrap, delivery="exactly-once") as bus:
        yield bus


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    """A real one, for what the mock does not do; tests name their topics, groups and transactional ids apart."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def real_bus(broker: EmbeddedBroker) -> Iterator[Bus]:
    with Bus(broker.bootstrap) as bus:
        yield bus


@pytest.fixture
def name() -> str:
    """A name that nothing else has."""
    return f"n{uuid.uuid4().hex[:8]}"
