"""A follower that is throttled while it is not in sync."""

import asyncio

from barnabas.core.replica.throttle import Throttle
from tests.unit.runtime.replicating.replica_support import LEADER, in_loop, replication
from tests.unit.runtime.replicating.test_fetcher import World


def _throttle(world: World, *, rate: int, isr: tuple[int, ...] = (1,)) -> None:
    quota = world.follower.logs.replicas.fetching
    quota.rate = rate
    world.follower.partition.throttle = Throttle(fetching=quota)
    world.follower.partition.follow(0, LEADER, replication(world.follower.node_id, isr=isr))


def test_a_throttled_follower_leaves_a_partition_out_until_it_has_paid_off_what_it_fetched() -> None:
    async def scenario() -> None:
        async with World() as world:
            _throttle(world, rate=10)
            world.leader.append(b"a")
            await world.until(b"a")  # one answer may be more than the rate
            world.leader.append(b"b")
            await asyncio.sleep(2)
            assert world.follower.values == [b"a"]
            assert any(values["forgotten_topics_data"] for values in world.brokers.asked)
            await world.until(b"a", b"b")

    in_loop(scenario)


def test_a_follower_in_sync_is_not_throttled() -> None:
    async def scenario() -> None:
        async with World() as world:
            _throttle(world, rate=0, isr=(1, 2))
            for count in range(1, 4):
                world.leader.append(b"a")
                await world.until(*[b"a"] * count)

    in_loop(scenario)


def test_a_rate_that_is_raised_counts_at_once() -> None:
    async def scenario() -> None:
        async with World() as world:
            _throttle(world, rate=0)
            world.leader.append(b"a")
            await world.until(b"a")
            world.leader.append(b"b")
            await asyncio.sleep(60)
            assert world.follower.values == [b"a"]
            world.follower.logs.replicas.fetching.rate = 10**6
            await world.until(b"a", b"b")

    in_loop(scenario)
