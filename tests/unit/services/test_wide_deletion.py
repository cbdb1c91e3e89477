"""Deleting a topic of very many partitions gives the loop back again and again."""

import asyncio
from itertools import pairwise

from barnabas.core.model import TopicPartition
from barnabas.services.broker import Broker
from barnabas.services.served import FORGOTTEN_PER_TURN
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.support import create, run

MANY = 1000


def test_the_logs_of_a_wide_topic_are_forgotten_a_few_in_each_turn() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "wide", MANY)
        await Caller(broker).produce("wide", *[batch(b"value")] * MANY).bytes()
        data_dir = broker.logs.data_dir
        counts = [len(data_dir.logs)]

        async def count() -> None:
            while True:
                await asyncio.sleep(0)
                counts.append(len(data_dir.logs))

        counting = asyncio.create_task(count())
        await broker.topics.delete("wide")
        await broker.served.wait_all_removed()
        counting.cancel()

        assert counts[0] - counts[-1] == MANY
        assert max(before - after for before, after in pairwise(counts)) <= FORGOTTEN_PER_TURN
        assert not data_dir.disk.exists(f"{data_dir.path}/{TopicPartition('wide', 0)}")

    run(scenario)
