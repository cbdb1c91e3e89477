"""A node sees whether the addresses that it advertises lead to itself."""

import asyncio
import logging
from typing import Any

import pytest

from barnabas.core.errors import PeerUnreachable
from barnabas.runtime import own_addresses
from barnabas.runtime.own_addresses import Advertised, OwnAddresses, Peer
from barnabas.wire.writing import Values

CLIENTS = Advertised("PLAINTEXT", "here", 9092)
CONTROLLERS = Advertised("CONTROLLER", "here", 9093, is_for_controllers=True)


class Network:
    """Ports that lead to the node, or to somebody else; nobody listens at any other, at first or at all."""

    def __init__(self, node: OwnAddresses, *, own: tuple[int, ...] = (), others: tuple[int, ...] = ()) -> None:
        self.node = node
        self.own = own
        self.others = others
        self.deaf_for = 0
        self.asked = self.closed = 0

    def once(self, host: str, port: int) -> Peer:
        network = self

        class Found:
            async def call(self, _api_key: int, values: Values, *, timeout_s: float, min_version: int = 0) -> Any:
                network.asked += 1
                if port not in network.own + network.others or network.asked <= network.deaf_for:
                    raise PeerUnreachable("connection refused")
                if port in network.own:
                    network.node.note(str(values["client_software_version"]))

            def close(self) -> None:
                network.closed += 1

        return Found()


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_addresses, "RETRY_S", 0.0)


def check(network: Network, *addresses: Advertised) -> None:
    asyncio.run(network.node.check(addresses, network, word="word"))
    assert network.closed == network.asked


def test_addresses_that_lead_to_the_node_are_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    network = Network(OwnAddresses(), own=(9092, 9093))
    network.deaf_for = 2
    check(network, CLIENTS, CONTROLLERS)
    assert caplog.records == []


def test_an_address_where_nobody_answers_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    check(Network(OwnAddresses(), own=(9092,)), CLIENTS, CONTROLLERS)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "nobody answers at here:9093, where the listener CONTROLLER is advertised" in record.getMessage()
    assert "other controllers cannot connect to this node: correct advertised.listeners" in record.getMessage()


def test_the_address_of_somebody_else_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    check(Network(OwnAddresses(), others=(9092,)), CLIENTS)
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "here:9092, where the listener PLAINTEXT is advertised, is the address of another" in record.getMessage()


def test_what_strangers_say_is_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    node = OwnAddresses()
    node.note("word-0")
    check(Network(node, others=(9092,)), CLIENTS)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
