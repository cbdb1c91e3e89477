"""Deleting a topic of very many partitions gives the loop back again and again, and so does the end of old offsets."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import TypeVar

from barnabas.core.groups.offsets import WantedOffset
from barnabas.core.model import TopicPartition
from barnabas.services.broker import Broker
from barnabas.services.committing import OFFSETS_PER_TURN
from barnabas.services.served import FORGOTTEN_PER_TURN
from barnabas.wire.apis import OFFSET_COMMIT
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.support import ask, create, run

T = TypeVar("T")

MANY = 1000
EXPIRES_AT_ONCE = 0  # milliseconds
MOST_OFFSETS = 200


async def count_while_deleting(broker: Broker, count: Callable[[], int]) -> list[int]:
    """What is counted in each turn of the loop while the topic is deleted, until it is all gone."""

    async def delete() -> None:
        await broker.topics.delete("wide")
        await broker.served.wait_all_removed()

    return (await count_meanwhile(delete, count))[1]


async def count_meanwhile(work: Callable[[], Awaitable[T]], count: Callable[[], int]) -> tuple[T, list[int]]:
    """What some work gives, and what is counted in each turn of the loop until it is done."""
    counts = [count()]

    async def go_on_counting() -> None:
        while True:
            await asyncio.sleep(0)
            counts.append(count())

    counting = asyncio.create_task(go_on_counting())
    result = await work()
    counting.cancel()
    return result, [*counts, count()]


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

        async with asyncio.timeout(60):
            while committed(broker) > 1:
                counts.append(committed(broker))
                await asyncio.sleep(0)
        assert counts[0] == 2 * MANY + 1
        assert max(before - after for before, after in pairwise(counts)) <= MOST_OFFSETS
        (kept,) = await broker.groups.fetch_offsets("a", [WantedOffset("other", 0)], must_be_stable=False)
        assert kept.offset == 7

    run(scenario)


def test_offsets_that_expire_are_removed_a_few_in_each_decision() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        await commit(broker, "old", "wide", MANY, version=4, retention_time=EXPIRES_AT_ONCE)
        await commit(broker, "new", "wide", 3)

        removed, counts = await count_meanwhile(broker.groups.expire_offsets, lambda: committed(broker))

        assert removed == MANY
        assert counts[-1] == 3
        assert max(before - after for before, after in pairwise(counts)) <= OFFSETS_PER_TURN
        assert [listed.group for listed in await broker.groups.list_groups()] == ["new"]

    run(scenario)


async def commit(broker: Broker, group: str, topic: str, partitions: int, *, version: int = 8, **more: int) -> None:
    offsets = [{"partition_index": n, "committed_offset": 7, "committed_metadata": ""} for n in range(partitions)]
    await ask(
        broker,
        OFFSET_COMMIT,
        version,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": offsets}],
        **more,
    )


def committed(broker: Broker) -> int:
    """Offsets of all groups."""
    return sum(
        len(partitions)
        for coordinator in broker.groups._coordinators.available()
        for topics in coordinator.groups.offsets.values()
        for partitions in topics.values()
    )
