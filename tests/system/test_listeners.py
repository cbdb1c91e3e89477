"""A broker with several listeners, over real sockets."""

import asyncio
import socket
from typing import Any

import pytest

from barnabas.core.errors import AddressNotAvailable
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import METADATA

SETTINGS = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,PLAIN://127.0.0.1:0",
    "advertised.listeners": "INSIDE://127.0.0.8:1111,OUTSIDE://localhost:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,PLAIN:PLAINTEXT",
}


def test_each_client_hears_the_address_of_its_own_listener() -> None:
    with EmbeddedBroker(SETTINGS) as broker:
        assert broker._node is not None
        addresses = broker._node.addresses
        told = {name: asyncio.run(_told(*address)) for name, address in addresses.items()}
    assert len(set(addresses.values())) == 3
    assert told == {
        "INSIDE": ("127.0.0.8", 1111),
        "OUTSIDE": ("localhost", addresses["OUTSIDE"][1]),  # port 0 is the one that is listened on
        "PLAIN": addresses["PLAIN"],
    }


def test_a_listener_that_cannot_be_had_gives_back_the_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        in_use = taken.getsockname()[1]
        settings = {**SETTINGS, "listeners": f"INSIDE://127.0.0.1:{port},OUTSIDE://127.0.0.1:{in_use}"}
        with pytest.raises(AddressNotAvailable, match=f"cannot listen on 127.0.0.1:{in_use} "):
            EmbeddedBroker(settings).start()
        with socket.create_server(("127.0.0.1", port)):
            pass


async def _told(host: str, port: int) -> tuple[str, int]:
    client = await WireClient.connect(host, port)
    try:
        answer: Any = await client.ask(METADATA, 1, {"topics": ()})
    finally:
        client.close()
    (node,) = answer.brokers
    return node.host, node.port
