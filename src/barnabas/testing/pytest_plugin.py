"""The pytest plugin: a real broker in a test, by naming a fixture.

``bus`` is a client of a broker with nothing in it; ``barnabas_broker`` is that broker, for tests that bring their own
client. A broker starts in milliseconds, so every test has its own, on its own port: tests may run in parallel.

Settings of it come from the marker ``@pytest.mark.barnabas(num_partitions=3, ...)``, underscores for dots.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.client import Bus
    from barnabas.testing.embedded import EmbeddedBroker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "barnabas(**settings): settings of the broker of the `bus` fixture")


@pytest.fixture
def barnabas_broker(request: pytest.FixtureRequest) -> "Iterator[EmbeddedBroker]":
    """A broker of this test's own, empty."""
    from barnabas.testing.embedded import EmbeddedBroker  # noqa: PLC0415 - a run without brokers pays nothing

    marker = request.node.get_closest_marker("barnabas")
    given = {} if marker is None else marker.kwargs
    settings = {name.replace("_", "."): str(value) for name, value in given.items()}
    with EmbeddedBroker(settings) as broker:
        yield broker


@pytest.fixture
def bus(barnabas_broker: "EmbeddedBroker") -> "Bus":
    """A client of a broker of this test's own."""
    return barnabas_broker.bus
