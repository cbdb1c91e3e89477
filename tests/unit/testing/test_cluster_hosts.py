"""Nodes of a local cluster at addresses of their own."""

from pathlib import Path

from barnabas.testing.cluster.directory import ClusterDirectory
from barnabas.testing.cluster.forming import new_state


def test_each_node_listens_at_its_own_address_and_knows_those_of_the_others(tmp_path: Path) -> None:
    state = new_state(2, hosts=["127.0.0.2", "127.0.0.3"])
    first, second = state.nodes
    settings = ClusterDirectory(tmp_path).settings_of(state, second)
    assert first.bootstrap == f"127.0.0.2:{first.port}"
    assert (
        settings["listeners"] == f"PLAINTEXT://127.0.0.3:{second.port},CONTROLLER://127.0.0.3:{second.controller_port}"
    )
    assert settings["controller.quorum.bootstrap.servers"] == (
        f"127.0.0.2:{first.controller_port},127.0.0.3:{second.controller_port}"
    )


def test_nodes_are_on_this_machine_unless_addresses_are_named() -> None:
    assert [node.host for node in new_state(2).nodes] == ["127.0.0.1"] * 2
