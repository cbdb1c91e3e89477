"""One broker for all tests of a worker, which name their topics apart, and a topic for a test."""

import gc
import itertools
import logging
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.conformance.broker.clients import QUIET
from tests.conformance.broker.served import ServedBroker

TIMEOUT_S = 60
_numbers = itertools.count()

MakeTopic = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """kafka-python leaves sockets to the garbage collector when a connection takes long, as on a busy machine: whenever
    it comes by, the test that is running would fail for them.
    """
    leaves_sockets = pytest.mark.filterwarnings("ignore:.*<socket.socket:pytest.PytestUnraisableExceptionWarning")
    for item in items:
        if "kafka-python" in item.name:
            item.add_marker(leaves_sockets)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("broker")) as served:
        yield served
    # Whatever the clients of these tests do, nothing of it is unforeseen.
    assert "Traceback" not in served.log, served.log


@pytest.fixture(scope="session")
def admin(broker: ServedBroker) -> Iterator[AdminClient]:
    """librdkafka's admin client. It is gone before the broker is, or it would complain."""
    client = AdminClient({**QUIET, "bootstrap.servers": broker.bootstrap})
    yield client
    del client


@pytest.fixture
def bootstrap(broker: ServedBroker) -> str:
    return broker.bootstrap


@pytest.fixture
def new_name() -> str:
    """A name for a topic that does not exist."""
    return f"topic-{next(_numbers)}"


@pytest.fixture
def make_topic(admin: AdminClient) -> MakeTopic:
    """Create a topic of its own for a test; returns its name."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"topic-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        admin.create_topics([new])[name].result(TIMEOUT_S)
        return name

    return make


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic()


@pytest.fixture
def collected_sockets() -> Iterator[None]:
    """kafka-python leaves the sockets of attempts to connect that failed to the garbage collector: they are collected
    before the next test, which need not put up with it. A log would hold on to them.
    """
    log = logging.getLogger("kafka")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)
    gc.collect()
