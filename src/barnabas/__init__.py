"""Barnabas: a distributed commit log and message bus that speaks the Kafka protocol.

``barnabas.embedded()`` is a broker in this process, ``barnabas.cluster()`` one of several processes, ``barnabas.Bus`` a
client of any broker. Each is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client import Bus as Bus
    from barnabas.client import Message as Message
    from barnabas.testing.cluster.fixture import TestCluster as TestCluster
    from barnabas.testing.cluster.fixture import cluster as cluster
    from barnabas.testing.embedded import EmbeddedBroker as EmbeddedBroker
    from barnabas.testing.embedded import embedded as embedded

__all__ = ["Bus", "EmbeddedBroker", "Message", "TestCluster", "cluster", "embedded"]

_HOMES = {
    "Bus": "barnabas.client",
    "EmbeddedBroker": "barnabas.testing.embedded",
    "Message": "barnabas.client",
    "TestCluster": "barnabas.testing.cluster.fixture",
    "cluster": "barnabas.testing.cluster.fixture",
    "embedded": "barnabas.testing.embedded",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'barnabas' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    return getattr(import_module(home), name)
