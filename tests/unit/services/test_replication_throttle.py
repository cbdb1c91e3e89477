"""A leader that holds back replicas that are not in sync, and nobody else."""

import asyncio

from barnabas.services.settings import TopicConfig
from barnabas.storage.config import FlushPolicy, LogConfig
from tests.unit.services.round_world import RoundWorld, run
from tests.unit.services.test_resting_partitions import Follower

THROTTLED = TopicConfig(log=LogConfig(flush_policy=FlushPolicy.FSYNC), leader_throttled_replicas=("0:1", "1:1"))


def begin(world: RoundWorld, *, rate: int) -> Follower:
    """A follower that is in sync in partition 2 only; 0 and 1 are throttled."""
    follower = Follower(world, 3)
    world.replicate("t", 2, isr=(1,), partition_epoch=1)
    world.alter("t", THROTTLED)
    world.partition("t")._logs.replicas.sending.rate = rate
    follower.answer(follower.begin(follower.all))
    return follower


def test_a_throttled_partition_is_skipped_until_it_is_paid_off_and_others_are_not() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = begin(world, rate=1)
        size = world.write("t", b"a", partition=0)
        assert await follower.poll() == [0]  # one answer may be more than the rate
        world.write("t", b"b", partition=0)
        world.write("t", b"b", partition=1)
        world.write("t", b"b", partition=2)
        assert await follower.poll({0: 1}) == [2]
        assert await follower.poll({2: 1}) == []  # it waits, and is told nothing
        await asyncio.sleep(size)
        assert set(await follower.poll()) >= {0, 1}

    run(scenario)


def test_a_replica_that_comes_to_be_in_sync_is_no_longer_throttled() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = begin(world, rate=0)
        world.write("t", b"a")
        assert await follower.poll() == []
        world.replicate("t", 1, partition_epoch=2)
        assert await follower.poll() == [0]

    run(scenario)


def test_what_a_topic_does_not_name_any_more_is_not_throttled() -> None:
    async def scenario(world: RoundWorld) -> None:
        follower = begin(world, rate=0)
        world.write("t", b"a")
        assert await follower.poll() == []
        world.alter("t", TopicConfig(log=THROTTLED.log))
        assert await follower.poll() == [0]

    run(scenario)
