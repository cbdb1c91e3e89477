"""A broker and its place in the cluster, in virtual time: with the controller here, elsewhere, and nowhere."""

import asyncio
import logging

import pytest

from barnabas.core.errors import DuplicateBrokerRegistration, InconsistentClusterId, InvalidRequest
from barnabas.core.metadata.records import NO_LEADER, RemoveNodeRecord
from barnabas.runtime.broker_lease import BrokerLease
from barnabas.services.membership import LEAVING_PATIENCE_S, PATIENCE_S, TOLD_AGAIN_S, Membership
from barnabas.services.producer_ids import ProducerIds
from tests.support.ports import FixedClock
from tests.unit.services.cluster_world import SESSION_MS, ClusterWorld, beat, endpoints_of, run
from tests.unit.services.test_controller import settle

SESSION_S = SESSION_MS / 1000


def test_beside_the_controller_a_broker_is_let_in_by_registering_and_sends_nothing() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership, far = world.broker(1)

        await membership.start(endpoints_of(1))
        assert not membership.is_fenced
        running = world.begin(membership.run())
        await asyncio.sleep(3 * SESSION_S)

        assert world.image.is_active(1)
        assert far.calls == []
        running.cancel()

    run(scenario)


def test_elsewhere_a_broker_is_let_in_as_soon_as_it_has_applied_its_registration() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership, far = world.broker(5)
        world.metadata[5].is_held = True
        await membership.start(endpoints_of(5))
        running = world.begin(membership.run())
        await asyncio.sleep(5)
        assert membership.is_fenced
        assert world.image.nodes[5].is_fenced

        began = asyncio.get_running_loop().time()
        world.metadata[5].release()
        await membership.wait_unfenced()

        assert asyncio.get_running_loop().time() - began < 0.5
        assert world.image.is_active(5)
        assert far.calls[0] == "register"
        running.cancel()

    run(scenario)


def test_a_broker_asks_to_be_let_in_when_it_has_its_registration_and_not_what_raft_wrote_before_it() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership, _ = world.broker(5)
        await settle()
        world.metadata[5].is_held = world.log.is_raft_next = True
        await membership.start(endpoints_of(5))
        assert world.log.records[membership.epoch] is None
        world.metadata[5].apply(membership.epoch + 1)
        running = world.begin(membership.run())
        await asyncio.sleep(5)
        assert world.image.nodes[5].is_fenced

        world.metadata[5].release()
        await membership.wait_unfenced()
        running.cancel()

    run(scenario)


def test_a_broker_that_cannot_serve_yet_stays_fenced_until_it_can() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership, _ = world.broker(5)
        membership.wants_fence = True
        await membership.start(endpoints_of(5))
        running = world.begin(membership.run())
        await asyncio.sleep(2 * SESSION_S)
        assert membership.is_fenced

        membership.ready()
        await membership.wait_unfenced()
        running.cancel()

    run(scenario)


def test_a_broker_waits_while_there_is_no_controller() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await settle()
        world.log.elect(None)
        membership, _ = world.broker(5)
        starting = world.begin(membership.start(endpoints_of(5)))
        await asyncio.sleep(10 * SESSION_S)
        assert not starting.done()

        world.log.elect(world.metadata[2])
        await starting

        assert membership.epoch == world.metadata[2].image.nodes[5].epoch

    run(scenario)


def test_a_broker_gives_up_on_an_id_that_another_runs_under_when_a_session_would_be_over() -> None:
    async def scenario(world: ClusterWorld) -> None:
        await world.join(5)
        membership, _ = world.broker(5, incarnation=2, directory=99)
        began = asyncio.get_running_loop().time()

        with pytest.raises(DuplicateBrokerRegistration, match=r"node\.id"):
            await membership.start(endpoints_of(5))

        assert asyncio.get_running_loop().time() - began > SESSION_S

    run(scenario)


def test_a_broker_takes_over_an_id_whose_broker_is_gone() -> None:
    async def scenario(world: ClusterWorld) -> None:
        gone = await world.let_in(5)
        membership, _ = world.broker(5, incarnation=2, directory=99)

        await membership.start(endpoints_of(5))

        assert membership.epoch > gone

    run(scenario)


