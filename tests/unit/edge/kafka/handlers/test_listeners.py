"""Several listeners: a client is told to connect where it came in."""

from uuid import UUID

import msgspec
import pytest

from barnabas.core.metadata.records import Endpoint, NodeRecord, decode_record
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA
from tests.unit.edge.kafka.support import ask_as, new_session, run

ADDRESSES = {
    "PLAINTEXT": ("broker.test", 9092),
    "OUTSIDE": ("outside.test", 9192),
    "UNKNOWN": ("broker.test", 9092),  # to a name that no listener has, the first
}


@pytest.mark.parametrize("listener", ADDRESSES)
def test_a_client_is_told_of_the_listener_it_came_through(listener: str) -> None:
    async def scenario(broker: Broker) -> None:
        session, address = new_session(listener), ADDRESSES[listener]
        for version in (0, 13):
            (node,) = (await ask_as(session, broker, METADATA, version, {"topics": ()})).brokers
            assert (node.host, node.port) == address
        (node,) = (await ask_as(session, broker, DESCRIBE_CLUSTER, 2, {})).brokers
        assert (node.host, node.port) == address
        found = await ask_as(session, broker, FIND_COORDINATOR, 3, {"key": "g"})
        assert (found.host, found.port) == address
        (found,) = (await ask_as(session, broker, FIND_COORDINATOR, 6, {"coordinator_keys": ("g",)})).coordinators
        assert (found.host, found.port) == address

    run(scenario)


def test_a_node_that_was_written_down_without_endpoints_is_found_at_its_address() -> None:
    old = decode_record(msgspec.msgpack.encode([0, 1, "h", 9092, None, UUID(int=1).bytes]))
    assert isinstance(old, NodeRecord)
    assert (old.endpoints, old.endpoint("A")) == ((), Endpoint("A", "h", 9092))
