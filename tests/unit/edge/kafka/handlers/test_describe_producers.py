"""DescribeProducers: who wrote to a partition, and who has a transaction open."""

from typing import Any

from barnabas.core.records.control import MarkerType
from barnabas.services.broker import Broker
from barnabas.wire import apis
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.calling import batch
from tests.unit.edge.kafka.support import ask, create, run


async def described(broker: Broker, topic: str, *partitions: int) -> list[Any]:
    topics = [{"name": topic, "partition_indexes": partitions}]
    answer = await ask(broker, apis.DESCRIBE_PRODUCERS, 0, topics=topics)
    assert [each.name for each in answer.topics] == [topic]
    assert [each.partition_index for each in answer.topics[0].partitions] == list(partitions)
    return list(answer.topics[0].partitions)


def write(broker: Broker, producer_id: int, sequence: int, *, is_transactional: bool = False) -> None:
    ids: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 2, "base_sequence": sequence}
    data = batch(b"a", b"b", is_transactional=is_transactional, timestamp=NOW_MS - 5, **ids)
    broker.served.get_partition("t", 0).append(bytearray(data), now_ms=NOW_MS)


def test_producers_are_described_with_the_transactions_they_have_open() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        write(broker, 4, 0)
        write(broker, 5, 0, is_transactional=True)
        write(broker, 6, 0, is_transactional=True)
        broker.served.get_partition("t", 0).append_marker(
            MarkerType.COMMIT, producer_id=6, producer_epoch=3, coordinator_epoch=9, version=2, now_ms=NOW_MS
        )
        (partition,) = await described(broker, "t", 0)
        assert (partition.error_code.value, partition.error_message) == (0, None)
        assert [
            (
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in partition.active_producers
        ] == [(4, 2, 1, NOW_MS - 5, -1, -1), (5, 2, 1, NOW_MS - 5, -1, 2), (6, 3, -1, NOW_MS, 9, -1)]

    run(scenario)


def test_a_partition_that_nobody_wrote_to_has_no_producers_and_gets_no_log() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        (partition,) = await described(broker, "t", 0)
        assert (partition.error_code.value, partition.active_producers) == (0, ())
        assert not broker.served.get_partition("t", 0).has_log

    run(scenario)


def test_what_does_not_exist_is_refused_each_by_itself() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        codes = [each.error_code.value for each in await described(broker, "t", 0, 1, -1)]
        assert codes == [0, 3, 3]
        assert [each.error_code.value for each in await described(broker, "missing", 0)] == [3]
        assert [each.error_code.value for each in await described(broker, "not a name", 0)] == [17]

    run(scenario)


def test_producers_are_described_though_nothing_can_be_written_any_more() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t")
        write(broker, 4, 0)
        broker.logs.data_dir.health.fail(OSError("broken"))
        assert [each.error_code.value for each in await described(broker, "t", 0)] == [0]
        broker.logs.data_dir.health.offline_reason = None

    run(scenario)
