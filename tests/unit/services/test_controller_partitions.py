"""What the active controller decides on partitions, in virtual time: their ISRs, and who leads them again."""

import asyncio
from uuid import UUID

import pytest

from barnabas.core.errors import BarnabasError, ElectionNotNeeded, NotController, StaleBrokerEpoch
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image, PartitionState, Topic
from barnabas.core.metadata.isr import IsrChange
from barnabas.core.metadata.reassignments import Target
from barnabas.core.metadata.records import NO_LEADER, TOPIC_RESOURCE, ConfigRecord
from barnabas.services.controller import Controller, Formation
from barnabas.services.controller_partitions import ElectionType, PartitionRules
from barnabas.services.settings.broker_config import BrokerConfig
from tests.unit.services.cluster_world import CLUSTER, SESSION_MS, ClusterWorld, beat, run

INTERVAL_S = 300
SESSION_S = SESSION_MS / 1000


def state_of(world: ClusterWorld, name: str = "a") -> PartitionState:
    return world.image.get_topic(name).get_partition(0)


async def joined(world: ClusterWorld, *nodes: int) -> None:
    for node_id in nodes:
        await world.join(node_id)


async def alter_isr(world: ClusterWorld, *isr: int, epoch: int | None = None) -> PartitionState | BarnabasError:
    state = state_of(world)
    members = tuple((node_id, world.image.nodes[node_id].epoch) for node_id in isr)
    change = IsrChange(state.topic_id, 0, state.leader_epoch, state.partition_epoch, members)
    broker_epoch = world.image.nodes[state.leader].epoch if epoch is None else epoch
    (outcome,) = await world.controller.alter_partitions(state.leader, broker_epoch=broker_epoch, changes=[change])
    return outcome


async def away(world: ClusterWorld, node_id: int) -> None:
    """Fence a broker, and let it in again: it is in no ISR then, where others are."""
    epoch = world.image.nodes[node_id].epoch
    offset = world.metadata[1].applied_offset
    await world.controller.heartbeat(beat(node_id, epoch, offset=offset, wants_fence=True))
    await world.controller.heartbeat(beat(node_id, epoch, offset=world.metadata[1].applied_offset))


def test_the_leader_of_a_partition_changes_its_isr() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await joined(world, 1, 2, 3)
        await world.create("a", 1, 2, 3)
        outcome = await alter_isr(world, 1, 3)
        assert isinstance(outcome, PartitionState)
        assert outcome == state_of(world)
        assert outcome.isr == (1, 3)

    run(scenario, nodes=3)


def test_isrs_are_refused_to_a_former_incarnation_and_by_another_controller() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await joined(world, 1, 2, 3)
        await world.create("a", 1, 2, 3)
        with pytest.raises(StaleBrokerEpoch):
            await alter_isr(world, 1, 2, epoch=99)
        with pytest.raises(NotController):
            await world.controllers[2].alter_partitions(1, broker_epoch=0, changes=[])
        with pytest.raises(NotController):
            await world.controllers[2].partitions.elect(ElectionType.PREFERRED, [("a", 0)])

    run(scenario, nodes=3)


def test_a_preferred_leader_comes_back_with_the_next_round_once_it_is_in_sync() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await joined(world, 1, 2, 3)
        await world.create("a", 3, 1, 2)
        await away(world, 3)
        assert (state_of(world).leader, state_of(world).isr) == (1, (1, 2))
        await asyncio.sleep(INTERVAL_S + 1)
        assert state_of(world).leader == 1, "it is not in sync"
        await alter_isr(world, 1, 2, 3)
        await asyncio.sleep(INTERVAL_S + 1)
        assert state_of(world).leader == 3

    run(scenario, nodes=3)


def test_a_controller_that_took_over_brings_preferred_leaders_back_too() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await joined(world, 1, 2, 3)
        await world.create("a", 3, 1, 2)
        await away(world, 3)
        await alter_isr(world, 1, 2, 3)
        world.log.elect(world.metadata[2])
        await asyncio.sleep(INTERVAL_S + 1)
        assert world.metadata[2].image.get_topic("a").get_partition(0).leader == 3

    run(scenario, nodes=3)


