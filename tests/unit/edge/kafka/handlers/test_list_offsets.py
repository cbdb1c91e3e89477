"""ListOffsets and OffsetForLeaderEpoch."""

from dataclasses import replace

import pytest

from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import PartitionRecord
from barnabas.core.records.record import Record, encode_batch
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.list_offsets import handle
from barnabas.services.broker import Broker
from barnabas.wire.apis import LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from tests.support.ports import NOW_MS
from tests.unit.edge.kafka.support import append, ask, create, new_session, produce, run, through_bytes

LATEST, EARLIEST, NEWEST, LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6


async def offset_of(
    broker: Broker, timestamp: int, *, version: int = 11, isolation: int = 0, topic: str = "a", epoch: int = -1
) -> tuple[int, ...]:
    partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": epoch}
    request = {"replica_id": -1, "isolation_level": isolation, "topics": [{"name": topic, "partitions": [partition]}]}
    (answer,) = (await ask(broker, LIST_OFFSETS, version, **request)).topics[0].partitions
    return answer.error_code.value, answer.offset, answer.timestamp, getattr(answer, "leader_epoch", -1)


async def lead_in(broker: Broker, epoch: int, *, replicas: tuple[int, ...] = (1,)) -> None:
    topic_id = broker.image.topics["a"].topic_id

    def lead(image: Image) -> MetadataDecision[None]:
        return MetadataDecision([PartitionRecord(topic_id, 0, replicas, (1,), 1, epoch, epoch)], None)

    await broker.metadata.commit(lead)


@pytest.mark.parametrize("version", [1, 4, 11])
def test_the_first_and_the_last_offset(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1000, 2000, 1500)
        epoch = -1 if version < 4 else 0
        assert await offset_of(broker, LATEST, version=version) == (0, 3, -1, epoch)
        assert await offset_of(broker, EARLIEST, version=version) == (0, 0, -1, epoch)

    run(scenario)


def test_offsets_by_time() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1000, 3000, 2000)
        assert await offset_of(broker, 0) == (0, 0, 1000, 0)
        assert await offset_of(broker, 1500) == (0, 1, 3000, 0)
        assert await offset_of(broker, 3001) == (0, -1, -1, -1)
        assert await offset_of(broker, NEWEST) == (0, 1, 3000, 0)

    run(scenario)


def test_an_empty_partition_is_answered_and_gets_no_log() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        assert await offset_of(broker, LATEST) == (0, 0, -1, 0)
        assert await offset_of(broker, EARLIEST) == (0, 0, -1, -1)
        assert await offset_of(broker, 5) == await offset_of(broker, NEWEST) == (0, -1, -1, -1)
        assert not broker.served.get_partition("a", 0).has_log

    run(scenario)


def test_nobody_hears_of_records_that_are_not_durable_yet() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1000)
        partition = broker.served.get_partition("a", 0)
        append(broker, "a", 2000)
        broker.logs.flusher._due.clear()  # a disk that takes its time
        assert partition.end_offset == 2
        assert await offset_of(broker, LATEST) == (0, 1, -1, 0)
        assert await offset_of(broker, 1500) == await offset_of(broker, NEWEST) == (0, -1, -1, -1)

    run(scenario, is_virtual=True)


