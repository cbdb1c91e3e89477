"""A partition that nobody has written to: it is read as empty, and reading makes no files."""

import asyncio

from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import PartitionRecord
from barnabas.services.broker import Broker
from barnabas.testing.disk import SimulatedDisk
from barnabas.wire.apis import (
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_PRODUCERS,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
)
from tests.unit.edge.kafka.calling import Caller
from tests.unit.edge.kafka.fetching.support import fill, values_in, wait_parked
from tests.unit.edge.kafka.producing.transacting import part
from tests.unit.edge.kafka.support import ask, create, run, serving


def test_no_way_of_reading_makes_files() -> None:
    async def main() -> None:
        disk = SimulatedDisk(1)
        async with serving(disk=disk) as broker:
            await create(broker, "t", partitions=2)
            before = disk.list_dir("/data")
            await read_in_every_way(broker)
            assert disk.list_dir("/data") == before
            await fill(broker, "t", b"x")
            assert sorted(set(disk.list_dir("/data")) - set(before)) == ["t-0"]

    asyncio.run(main())


async def read_in_every_way(broker: Broker) -> None:
    caller = Caller(broker)
    for isolation in (0, 1):
        found = await caller.fetched(("t", 0, 0), isolation_level=isolation)
        assert (found.error_code.value, found.records or b"") == (0, b"")
        assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (0, 0, 0)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": each}]} for each in (-1, -2, -3, 5)]
    await ask(broker, LIST_OFFSETS, 11, replica_id=-1, isolation_level=0, topics=topics)
    epochs = [{"topic": "t", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]
    (answer,) = (await ask(broker, OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=epochs)).topics[0].partitions
    assert (answer.error_code.value, answer.leader_epoch, answer.end_offset) == (0, 0, 0)
    deleting = [{"name": "t", "partitions": [{"partition_index": 0, "offset": -1}]}]
    (deleted,) = (await ask(broker, DELETE_RECORDS, 2, topics=deleting, timeout=1000)).topics[0].partitions
    assert (deleted.error_code.value, deleted.low_watermark) == (0, 0)
    await ask(broker, DESCRIBE_PRODUCERS, 0, topics=[{"name": "t", "partition_indexes": [0]}])
    await ask(broker, DESCRIBE_LOG_DIRS, 4, topics=None)
    # A batch of a transaction that no coordinator knows of is refused before there is anything to append it to.
    assert await caller.refusal("t", part(0), transactional_id="nobody") != 0
    partition = broker.served.get_partition("t", 0)
    assert (partition.log_start_offset, partition.last_stable_offset, partition.end_offset) == (0, 0, 0)


def test_a_fetch_waits_at_an_unused_partition_and_hears_of_its_first_record() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        call = Caller(broker).fetch(("t", 0, 0), max_wait_ms=10_000)
        await wait_parked(broker, "t")
        await fill(broker, "t", b"x")
        (found,) = (await call.read()).responses[0].partitions
        assert values_in(found) == [b"x"]

    run(scenario)


def test_an_unused_partition_has_no_offset_but_0_and_no_epoch_but_its_leaders() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        topic_id = broker.image.topics["t"].topic_id

        def lead(image: Image) -> MetadataDecision[None]:
            return MetadataDecision([PartitionRecord(topic_id, 0, (1,), (1,), 1, 3, 3)], None)

        await broker.metadata.commit(lead)
        caller = Caller(broker)
        assert (await caller.fetched(("t", 0, 1))).error_code.value == 1
        # Who has read records under an earlier leader is told that they are gone.
        diverged = await caller.fetched(("t", 0, 5), epochs=(-1, 2))
        assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (2, 0)
        assert (await caller.fetched(("t", 0, 0), epochs=(-1, 3))).error_code.value == 0
        assert (await caller.fetched(("t", 0, 0), epochs=(-1, 4))).error_code.value == 1

    run(scenario)
