"""The pytest plugin: a real broker in a test, by naming a fixture.

``bus`` is a client of a broker with nothing in it; ``barnabas_broker`` is that broker, for tests that bring their own
client. A broker starts in milliseconds, so every test has its own, on its own port: tests may run in parallel.

Settings of it come from the marker ``@pytest.mark.barnabas(num_partitions=3, ...)``, underscores for dots.

``cluster`` is a cluster of three processes, whose nodes can be killed, paused and started again. That takes seconds: a
test that asks little of it, or a module whose tests can share one, is better served by ``barnabas.cluster()``. Its size
and settings come from the marker ``@pytest.mark.barnabas_cluster(nodes=5, ...)``.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from barnabas.client import Bus
    from barnabas.testing.cluster.fixture import TestCluster
    from barnabas.testing.embedded import EmbeddedBroker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "barnabas(**settings): settings of the broker of the `bus` fixture")
    config.addinivalue_line(
        "markers", "barnabas_cluster(nodes=3, racks=(), **settings): size, racks and settings of the `cluster` fixture"
    )


@pytest.fixture
def barnabas_broker(request: pytest.FixtureRequest) -> "Iterator[EmbeddedBroker]":
    """A broker of this test's own, empty."""
    from barnabas.testing.embedded import EmbeddedBroker  # noqa: PLC0415 - a run without brokers pays nothing

    with EmbeddedBroker(_settings(_given(request, "barnabas"))) as broker:
        yield broker


@pytest.fixture
def bus(barnabas_broker: "EmbeddedBroker") -> "Bus":
    """A client of a broker of this test's own."""
    return barnabas_broker.bus


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> "Iterator[TestCluster]":
    """A cluster of this test's own, of real processes: all nodes serve clients."""
    from barnabas.testing.cluster.fixture import TestCluster  # noqa: PLC0415

    given = _given(request, "barnabas_cluster")
    nodes, racks = given.pop("nodes", 3), given.pop("racks", ())
    with TestCluster(nodes, _settings(given), racks=racks) as running:
        yield running


def _given(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    marker = request.node.get_closest_marker(name)
    return {} if marker is None else dict(marker.kwargs)


def _settings(given: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", "."): str(value) for name, value in given.items()}