def test_partitions_of_a_broker_with_another_data_directory_are_offline_and_an_error_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(world: ClusterWorld) -> None:
        await world.join(1)
        await world.let_in(5)
        await world.create("alone", 5)
        await world.create("shared", 1, 5)
        await asyncio.sleep(2 * SESSION_S)
        await world.controller.unregister(5)

        await world.join(5, incarnation=2, directory=99)

        topics = world.image.topics
        assert (topics["alone"].partitions[0].leader, topics["alone"].partitions[0].isr) == (NO_LEADER, ())
        assert topics["shared"].partitions[0].leader == 1

    run(scenario)

    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "broker 5 has come back with another data directory" in line
    assert "1 partitions: alone-0." in line


def test_a_broker_that_finds_no_controller_says_so_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """It waited in silence where controller.quorum.bootstrap.servers was wrong."""

    async def scenario(world: ClusterWorld) -> None:
        membership, _ = world.broker(5)
        world.log.leader = None
        starting = world.begin(membership.start(endpoints_of(5)))
        await asyncio.sleep(PATIENCE_S - 1)
        assert "waiting for a controller" not in caplog.text
        await asyncio.sleep(2 * TOLD_AGAIN_S)
        starting.cancel()

    run(scenario)

    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 2
    assert "waiting for a controller, without which this node cannot serve: the quorum has no leader." in told[0]


def test_a_broker_that_takes_over_an_id_waits_for_the_sessions_of_a_new_controller() -> None:
    async def scenario(world: ClusterWorld) -> None:
        gone = await world.let_in(5)
        membership, _ = world.broker(5, incarnation=2, directory=99)
        starting = world.begin(membership.start(endpoints_of(5)))
        for leader in (2, 1, 2):
            await asyncio.sleep(0.8 * SESSION_S)
            world.log.elect(world.metadata[leader])
        await starting

        assert membership.epoch > gone

    run(scenario)


def test_a_broker_of_another_cluster_gives_up_at_once() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership, far = world.broker(5)

        with pytest.raises(InconsistentClusterId):
            await membership.start(endpoints_of(5), cluster_id="another")
        with pytest.raises(InvalidRequest):
            await membership.start([])

        assert far.calls == ["register", "register"]

    run(scenario)


def test_a_broker_registers_again_when_the_controller_does_not_know_it() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership = await world.join(5)
        before = membership.epoch
        world.log.records.append(RemoveNodeRecord(5))
        world.log.apply(len(world.log.records))

        await membership.wait_unfenced()

        assert membership.epoch > before
        assert world.image.is_active(5)

    run(scenario)


def test_a_broker_that_was_cut_off_is_let_in_again() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership = await world.join(5)
        world.log.elect(None)
        await asyncio.sleep(2 * SESSION_S)
        assert not membership.is_fenced
        world.log.elect(world.metadata[2])
        await asyncio.sleep(2 * SESSION_S)

        assert not membership.is_fenced
        assert world.metadata[2].image.is_active(5)

    run(scenario)


def test_heartbeats_follow_the_controller_into_this_process_and_out_of_it() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership, far = world.broker(2)
        await membership.start(endpoints_of(2))
        running = world.begin(membership.run())
        await membership.wait_unfenced()
        assert far.calls.count("register") == 1
        world.log.elect(world.metadata[2])
        await asyncio.sleep(3)
        sent = len(far.calls)
        await asyncio.sleep(2 * SESSION_S)
        assert len(far.calls) == sent
        world.log.elect(world.metadata[1])
        await asyncio.sleep(2 * SESSION_S)

        assert len(far.calls) > sent
        assert far.calls.count("register") == 1
        assert world.image.is_active(2)
        running.cancel()

    run(scenario)


def test_a_controlled_shutdown_moves_leaderships_and_takes_no_interval_of_heartbeats() -> None:
    async def scenario(world: ClusterWorld) -> None:
        leaver, _ = await world.join(5), await world.join(6)
        await world.create("a", 5, 6)
        began = asyncio.get_running_loop().time()

        assert await leaver.shut_down(timeout_s=30)

        assert asyncio.get_running_loop().time() - began < 1
        assert world.image.get_topic("a").get_partition(0).leader == 6
        assert world.image.nodes[5].is_fenced

    run(scenario)


