"""Where the nodes of a cluster of this machine serve HTTP."""

import socket
from pathlib import Path

import pytest

from barnabas.core.errors import AddressNotAvailable
from barnabas.testing.cluster.directory import ClusterDirectory
from barnabas.testing.cluster.forming import new_state, one_more
from barnabas.testing.cluster.ports import find_row


def _ports(addresses: list[str | None]) -> list[int]:
    return [int(each.rpartition(":")[2]) for each in addresses if each is not None]


def test_each_node_serves_http_at_the_next_port(tmp_path: Path) -> None:
    state = new_state(3, with_http=True)

    ports = _ports([node.http for node in state.nodes])

    assert ports == list(range(ports[0], ports[0] + 3))
    assert len(state.ports) == 9
    settings = [ClusterDirectory(tmp_path).settings_of(state, node)["http.listener"] for node in state.nodes]
    assert settings == [f"127.0.0.1:{port}" for port in ports]


def test_the_ports_of_http_come_after_the_others_if_the_first_is_named() -> None:
    first = find_row(6)[0]

    state = new_state(2, port=first, with_http=True)

    assert [node.http for node in state.nodes] == [f"127.0.0.1:{first + 4}", f"127.0.0.1:{first + 5}"]


def test_the_first_address_can_be_named_or_http_be_off(tmp_path: Path) -> None:
    first = find_row(2)[0]

    named = new_state(2, settings={"http.listener": f"127.0.0.1:{first}"}, with_http=True)
    off = new_state(2, settings={"http.listener": "off"}, with_http=True)

    assert [node.http for node in named.nodes] == [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]
    assert [node.http for node in off.nodes] == [None, None]
    assert ClusterDirectory(tmp_path).settings_of(off, off.nodes[0])["http.listener"] == "off"


def test_a_port_of_http_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        first = find_row(2)[0]
        taken.bind(("127.0.0.1", first + 1))
        with pytest.raises(AddressNotAvailable, match=f"port {first + 1} is not free, for HTTP"):
            new_state(2, settings={"http.listener": f"127.0.0.1:{first}"}, with_http=True)


def test_a_node_that_joins_serves_http_if_the_others_do() -> None:
    served, silent = new_state(2, with_http=True), new_state(2)

    assert one_more(served, None).http is not None
    assert len({node.http for node in served.nodes}) == 3
    assert one_more(silent, None).http is None
