"""Groups on a whole node and virtual time: what waits, what times out, and what a crash leaves."""

import asyncio

import pytest

from tests.unit.services.group_world import SESSION_MS, GroupClient, GroupWorld, Joined, run_world

ENDS = ["stop", "kill", "power cut", "torn power cut"]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A simulated crash is logged as the error it would be anywhere else."""
    caplog.set_level("CRITICAL")


async def pair(world: GroupWorld) -> tuple[GroupClient, GroupClient, Joined, Joined]:
    """Two members of one stable generation, each on a connection of its own; the first one leads."""
    one, two = await world.connect(), await world.connect()
    first = await one.join()
    await one.sync(first, {first.member_id: b"all"})
    joining = asyncio.create_task(two.join())
    await asyncio.sleep(1)
    assert await one.heartbeat(first) == 27
    first = await one.join(first.member_id)
    second = await joining
    assert {each.member_id for each in first.members} == {first.member_id, second.member_id}
    syncing = asyncio.create_task(two.sync(second))
    await asyncio.sleep(1)
    assert not syncing.done()
    shares = {first.member_id: b"one", second.member_id: b"two"}
    assert (await one.sync(first, shares)).assignment == b"one"
    assert (await syncing).assignment == b"two"
    return one, two, first, second


def test_two_members_share_a_generation() -> None:
    async def scenario(world: GroupWorld) -> None:
        one, two, first, second = await pair(world)
        assert await one.heartbeat(first) == await two.heartbeat(second) == 0
        assert await one.state() == ("Stable", 2)

    run_world(scenario)


def test_a_new_group_waits_for_more_members() -> None:
    async def scenario(world: GroupWorld) -> None:
        clients = [await world.connect() for _ in range(3)]
        joining = [asyncio.create_task(client.join()) for client in clients]
        await asyncio.sleep(2.9)
        assert not any(each.done() for each in joining)
        joined = [await each for each in joining]
        assert {each.generation_id for each in joined} == {1}
        assert sorted(len(each.members) for each in joined) == [0, 0, 3]

    run_world(scenario, group_initial_rebalance_delay_ms="3000")


def test_a_silent_member_is_dropped_when_its_session_ends() -> None:
    async def scenario(world: GroupWorld) -> None:
        one, _, first, second = await pair(world)
        for _ in range(SESSION_MS // 2000 + 1):
            code = await one.heartbeat(first)
            await asyncio.sleep(2)
        assert code == 27
        again = await one.join(first.member_id)
        assert [each.member_id for each in again.members] == [again.member_id]
        assert again.generation_id == second.generation_id + 1

    run_world(scenario)


def test_a_member_whose_connection_is_lost_while_it_joins_is_dropped_in_time() -> None:
    async def scenario(world: GroupWorld) -> None:
        one, two = await world.connect(), await world.connect()
        first = await one.join()
        await one.sync(first, {first.member_id: b"all"})
        joining = asyncio.create_task(two.join())
        await asyncio.sleep(1)
        two.wire.close()
        with pytest.raises(ConnectionError):
            await joining
        first = await one.join(first.member_id)
        assert len(first.members) == 2
        await one.sync(first, {first.member_id: b"all"})
        for _ in range(20):
            await asyncio.sleep(2)
            if await one.heartbeat(first) == 27:
                break
        first = await one.join(first.member_id)
        assert len(first.members) == 1

    run_world(scenario)


@pytest.mark.parametrize("how", ENDS)
def test_a_group_goes_on_after_a_restart(how: str) -> None:
    async def scenario(world: GroupWorld) -> None:
        _, _, first, second = await pair(world)
        await world.restart(how=how)
        client = await world.connect()
        assert await client.state() == ("Stable", 2)
        assert await client.heartbeat(first) == await client.heartbeat(second) == 0
        assert (await client.sync(second)).assignment == b"two"
        await asyncio.sleep(SESSION_MS / 1000 + 40)
        assert await client.state() == ("Empty", 0)

    run_world(scenario)


@pytest.mark.parametrize("how", ENDS)
def test_a_consumer_group_goes_on_after_a_restart(how: str) -> None:
    async def scenario(world: GroupWorld) -> None:
        client = await world.connect()
        await client.create_topic("t", 2)
        joined = await client.beat(0)
        assert [each.partitions for each in joined.assignment.topic_partitions] == [(0, 1)]
        await world.restart(how=how)
        client = await world.connect()
        assert (await client.beat(joined.member_epoch)).error_code == 0
        await asyncio.sleep(46)
        assert (await client.beat(joined.member_epoch)).error_code == 25

    run_world(scenario)


def test_a_group_with_settings_of_its_own_goes_by_them_over_a_restart_too() -> None:
    async def scenario(world: GroupWorld) -> None:
        client = await world.connect()
        await client.create_topic("t")
        await client.set_config("g", "consumer.session.timeout.ms", "60000")
        await client.set_config("g", "consumer.heartbeat.interval.ms", "7000")
        own, other = await client.beat(0), await client.beat(0, group="other")
        assert (own.heartbeat_interval.total_seconds(), other.heartbeat_interval.total_seconds()) == (7, 5)
        for restarted in (False, True):
            if restarted:
                await world.restart(how="power cut")
                client = await world.connect()
                other = await client.beat(0, group="other")
            await asyncio.sleep(59)
            assert (await client.beat(own.member_epoch)).error_code == 0
            assert (await client.beat(other.member_epoch, group="other")).error_code == 25
        await asyncio.sleep(61)
        assert (await client.beat(own.member_epoch)).error_code == 25

    run_world(scenario)


def test_a_group_is_assigned_anew_when_its_node_comes_back_in_another_rack() -> None:
    async def scenario(world: GroupWorld) -> None:
        client = await world.connect()
        await client.create_topic("t", 3)
        await client.beat(0, member_id="m1", rack="a")
        epoch = (await client.beat(0, member_id="m2", rack="b")).member_epoch
        assert (await client.beat(1, member_id="m1")).error_code == 0
        assert (await client.beat(1, member_id="m1", owns=())).member_epoch == epoch
        await world.restart(how="stop", broker_rack="b")
        client = await world.connect()
        after = await client.beat(epoch, member_id="m2")
        assert after.member_epoch > epoch

    run_world(scenario, broker_rack="a")


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("seed", range(5))
def test_no_acknowledged_commit_is_lost_or_moved_back(how: str, seed: int) -> None:
    async def scenario(world: GroupWorld) -> None:
        random = world.simulation.random("commits")
        client = await world.connect()
        await client.create_topic("t")
        sent = {"g": 0, "h": 0}
        acked = dict.fromkeys(sent, 0)

        async def commit_on(group: str) -> None:
            mine = await world.connect()
            while True:
                sent[group] += 1
                if await mine.commit(sent[group], group=group) == 0:
                    acked[group] = sent[group]

        for _ in range(4):
            committing = [asyncio.create_task(commit_on(group)) for group in sent]
            await asyncio.sleep(random.uniform(0.001, 0.2))
            await world.restart(how=how)
            await asyncio.gather(*committing, return_exceptions=True)
            client = await world.connect()
            for group, last in list(sent.items()):
                found = await client.fetch(group=group)
                assert acked[group] <= found <= last
                assert found > 0
                acked[group] = sent[group] = found

    run_world(scenario, seed=seed)


def test_offsets_that_nobody_uses_expire() -> None:
    async def scenario(world: GroupWorld) -> None:
        client = await world.connect()
        await client.create_topic("t")
        joined = await client.join(group="used")
        await client.sync(joined, {joined.member_id: b""}, group="used")
        assert await client.commit(5) == 0
        assert await client.commit(6, group="used", joined=joined) == 0
        for _ in range(20):
            await asyncio.sleep(4)
            assert await client.heartbeat(joined, group="used") == 0
        assert (await client.fetch(), await client.fetch(group="used")) == (-1, 6)
        assert await client.state() == ("Dead", 0)

    run_world(scenario, offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")


def test_a_join_that_waits_does_not_hold_up_a_stop() -> None:
    async def scenario(world: GroupWorld) -> None:
        one = await world.connect()
        joining = asyncio.create_task(one.join())
        await asyncio.sleep(1)
        began = asyncio.get_running_loop().time()
        await world.stop()
        assert asyncio.get_running_loop().time() - began < 1
        await asyncio.gather(joining, return_exceptions=True)  # with the process goes the network
        await world.start()

    run_world(scenario, group_initial_rebalance_delay_ms="60000")


def test_groups_are_gone_with_their_topic_and_whoever_waits_is_told() -> None:
    async def scenario(world: GroupWorld) -> None:
        one, two, first, _ = await pair(world)
        joining = asyncio.create_task(one.join(first.member_id))
        await asyncio.sleep(1)
        assert world._node is not None
        assert world._node.broker is not None
        await world._node.broker.topics.delete("__consumer_offsets")
        assert (await joining).error_code == 16
        assert await two.state() == ("Dead", 0)
        assert (await one.join()).error_code == 0

    run_world(scenario, internal_topics_alter_enable="true")
