"""Deleting a topic of very many partitions gives the loop back again and again."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

from barnabas.core.groups.offsets import WantedOffset
from barnabas.core.model import TopicPartition
from barnabas.services.broker import Broker
from barnabas.services.served import FORGOTTEN_PER_TURN
from barnabas.wire.apis import OFFSET_COMMIT
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.support import ask, create, run

MANY = 1000
MOST_OFFSETS = 200


async def count_while_deleting(broker: Broker, count: Callable[[], int]) -> list[int]:
    """What is counted in each turn of the loop while the topic is deleted, until it is all gone."""
    counts = [count()]

    async def go_on_counting() -> None:
        while True:
            await asyncio.sleep(0)
            counts.append(count())

    counting = asyncio.create_task(go_on_counting())
    await broker.topics.delete("wide")
    await broker.served.wait_all_removed()
    counting.cancel()
    return counts


def test_the_logs_of_a_wide_topic_are_forgotten_a_few_in_each_turn() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        await Caller(broker).produce("wide", *[batch(b"value")] * MANY).bytes()
        data_dir = broker.logs.data_dir

        counts = await count_while_deleting(broker, lambda: len(data_dir.logs))

        assert counts[0] - counts[-1] == MANY
        assert max(before - after for before, after in pairwise(counts)) <= FORGOTTEN_PER_TURN
        assert not data_dir.disk.exists(f"{data_dir.path}/{TopicPartition('wide', 0)}")

    run(scenario)


def test_the_offsets_of_a_wide_topic_are_forgotten_a_few_in_each_turn() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        await create(broker, "other", 1)
        for group in ("a", "b"):
            await commit(broker, group, "wide", MANY)
        await commit(broker, "a", "other", 1)

        counts = await count_while_deleting(broker, lambda: committed(broker))

        async with asyncio.timeout(20):
            while committed(broker) > 1:
                counts.append(committed(broker))
                await asyncio.sleep(0)
        assert counts[0] == 2 * MANY + 1
        assert max(before - after for before, after in pairwise(counts)) <= MOST_OFFSETS
        (kept,) = await broker.groups.fetch_offsets("a", [WantedOffset("other", 0)], must_be_stable=False)
        assert kept.offset == 7

    run(scenario)


async def commit(broker: Broker, group: str, topic: str, partitions: int) -> None:
    offsets = [{"partition_index": n, "committed_offset": 7, "committed_metadata": ""} for n in range(partitions)]
    await ask(
        broker,
        OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": offsets}],
    )


def committed(broker: Broker) -> int:
    """Offsets of all groups."""
    return sum(
        len(partitions)
        for coordinator in broker.groups._coordinators.available()
        for topics in coordinator.groups.offsets.values()
        for partitions in topics.values()
    )