def test_a_read_committed_client_hears_of_nothing_in_an_open_transaction() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1000)
        partition = broker.served.get_partition("a", 0)
        open_batch = encode_batch(
            [Record(0, 2000, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        partition.append(bytearray(open_batch), now_ms=NOW_MS)
        await broker.logs.flusher.wait_flushed(partition.log, partition.end_offset)
        assert await offset_of(broker, LATEST) == (0, 2, -1, 0)
        assert await offset_of(broker, LATEST, isolation=1) == (0, 1, -1, 0)
        assert await offset_of(broker, 1500) == (0, 1, 2000, 0)
        assert await offset_of(broker, 1500, isolation=1) == (0, -1, -1, -1)

    run(scenario)


def test_there_is_no_second_tier() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1000)
        assert await offset_of(broker, LOCAL) == await offset_of(broker, EARLIEST)
        assert await offset_of(broker, TIERED) == await offset_of(broker, PENDING) == (0, -1, -1, -1)

    run(scenario)


@pytest.mark.parametrize(("timestamp", "version"), [(NEWEST, 6), (LOCAL, 7), (TIERED, 8), (PENDING, 10), (-7, 11)])
def test_what_a_version_does_not_know_is_refused(timestamp: int, version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        assert (await offset_of(broker, timestamp, version=version))[0] == 35

    run(scenario)


def test_unknown_partitions_and_other_epochs_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await lead_in(broker, 2)
        assert (await offset_of(broker, LATEST, topic="not-there"))[:2] == (3, -1)
        assert (await offset_of(broker, LATEST, epoch=1))[:2] == (74, -1)
        assert (await offset_of(broker, LATEST, epoch=3))[:2] == (75, -1)
        assert await offset_of(broker, LATEST, epoch=2) == (0, 0, -1, 2)

    run(scenario)


def test_a_partition_that_is_asked_for_twice_is_refused_once() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 2)
        partitions = [{"partition_index": index, "timestamp": LATEST} for index in (0, 1, 0)]
        topics = [{"name": "a", "partitions": partitions}]
        answer = await ask(broker, LIST_OFFSETS, 5, replica_id=-1, topics=topics)
        (topic,) = answer.topics
        assert [(each.partition_index, each.error_code.value) for each in topic.partitions] == [(0, 42), (1, 0)]

    run(scenario)


async def end_of(broker: Broker, epoch: int, *, current: int = -1, partition: int = 0) -> tuple[int, int, int]:
    wanted = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
    topics = [{"topic": "a", "partitions": [wanted]}]
    (answer,) = (await ask(broker, OFFSET_FOR_LEADER_EPOCH, 4, topics=topics)).topics[0].partitions
    return answer.error_code.value, answer.leader_epoch, answer.end_offset


def test_where_epochs_ended() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        assert await end_of(broker, 0) == (0, 0, 0)
        await produce(broker, "a", 1000, 2000)
        await lead_in(broker, 3)
        await produce(broker, "a", 3000)
        assert await end_of(broker, 0) == (0, 0, 2)
        assert await end_of(broker, 2) == (0, 0, 2)
        assert await end_of(broker, 3) == (0, 3, 3)
        assert await end_of(broker, 4) == (0, -1, -1)

    run(scenario)


def test_an_epoch_in_which_nothing_was_written_ends_where_the_log_does() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await produce(broker, "a", 1000)
        await lead_in(broker, 5)
        assert await end_of(broker, 5) == (0, 5, 1)
        assert await end_of(broker, 3) == (0, 0, 1)
        assert await end_of(broker, 6) == (0, -1, -1)

    run(scenario)


def test_epochs_are_asked_of_partitions_that_are_there_by_clients_that_know_their_leader() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        assert await end_of(broker, 0, partition=9) == (3, -1, -1)
        assert await end_of(broker, 0, current=1) == (75, -1, -1)

    run(scenario)


class FakeLease:
    """A lease that is there or not."""

    def __init__(self, *, is_held: bool) -> None:
        self._is_held = is_held

    def holds(self) -> bool:
        return self._is_held


@pytest.mark.parametrize(
    ("replicas", "is_held", "leased"),
    [((1, 2), True, 1), ((1, 2), False, 2), ((1,), False, 1)],
    ids=["held", "lost", "nobody else can lead"],
)
def test_who_asks_is_told_whether_nobody_else_leads(replicas: tuple[int, ...], is_held: bool, leased: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await lead_in(broker, 1, replicas=replicas)
        broker.logs.replicas.lease = FakeLease(is_held=is_held)  # type: ignore[assignment]
        partition = {"partition_index": 0, "timestamp": EARLIEST, "current_leader_epoch": -1}
        request = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "a", "partitions": [partition]}]}
        for version in (5, 11):
            entity, asked = through_bytes(LIST_OFFSETS, version, request), Asked(version, new_session())
            assert "leased" not in await handle(broker, entity, asked)  # it did not ask, and in version 5 cannot
        answer = await handle(broker, replace(entity, wants_lease=1), asked)
        assert answer["leased"] == leased

    run(scenario)
