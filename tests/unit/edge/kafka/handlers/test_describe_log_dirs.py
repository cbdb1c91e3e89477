"""DescribeLogDirs."""

import asyncio
from pathlib import Path

from barnabas.runtime.disk import OsDisk
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_LOG_DIRS
from tests.unit.edge.kafka.support import ask, create, produce, run, serving


def test_partitions_are_listed_with_their_sizes_and_the_room_that_is_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(disk=OsDisk(), path=f"{tmp_path}/data") as broker:
            await create(broker, "a", 2)
            await produce(broker, "a", 1)
            (log_dir,) = (await ask(broker, DESCRIBE_LOG_DIRS, 5, topics=None)).results
            assert (log_dir.error_code.value, log_dir.log_dir) == (0, f"{tmp_path}/data")
            (topic,) = log_dir.topics
            written, empty = topic.partitions
            assert (written.partition_size, written.offset_lag, written.is_future_key) == (
                broker.served.get_partition("a", 0).log.size,
                0,
                False,
            )
            assert (empty.partition_index, empty.partition_size) == (1, 0)
            assert 0 < log_dir.usable_bytes <= log_dir.total_bytes

    asyncio.run(scenario())


def test_only_partitions_that_are_asked_for_and_there_are_listed() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 3)
        wanted = [{"topic": "a", "partitions": (2, 7)}, {"topic": "not-there", "partitions": (0,)}]
        (log_dir,) = (await ask(broker, DESCRIBE_LOG_DIRS, 1, topics=wanted)).results
        assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in log_dir.topics] == [
            ("a", [2])
        ]

    run(scenario)


def test_an_offline_directory_is_answered_as_such() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        broker.logs.data_dir.health.offline_reason = "the disk is gone"
        answer = await ask(broker, DESCRIBE_LOG_DIRS, 4, topics=None)
        broker.logs.data_dir.health.offline_reason = None
        assert answer.error_code.value == 0
        assert [(each.error_code.value, each.topics) for each in answer.results] == [(56, ())]

    run(scenario)