def test_a_controlled_shutdown_waits_for_brokers_that_have_not_heard_of_it_until_its_deadline() -> None:
    async def scenario(world: ClusterWorld) -> None:
        leaver, _ = await world.join(5), await world.join(6)
        await world.create("a", 5, 6)
        world.metadata[6].is_held = True

        assert not await leaver.shut_down(timeout_s=3)

        assert world.image.get_topic("a").get_partition(0).leader == 6
        assert not world.image.nodes[5].is_fenced

    run(scenario)


def test_a_controlled_shutdown_does_not_wait_long_for_a_controller_that_is_gone() -> None:
    async def scenario(world: ClusterWorld) -> None:
        leaver, _ = await world.join(5), await world.join(6)
        world.log.elect(None)
        began = asyncio.get_running_loop().time()

        assert not await leaver.shut_down(timeout_s=60)

        assert asyncio.get_running_loop().time() - began < 2 * LEAVING_PATIENCE_S

    run(scenario)


def test_a_broker_alone_goes_with_all_it_leads() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership = await world.join(1)
        await world.create("a", 1)
        written = len(world.log.records)

        assert await membership.shut_down(timeout_s=30)

        assert len(world.log.records) == written

    run(scenario)


def test_producer_ids_come_from_the_controller_wherever_it_is() -> None:
    async def scenario(world: ClusterWorld) -> None:
        near, far = ProducerIds(await world.join(1)), ProducerIds(await world.join(5))

        taken = [await each.take() for each in (near, far) for _ in range(1001)]

        assert len(set(taken)) == len(taken)

    run(scenario)


def lease_of(world: ClusterWorld, membership: Membership, node_id: int) -> BrokerLease:
    lease = membership._lease = BrokerLease(world.metadata[node_id], FixedClock())
    return lease


def test_heartbeats_renew_a_lease_that_is_over_when_no_controller_answers() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership, _ = world.broker(5)
        lease = lease_of(world, membership, 5)
        await membership.start(endpoints_of(5))
        assert not lease.holds()
        running = world.begin(membership.run())
        await membership.wait_unfenced()
        await asyncio.sleep(2 * SESSION_S)
        assert lease.holds()

        world.log.elect(None)
        await asyncio.sleep(SESSION_S)

        assert not lease.holds()
        running.cancel()

    run(scenario)


def test_a_broker_whose_metadata_lag_does_not_renew_its_lease() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership = await world.join(5)
        lease = lease_of(world, membership, 5)
        await asyncio.sleep(SESSION_S)
        assert lease.holds()

        world.metadata[5].is_held = True
        await world.create("t", 5)
        await asyncio.sleep(SESSION_S)
        assert not lease.holds()
        world.metadata[5].release()

        assert lease.holds()

    run(scenario)


def test_a_broker_that_leaves_gives_up_its_lease_before_others_lead() -> None:
    async def scenario(world: ClusterWorld) -> None:
        membership = await world.join(5)
        await world.join(1)
        lease = lease_of(world, membership, 5)
        await asyncio.sleep(SESSION_S)
        assert lease.holds()

        leaving = world.begin(membership.shut_down(timeout_s=SESSION_S))
        await settle()

        assert not lease.holds()
        await leaving

    run(scenario)


def test_a_controller_that_may_have_been_replaced_gives_a_shorter_lease_or_none() -> None:
    async def scenario(world: ClusterWorld) -> None:
        epoch = await world.let_in(5)

        async def leased_ms() -> int:
            return (await world.controller.heartbeat(beat(5, epoch, offset=world.metadata[1].applied_offset))).lease_ms

        assert await leased_ms() == SESSION_MS
        world.log.unconfirmed_ms = 1000
        assert await leased_ms() == SESSION_MS - 1000
        world.log.unconfirmed_ms = SESSION_MS + 1
        assert await leased_ms() == 0
        world.log.unconfirmed_ms = None
        assert await leased_ms() == 0

    run(scenario)


def test_a_heartbeat_that_comes_while_its_broker_is_being_fenced_gives_no_lease() -> None:
    async def scenario(world: ClusterWorld) -> None:
        epoch = await world.let_in(5)
        world.log.gate.clear()
        fencing = world.begin(world.controller.fence_gone(5, epoch=epoch))
        await settle()

        reply = await world.controller.heartbeat(beat(5, epoch, offset=world.metadata[1].applied_offset))

        assert reply.lease_ms == 0
        world.log.gate.set()
        await fencing

    run(scenario)
