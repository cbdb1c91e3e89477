"""What the tests of fetch share: topics with records in them, and what is in an answer."""

import asyncio
from typing import Any

from barnabas.core.records.batch import iter_whole_batches
from barnabas.core.records.record import decode_batch
from barnabas.services.broker import Broker
from tests.unit.edge.kafka.calling import Caller, batch


def values_in(partition: Any) -> list[bytes | None]:
    """The values of the whole batches that were fetched."""
    records = partition.records or b""
    return [
        record.value
        for position, header in iter_whole_batches(records)
        for record in decode_batch(records[position : position + header.size])
    ]


def partitions_in(response: Any) -> list[Any]:
    return [partition for topic in response.responses for partition in topic.partitions]


async def fill(broker: Broker, topic: str, *values: bytes, partition: int = 0) -> None:
    """Write a batch for each value."""
    for value in values:
        assert await Caller(broker).refusal(topic, batch(value), partition=partition) == 0


def is_parked(broker: Broker, topic: str, partition: int = 0) -> bool:
    return bool(broker.served.get_partition(topic, partition)._growth_waiters)


async def wait_parked(broker: Broker, topic: str, partition: int = 0) -> None:
    while not is_parked(broker, topic, partition):  # noqa: ASYNC110
        await asyncio.sleep(0)
