"""A cluster for the client to talk to: librdkafka's own mock, which serves produce, fetch, offsets and metadata.

It makes a topic of four partitions when one is produced to. It has no controller, so nothing that changes topics
can be tried on it.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from barnabas.client.bus import Bus


@pytest.fixture(scope="session")
def mock_bootstrap() -> Iterator[str]:
    cluster = AdminClient({"test.mock.num.brokers": 2, "log_level": 0})
    brokers = cluster.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del cluster


@pytest.fixture
def bus(mock_bootstrap: str) -> Iterator[Bus]:
    # The mock does not answer questions about settings, so how to deliver is said here.
    with Bus(mock_bootstrap, delivery="exactly-once") as bus:
        yield bus