def test_leaders_stay_where_they_are_when_they_are_not_to_come_back() -> None:
    async def scenario(world: ClusterWorld) -> None:
        settings = BrokerConfig.from_properties({"auto.leader.rebalance.enable": "false"})
        formation = Formation(cluster_id=CLUSTER)
        rules = PartitionRules.of(settings)
        controller = Controller(
            world.metadata[1], node_id=1, session_timeout_ms=SESSION_MS, formation=formation, partitions=rules
        )
        world.tasks[0].cancel()  # the one that would bring them back
        await joined(world, 1, 2, 3)
        await world.create("a", 3, 1, 2)
        await away(world, 3)
        await alter_isr(world, 1, 2, 3)
        world.tasks.append(world.begin(controller.partitions.run()))
        await asyncio.sleep(2 * INTERVAL_S)
        assert state_of(world).leader == 1

    run(scenario, nodes=3)


def test_an_unclean_leader_is_elected_after_the_topic_has_allowed_it() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await joined(world, 1, 2)
        epoch = await world.let_in(3)
        await world.create("a", 3, 1)
        state = state_of(world)
        change = IsrChange(state.topic_id, 0, 0, 0, ((3, epoch),))
        await world.controller.alter_partitions(3, broker_epoch=epoch, changes=[change])
        await asyncio.sleep(2 * SESSION_S)
        assert state_of(world).leader == NO_LEADER

        def allow(_: Image) -> MetadataDecision[None]:
            return MetadataDecision([ConfigRecord(TOPIC_RESOURCE, "a", "unclean.leader.election.enable", "true")], None)

        await world.metadata[1].commit(allow)
        await asyncio.sleep(INTERVAL_S + 1)
        assert (state_of(world).leader, state_of(world).isr) == (1, (1,))

    run(scenario, nodes=3)


def test_a_broker_that_leaves_hands_over_to_one_in_sync_and_is_let_go_then() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await joined(world, 1, 2)
        leaver = await world.join(3)
        await world.create("a", 3, 1, 2)
        await alter_isr(world, 3, 2)
        await leaver.shut_down(timeout_s=30)
        assert (state_of(world).leader, state_of(world).isr) == (2, (2,))
        assert world.image.nodes[3].is_fenced

    run(scenario, nodes=3)


def test_a_broker_that_is_the_only_one_in_sync_leaves_and_nobody_leads_until_it_is_back() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await joined(world, 1, 2)
        leaver = await world.join(3)
        await world.create("a", 3, 1, 2)
        await alter_isr(world, 3)
        await leaver.shut_down(timeout_s=30)
        state = state_of(world)
        assert (state.leader, state.isr, state.elr) == (NO_LEADER, (), (3,)), "as in Kafka"
        await world.join(3, incarnation=2)
        assert (state_of(world).leader, state_of(world).isr) == (3, (3,))

    run(scenario, nodes=3)


def test_moves_and_elections_are_decided_each_for_itself() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await joined(world, 1, 2, 3)
        await world.create("a", 1, 2)
        await world.create("b", 2, 1)
        partitions = world.controller.partitions
        moved, refused = await partitions.reassign([Target("a", 0, (1, 3)), Target("no", 0, (1,))])
        assert isinstance(moved, PartitionState)
        assert (moved.adding, moved.removing) == ((3,), (2,))
        assert isinstance(refused, BarnabasError)
        written = len(world.log.records)
        outcomes = await partitions.elect(ElectionType.PREFERRED, [("a", 0), ("b", 0)])
        assert [type(each) for each in outcomes] == [ElectionNotNeeded] * 2
        assert len(world.log.records) == written

    run(scenario, nodes=3)


def test_the_file_of_the_controller_says_whether_leaders_may_be_unclean() -> None:
    image = Image()
    given = PartitionRules.of(BrokerConfig.from_properties({"unclean.leader.election.enable": "true"})).rules
    topic = Topic("a", UUID(int=1))
    assert given(image, topic).may_be_unclean
    assert not PartitionRules().rules(image, topic).may_be_unclean
    image.apply(ConfigRecord(TOPIC_RESOURCE, "a", "unclean.leader.election.enable", "false"))
    assert not given(image, topic).may_be_unclean
