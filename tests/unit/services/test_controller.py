"""The active controller and its brokers, in virtual time: who is let in, who is fenced, who may go."""

import asyncio
from typing import cast

import pytest

from barnabas.core.errors import (
    BarnabasError,
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRequest,
    NotController,
    RequestTimedOut,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from barnabas.core.metadata.levels import LATEST_LEVEL, METADATA_VERSION
from barnabas.core.metadata.records import NO_LEADER, NodeRecord
from barnabas.services.controller import PRODUCER_IDS_BLOCK
from tests.unit.services.cluster_world import CLUSTER, SESSION_MS, ClusterWorld, beat, registration, run

SESSION_S = SESSION_MS / 1000


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_first_controller_forms_the_cluster_at_the_levels_of_this_version() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await settle()
        assert world.image.cluster_id == CLUSTER
        assert world.image.features[METADATA_VERSION] == LATEST_LEVEL
        written = len(world.log.records)

        world.log.elect(world.metadata[2])
        await settle()

        assert len(world.log.records) == written + 1  # by Raft

    run(scenario)


def test_epochs_rise_though_no_registration_is_committed_yet() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await settle()
        world.log.gate.clear()
        waiting = [world.begin(world.controller.register(registration(node_id))) for node_id in (5, 6, 7)]
        await settle()
        assert not any(task.done() for task in waiting)
        world.log.gate.set()
        epochs = [await task for task in waiting]

        assert epochs == sorted(set(epochs))
        for epoch in epochs:
            written = world.log.records[epoch]
            assert isinstance(written, NodeRecord)
            assert written.epoch == epoch

    run(scenario)


def test_of_two_brokers_that_register_one_id_at_once_the_second_is_refused() -> None:
    async def scenario(world: ClusterWorld) -> None:
        world.log.gate.clear()
        first = world.begin(world.controller.register(registration(5)))
        second = world.begin(world.controller.register(registration(5, incarnation=2, directory=99)))
        await settle()
        world.log.gate.set()

        epoch = await first
        with pytest.raises(DuplicateBrokerRegistration):
            await second
        assert world.image.nodes[5].epoch == epoch

    run(scenario)


def test_k13959_a_heartbeat_that_changes_nothing_neither_writes_nor_waits_for_a_busy_log() -> None:
    async def scenario(world: ClusterWorld) -> None:
        epoch = await world.let_in(5)
        world.log.gate.clear()
        waiting = world.begin(world.create("a", 5))
        await settle()
        written = len(world.log.records)

        reply = await world.controller.heartbeat(beat(5, epoch, offset=world.metadata[1].applied_offset))

        assert not waiting.done()
        assert (reply.is_caught_up, reply.is_fenced) == (True, False)
        assert len(world.log.records) == written
        world.log.gate.set()
        await waiting

    run(scenario)


def test_k13959_a_broker_is_let_in_once_it_has_its_registration_however_far_the_log_goes_on() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await world.let_in(5)
        epoch = await world.controller.register(registration(6))
        assert (await world.controller.heartbeat(beat(6, epoch, offset=epoch - 1))).is_fenced
        for number in range(10):
            await world.create(f"t{number}", 5)

        assert not (await world.controller.heartbeat(beat(6, epoch, offset=epoch))).is_fenced
        assert world.image.is_active(6)

    run(scenario)


def test_k19130_a_broker_that_was_killed_registers_at_once_from_the_same_directory() -> None:
    async def scenario(world: ClusterWorld) -> None:
        before = await world.let_in(5)

        with pytest.raises(DuplicateBrokerRegistration):
            await world.controller.register(registration(5, incarnation=2, directory=99))
        after = await world.controller.register(registration(5, incarnation=2))

        assert after > before
        assert world.image.nodes[5].is_fenced
        with pytest.raises(StaleBrokerEpoch):
            await world.controller.heartbeat(beat(5, before))

    run(scenario)


def test_a_silent_broker_is_fenced_when_its_session_is_over_and_comes_back_by_a_heartbeat() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await world.join(1)
        silent, heard = await world.let_in(5), await world.let_in(6)
        await world.create("a", 5, 6)
        for _ in range(4):
            await asyncio.sleep(SESSION_S / 4 - 0.01)
            await world.controller.heartbeat(beat(6, heard))
        assert world.image.is_active(5)
        await asyncio.sleep(0.1)

        assert world.image.nodes[5].is_fenced
        assert world.image.is_active(6)
        assert world.image.is_active(1)
        assert world.image.get_topic("a").get_partition(0).leader == 6
        reply = await world.controller.heartbeat(beat(5, silent, offset=silent))
        assert not reply.is_fenced
        assert world.image.is_active(5)
        await asyncio.sleep(SESSION_S + 0.1)
        assert world.image.nodes[5].is_fenced

    run(scenario)


def test_a_heartbeat_that_comes_while_the_fencing_waits_for_its_turn_prevents_it() -> None:
    async def scenario(world: ClusterWorld) -> None:
        late, silent = await world.let_in(5), await world.let_in(6)
        world.log.turn.clear()
        await asyncio.sleep(SESSION_S + 1)
        assert world.image.is_active(5)
        assert world.image.is_active(6)
        await world.controller.heartbeat(beat(5, late))
        world.log.turn.set()
        await asyncio.sleep(1)

        assert world.image.is_active(5)
        assert (world.image.nodes[6].epoch, world.image.nodes[6].is_fenced) == (silent, True)

    run(scenario)


def test_k14296_k15021_who_leaves_leads_nothing_and_is_in_no_isr_before_it_may_go() -> None:
    async def scenario(world: ClusterWorld) -> None:
        leaver, other = await world.let_in(5), await world.let_in(6)
        await world.create("led", 5, 6)
        await world.create("followed", 6, 5)

        first = await world.controller.heartbeat(beat(5, leaver, wants_shutdown=True))
        assert not first.should_shut_down
        for name in ("led", "followed"):
            state = world.image.get_topic(name).get_partition(0)
            assert (state.leader, state.isr) == (6, (6,))
        moved = world.metadata[1].applied_offset - 1
        await world.create("later", 6, 5)  # the log goes on, and the leaver gets nothing of it
        assert world.image.get_topic("later").get_partition(0).isr == (6,)
        assert not (await world.controller.heartbeat(beat(5, leaver, wants_shutdown=True))).should_shut_down
        await world.controller.heartbeat(beat(6, other, offset=moved - 1))
        assert not (await world.controller.heartbeat(beat(5, leaver, wants_shutdown=True))).should_shut_down
        await world.controller.heartbeat(beat(6, other, offset=moved))
        last = await world.controller.heartbeat(beat(5, leaver, wants_shutdown=True))

        assert (last.should_shut_down, last.is_fenced) == (True, True)
        assert world.image.nodes[5].is_fenced
        assert (await world.controller.heartbeat(beat(5, leaver, wants_shutdown=True))).should_shut_down

    run(scenario)


def test_who_leaves_may_go_under_the_next_controller_too() -> None:
    async def scenario(world: ClusterWorld) -> None:
        leaver, other = await world.let_in(5), await world.let_in(6)
        await world.create("led", 5, 6)
        await world.controller.heartbeat(beat(5, leaver, wants_shutdown=True))
        world.log.elect(world.metadata[2])
        await settle()
        controller = world.controllers[2]

        assert not (await controller.heartbeat(beat(5, leaver, wants_shutdown=True))).should_shut_down
        await controller.heartbeat(beat(6, other, offset=world.metadata[2].applied_offset))
        assert (await controller.heartbeat(beat(5, leaver, wants_shutdown=True))).should_shut_down

    run(scenario)


def test_k19522_the_last_in_sync_replica_is_elected_only_when_it_is_let_in() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await world.let_in(5)
        await world.let_in(6)
        await world.create("a", 5)
        await asyncio.sleep(SESSION_S + 0.1)
        assert world.image.get_topic("a").get_partition(0).leader == NO_LEADER

        again = await world.controller.register(registration(5, incarnation=2))
        assert world.image.get_topic("a").get_partition(0).leader == NO_LEADER
        await world.controller.heartbeat(beat(5, again, offset=again))
        assert world.image.get_topic("a").get_partition(0).leader == 5

    run(scenario)


def test_a_new_controller_gives_every_active_broker_a_whole_session() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await world.let_in(5)
        await asyncio.sleep(SESSION_S - 0.1)
        world.log.elect(world.metadata[2])
        await asyncio.sleep(SESSION_S - 0.1)
        assert world.metadata[2].image.is_active(5)
        await asyncio.sleep(0.2)
        assert world.metadata[2].image.nodes[5].is_fenced

    run(scenario)


def test_a_controller_that_leads_again_knows_nothing_of_its_former_sessions() -> None:
    async def scenario(world: ClusterWorld) -> None:
        epoch = await world.let_in(5)
        world.log.elect(world.metadata[2])
        await asyncio.sleep(SESSION_S - 1)
        world.log.elect(world.metadata[1])
        await asyncio.sleep(SESSION_S - 1)
        assert world.image.is_active(5)
        assert not (await world.controller.heartbeat(beat(5, epoch))).is_fenced
        await asyncio.sleep(SESSION_S - 1)
        assert world.image.is_active(5)

    run(scenario)


def test_a_node_that_does_not_lead_answers_nothing() -> None:
    async def scenario(world: ClusterWorld) -> None:
        epoch = await world.let_in(5)
        world.log.elect(world.metadata[2])

        for asked in (
            world.controller.register(registration(6)),
            world.controller.heartbeat(beat(5, epoch)),
            world.controller.allocate_producer_ids(5, epoch),
            world.controller.unregister(5),
        ):
            with pytest.raises(NotController):
                await asked

    run(scenario)


def test_a_heartbeat_during_which_the_leadership_goes_is_not_answered_as_done() -> None:
    async def scenario(world: ClusterWorld) -> None:
        epoch = await world.controller.register(registration(5))
        world.log.gate.clear()
        waiting = world.begin(world.controller.heartbeat(beat(5, epoch, offset=epoch)))
        await settle()
        world.log.elect(world.metadata[2])
        world.log.gate.set()

        with pytest.raises(RequestTimedOut):
            await waiting
        assert world.metadata[2].image.nodes[5].is_fenced

    run(scenario)


def test_a_registration_that_the_leadership_took_away_is_no_obstacle_to_the_next() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await settle()
        world.log.gate.clear()
        waiting = world.begin(world.controller.register(registration(5)))
        await settle()
        world.log.elect(world.metadata[2])
        world.log.gate.set()
        with pytest.raises(RequestTimedOut):
            await waiting

        assert await world.controllers[2].register(registration(5, incarnation=2, directory=99)) >= 0

    run(scenario)


def test_k20031_no_two_blocks_of_producer_ids_overlap_pipelined_and_over_a_change_of_the_controller() -> None:
    async def scenario(world: ClusterWorld) -> None:
        one, two = await world.let_in(5), await world.let_in(6)
        world.log.gate.clear()
        waiting = [
            world.begin(world.controller.allocate_producer_ids(node_id, epoch))
            for node_id, epoch in ((5, one), (6, two), (5, one))
        ]
        await settle()
        world.log.gate.set()
        blocks = [await task for task in waiting]
        world.log.gate.clear()
        lost = world.begin(world.controller.allocate_producer_ids(5, one))
        await settle()
        world.log.elect(world.metadata[2])
        world.log.gate.set()
        with pytest.raises(RequestTimedOut):
            await lost
        blocks.append(await world.controllers[2].allocate_producer_ids(6, two))

        assert all(len(block) == PRODUCER_IDS_BLOCK for block in blocks)
        ids = [producer_id for block in blocks for producer_id in block]
        assert len(set(ids)) == len(ids)

    run(scenario)


def test_producer_ids_are_for_brokers_that_are_registered_with_this_epoch() -> None:
    async def scenario(world: ClusterWorld) -> None:
        epoch = await world.let_in(5)

        with pytest.raises(StaleBrokerEpoch):
            await world.controller.allocate_producer_ids(5, epoch - 1)
        with pytest.raises(BrokerIdNotRegistered):
            await world.controller.allocate_producer_ids(9, epoch)

    run(scenario)


def test_only_a_broker_that_is_gone_is_unregistered() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await world.let_in(5)

        with pytest.raises(InvalidRequest, match="running"):
            await world.controller.unregister(5)
        await asyncio.sleep(SESSION_S + 0.1)
        await world.controller.unregister(5)

        assert 5 not in world.image.nodes
        with pytest.raises(BrokerIdNotRegistered):
            await world.controller.unregister(5)

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"cluster_id": "another"}, InconsistentClusterId),
        ({"features": (("metadata.version", 7, 29),)}, UnsupportedVersion),
        ({"features": ()}, UnsupportedVersion),
    ],
)
def test_a_broker_of_another_cluster_or_of_too_low_a_level_is_refused(
    fields: dict[str, object], refusal: type[BarnabasError]
) -> None:
    async def scenario(world: ClusterWorld) -> None:
        with pytest.raises(refusal):
            await world.controller.register(registration(5, **cast("dict[str, int]", fields)))
        assert 5 not in world.image.nodes
        assert await world.controller.register(registration(5, cluster_id=CLUSTER)) >= 0

    run(scenario)
