"""Fetch on a whole broker: answers of no more bytes than they may have, from memory or from disk."""

import asyncio
from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.storage.disk import Disk
from barnabas.testing.disk import SimulatedDisk
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.fetching.support import fill, partitions_in, values_in
from tests.unit.edge.kafka.support import config_of, create, run, serving


def test_a_batch_larger_than_every_limit_still_comes() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        await fill(broker, "t", b"x" * 1000, b"y")
        for limits in ({"partition_max_bytes": 1}, {"max_bytes": 1}, {"partition_max_bytes": 0}, {"max_bytes": -5}):
            assert values_in(await Caller(broker).fetched(("t", 0, 0), **limits)) == [b"x" * 1000]

    run(scenario)


@pytest.mark.parametrize("is_cold", [False, True], ids=["memory", "disk"])
def test_only_the_first_batch_of_an_answer_may_be_over_the_limit(is_cold: bool) -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        wanted = [("t", n, 0) for n in range(4)]
        response = await caller.fetch(*wanted, partition_max_bytes=10).read()
        sizes = [len(each.records) for each in partitions_in(response)]
        assert sizes[0] > 1000
        assert sizes[1:] == [0, 0, 0]
        response = await caller.fetch(*wanted, max_bytes=1500).read()
        sizes = [len(each.records) for each in partitions_in(response)]
        assert sizes[0] > 1000
        assert sum(sizes) <= 1500
        response = await caller.fetch(*wanted).read()
        assert all(len(each.records) > 1000 for each in partitions_in(response))

    run_warm_or_cold(scenario, is_cold=is_cold)


def run_warm_or_cold(scenario: Any, *, is_cold: bool) -> None:
    """Run with a topic of four partitions with a batch each, in memory or only on disk."""

    async def main() -> None:
        disk: Disk = SimulatedDisk(3)
        async with serving(disk=disk) as broker:
            await create(broker, "t", partitions=4)
            for n in range(4):
                await fill(broker, "t", b"x" * 1000, partition=n)
            if not is_cold:
                await scenario(broker)
                return
            broker.logs.data_dir.close()
        async with serving(disk=disk) as broker:
            await scenario(broker)

    asyncio.run(main())


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_cold_records_are_read_by_a_thread(isolation_level: int) -> None:
    async def scenario(broker: Broker) -> None:
        ran = []
        offload = broker.fetch._offload

        class Counting:
            async def run(self, function: Any) -> Any:
                ran.append(1)
                return await offload.run(function)

        broker.fetch._offload = Counting()
        partition = await Caller(broker).fetched(("t", 2, 0), isolation_level=isolation_level)
        assert values_in(partition) == [b"x" * 1000]
        assert ran

    run_warm_or_cold(scenario, is_cold=True)


def test_a_disk_that_cannot_be_read_is_told_for_its_partition_only() -> None:
    async def scenario(broker: Broker) -> None:
        caller = Caller(broker)
        disk = broker.logs.data_dir._disk
        assert isinstance(disk, SimulatedDisk)
        disk.fail_read(lambda path: path.endswith(".log"))
        call = caller.fetch(("t", 0, 0), ("missing", 0, 0), max_wait_ms=0)
        response = await call.read()
        codes = [each.error_code.value for each in partitions_in(response)]
        assert codes == [56, 3]
        broker.logs.data_dir.health.offline_reason = None

    run_warm_or_cold(scenario, is_cold=True)


@pytest.mark.parametrize("is_cold", [False, True], ids=["memory", "disk"])
def test_what_is_on_disk_is_read_when_nothing_can_be_written_any_more(is_cold: bool) -> None:
    async def scenario(broker: Broker) -> None:
        broker.logs.data_dir.health.fail(OSError("broken"))
        assert values_in(await Caller(broker).fetched(("t", 0, 0))) == [b"x" * 1000]
        assert await Caller(broker).refusal("t", batch(b"y")) == 56
        broker.logs.data_dir.health.offline_reason = None

    run_warm_or_cold(scenario, is_cold=is_cold)


def test_the_brokers_own_limit_counts_too() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", partitions=3)
        for n in range(3):
            await fill(broker, "t", b"x" * 900, partition=n)
        response = await Caller(broker).fetch(*[("t", n, 0) for n in range(3)]).read()
        sizes = [len(each.records) for each in partitions_in(response)]
        assert sizes[0] > 900
        assert sum(sizes) <= 1024

    run(scenario, config_of(fetch_max_bytes="1024"))
