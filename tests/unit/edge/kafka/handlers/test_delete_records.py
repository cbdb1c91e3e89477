"""DeleteRecords."""

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import DELETE_RECORDS
from tests.unit.edge.kafka.support import append, ask, create, produce, run


async def delete(broker: Broker, topic: str, offset: int, partition: int = 0) -> tuple[int, int]:
    request = {"topics": [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]}
    (answer,) = (await ask(broker, DELETE_RECORDS, 2, **request)).topics[0].partitions
    assert answer.partition_index == partition
    return answer.error_code.value, answer.low_watermark


def test_records_before_an_offset_go() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1, 2, 3)
        assert await delete(broker, "a", 2) == (0, 2)
        assert broker.served.get_partition("a", 0).log_start_offset == 2
        assert await delete(broker, "a", 1) == (0, 2)

    run(scenario)


@pytest.mark.parametrize("flush_policy", ["fsync", "os"])
def test_all_records_go_up_to_the_high_watermark(flush_policy: str) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", flush_policy=flush_policy)
        await produce(broker, "a", 1, 2, 3)
        assert await delete(broker, "a", -1) == (0, 3)
        await produce(broker, "a", 4)
        assert broker.served.get_partition("a", 0).end_offset == 4

    run(scenario)


def test_nothing_goes_beyond_the_high_watermark() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1)
        append(broker, "a", 2)
        broker.logs.flusher._due.clear()  # a disk that takes its time
        assert await delete(broker, "a", 2) == (1, -1)
        assert await delete(broker, "a", -2) == (1, -1)
        assert await delete(broker, "a", -1) == (0, 1)

    run(scenario, is_virtual=True)


def test_an_empty_partition_has_nothing_to_delete_and_gets_no_log() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        assert await delete(broker, "a", -1) == (0, 0)
        assert await delete(broker, "a", 1) == (1, -1)
        assert not broker.served.get_partition("a", 0).has_log

    run(scenario)


def test_partitions_that_are_not_there_or_only_compacted_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await create(broker, "compacted", cleanup_policy="compact")
        await create(broker, "both", cleanup_policy="compact,delete")
        await create(broker, "__consumer_offsets")
        assert await delete(broker, "not-there", 0) == (3, -1)
        assert await delete(broker, "a", 0, partition=1) == (3, -1)
        assert await delete(broker, "compacted", 0) == (44, -1)
        assert await delete(broker, "both", 0) == (0, 0)
        assert await delete(broker, "__consumer_offsets", 0) == (17, -1)

    run(scenario)
