"""A broker that stops cleanly and starts again has lost nothing, and the controller knows."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.core.metadata.records import MetadataRecord, PartitionRecord
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.testing.simulation import Simulation
from barnabas.testing.wire_client import WireClient, create_topic_request
from barnabas.wire.apis import CREATE_TOPICS
from tests.simulation.cluster_clients import PORT
from tests.simulation.cluster_faults import Trouble
from tests.simulation.cluster_world import ClusterNode, ClusterWorld


class _World(ClusterWorld):
    properties = {  # noqa: RUF012 - as in the class that it extends
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
        "log.flush.policy": "os",
    }

    def _config(self, node: ClusterNode, snapshot_bytes: int) -> BrokerConfig:
        """Without snapshots of the metadata, which would tell a node of its last registration as it starts."""
        return super()._config(node, 10**6)


class _Partition:
    """The states of the partition of a topic, as one node hears of them."""

    def __init__(self, node: ClusterNode) -> None:
        assert node.metadata is not None
        self.states: list[PartitionRecord] = []
        self._changed = asyncio.Event()
        node.metadata.subscribe(self._apply)

    def _apply(self, records: Sequence[MetadataRecord]) -> None:
        self.states += [record for record in records if isinstance(record, PartitionRecord)]
        self._changed.set()

    async def until_in_sync(self, count: int) -> None:
        while not self.states or len(self.states[-1].isr) != count:
            self._changed.clear()
            await self._changed.wait()


@pytest.mark.parametrize("seed", range(2))
def test_whoever_stops_cleanly_stays_eligible_though_flushing_is_left_to_the_operating_system(seed: int) -> None:
    with Simulation(seed) as simulation:
        world = _World(simulation, voters=3)

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                for node in world.nodes:
                    node.start()
                await Trouble(world, tasks).until_whole("the start")
                witness = next(node for node in world.nodes if not node.is_active)
                partition = _Partition(witness)
                wire = await WireClient.connect(witness.name, PORT)
                request: Any = create_topic_request("t")
                request["topics"][0]["replication_factor"] = 2
                await wire.ask(CREATE_TOPICS, 7, request, timeout_s=60)
                wire.close()
                await partition.until_in_sync(2)
                replicas = [node for node in world.nodes if node.node_id in partition.states[-1].replicas]
                stopped = next(node for node in replicas if node is not witness)
                await stopped.stop()
                await partition.until_in_sync(1)
                others = [node.name for node in world.nodes if node is not stopped]
                simulation.network.partition([stopped.name], others)
                stopped.start()  # it reads of its last registration only when it hears from the others
                await asyncio.sleep(1)
                simulation.network.heal()
                await partition.until_in_sync(2)
            alone = [state for state in partition.states if len(state.isr) == 1]
            assert {state.elr for state in alone} == {(stopped.node_id,)}

        simulation.run(run)
