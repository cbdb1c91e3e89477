"""Clusters whose nodes log in to each other with a secret that they share: they form, lose a leader, and heal."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas.core.errors import InvalidConfig
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.storage.small_file import replace_file
from barnabas.testing.disk import Keep
from barnabas.testing.simulation import Simulation
from barnabas.testing.wire_client import WireClient
from barnabas.wire.apis import API_VERSIONS, DESCRIBE_CLUSTER, SASL_HANDSHAKE
from tests.simulation.cluster_clients import CONTROLLER_PORT
from tests.simulation.cluster_faults import Trouble
from tests.simulation.cluster_support import MAX_STEPS, NETWORK
from tests.simulation.cluster_world import DATA, ClusterNode, ClusterWorld

SECRET = "0123456789abcdef" * 4
INTERNAL_PORT = 9094
Scenario = Callable[["SecuredWorld", Trouble], Awaitable[None]]


class SecuredWorld(ClusterWorld):
    """Clients come as they are; nodes use listeners of their own, with SASL."""

    def _form(self, *, joins_later: bool) -> None:
        super()._form(joins_later=joins_later)
        for node in self.nodes:
            replace_file(node.disk, f"{DATA}/cluster.secret", SECRET.encode())

    def _config(self, node: ClusterNode, snapshot_bytes: int) -> BrokerConfig:
        given = dict(super()._config(node, snapshot_bytes).given)
        given["listeners"] += f",INTERNAL://{node.name}:{INTERNAL_PORT}"
        return BrokerConfig.from_properties(
            {
                **given,
                "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
                "inter.broker.listener.name": "INTERNAL",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "cluster.secret.file": f"{DATA}/cluster.secret",
            }
        )


def run(seed: int, scenario: Scenario) -> None:
    with Simulation(seed, network=NETWORK, max_steps=MAX_STEPS) as simulation:
        world = SecuredWorld(simulation, voters=3)

        async def go() -> None:
            async with asyncio.TaskGroup() as tasks:
                await scenario(world, Trouble(world, tasks))

        simulation.run(go)


@pytest.mark.parametrize("seed", range(1, 3))
def test_nodes_that_log_in_to_each_other_survive_the_loss_of_a_leader(seed: int) -> None:
    async def scenario(world: SecuredWorld, trouble: Trouble) -> None:
        for node in world.nodes:
            node.start()
        await trouble.until_whole("the start")
        (leader,) = (node for node in world.nodes if node.is_active)
        leader.crash(Keep.NOTHING)
        await trouble.until(lambda: any(node.is_active for node in world.nodes if node is not leader))
        leader.start()
        await trouble.until_whole("a leader has lost its power")
        world.simulation.network.partition([leader.name], [node.name for node in world.nodes if node is not leader])
        await asyncio.sleep(5)
        world.simulation.network.heal()
        await trouble.until_whole("a node was cut off")
        world.checks.raise_broken()
        for node in world.nodes:
            assert node._node is not None
            broker = node._node.broker
            assert broker is not None
            assert broker.authentication is not None
            assert broker.authentication._succeeded > 0

    run(seed, scenario)


def test_a_node_with_another_secret_is_not_let_in() -> None:
    async def scenario(world: SecuredWorld, trouble: Trouble) -> None:
        stranger, *others = world.nodes
        replace_file(stranger.disk, f"{DATA}/cluster.secret", b"f" * 64)
        for node in world.nodes:
            node.start()
        await trouble.until(lambda: all(node.is_ready for node in others))
        await asyncio.sleep(10)
        assert not stranger.is_ready
        for node in others:
            assert node.image is not None
            assert stranger.node_id not in node.image.nodes

    run(1, scenario)


def test_nobody_is_answered_by_a_controller_before_it_has_logged_in() -> None:
    async def scenario(world: SecuredWorld, trouble: Trouble) -> None:
        for node in world.nodes:
            node.start()
        await trouble.until_whole("the start")
        client = await WireClient.connect(world.nodes[0].name, CONTROLLER_PORT)
        versions = await client.ask(API_VERSIONS, 0, {})
        assert SASL_HANDSHAKE.key in [each.api_key for each in versions.api_keys]
        with pytest.raises(ConnectionError):
            await client.ask(DESCRIBE_CLUSTER, 1, {"endpoint_type": 2})

    run(2, scenario)


def test_nodes_without_a_secret_do_not_start() -> None:
    with Simulation(1, max_steps=MAX_STEPS) as simulation:
        node = SecuredWorld(simulation, voters=3).nodes[0]
        node.disk.remove(f"{DATA}/cluster.secret")
        with pytest.raises(InvalidConfig, match="does not exist"):
            node.start()
