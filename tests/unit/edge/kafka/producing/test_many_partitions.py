"""A produce for very many partitions takes turns with everything else, and is answered as any other."""

import asyncio
from typing import Any

import pytest
from kio.index import load_request_schema

from barnabas.edge.kafka.producing import RefusedUnanswered
from barnabas.services.broker import Broker
from barnabas.services.produce_round import MAX_AT_ONCE
from barnabas.wire.apis import PRODUCE
from tests.unit.edge.kafka.calling import NAMED, Call, Caller, batch, frame_of
from tests.unit.edge.kafka.holding import MAX_FREED, Held
from tests.unit.edge.kafka.producing.transacting import ID, part, with_admission
from tests.unit.edge.kafka.support import build, create, run
from tests.unit.wire.kio_values import encode

MANY = 2000
MAX_CALLS = 12_000
BATCH = batch(b"value")
TOPIC = "wide"
UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_ID_MAPPING = 3, 49


def frame(topics: dict[str, range], *, acks: int = -1, records: bytes = BATCH, **fields: Any) -> bytes:
    data = [
        {"name": name, "partition_data": [{"index": index, "records": records} for index in indexes]}
        for name, indexes in topics.items()
    ]
    values = {"acks": acks, "timeout": 30_000, "topic_data": data, **fields}
    return frame_of(PRODUCE, NAMED, encode(build(load_request_schema(PRODUCE.key, NAMED), values)))


def send(caller: Caller, topics: dict[str, range], **fields: Any) -> Call:
    return caller.send(frame(topics, **fields))


@pytest.mark.parametrize(
    "topics",
    [
        {TOPIC: range(MANY)},
        {TOPIC: range(MANY, 3 * MANY)},
        {f"none-{number}": range(1) for number in range(3 * MANY)},
    ],
    ids=["first writes", "no such partitions", "no such topics"],
)
def test_the_loop_is_given_back_again_and_again(topics: dict[str, range]) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, TOPIC, MANY)
        caller = Caller(broker)
        await send(caller, {"none": range(MAX_AT_ONCE + 1)}).bytes()  # so that caches are filled

        request = frame(topics)

        with Held() as held:
            await caller.send(request).bytes()

        assert held.longest < MAX_CALLS
        assert held.freed < MAX_FREED, held.freed
        assert held.turns > MANY // 100

    run(scenario)


def test_every_partition_is_answered_in_the_order_of_the_request() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 200)
        await create(broker, "b", 150)
        caller = Caller(broker)
        topics = {"a": range(205), "none": range(3), "b": range(150)}

        first, second = await send(caller, topics).read(), await send(caller, topics).read()

        for offset, response in enumerate((first, second)):
            assert [topic.name for topic in response.responses] == list(topics)
            assert [[each.index for each in topic.partition_responses] for topic in response.responses] == [
                list(indexes) for indexes in topics.values()
            ]
            told = [
                (int(each.error_code.value), each.base_offset) for each in response.responses[0].partition_responses
            ]
            assert told == [(0, offset)] * 200 + [(UNKNOWN_TOPIC_OR_PARTITION, -1)] * 5
            assert {each.error_code.value for each in response.responses[1].partition_responses} == {3}
            assert {each.base_offset for each in response.responses[2].partition_responses} == {offset}

    run(scenario)


def test_a_topic_that_is_deleted_meanwhile_takes_no_more() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, TOPIC, MANY)
        caller = Caller(broker)

        call = send(caller, {TOPIC: range(MANY)})
        await asyncio.sleep(0)
        await broker.topics.delete(TOPIC)
        response = await call.read()

        codes = [int(each.error_code.value) for each in response.responses[0].partition_responses]
        assert len(codes) == MANY
        assert codes[-1] == UNKNOWN_TOPIC_OR_PARTITION

    run(scenario)


def test_without_acks_there_is_no_answer_unless_something_is_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, TOPIC, 200)
        caller = Caller(broker)

        assert await send(caller, {TOPIC: range(200)}, acks=0).bytes() == b""
        assert broker.served.get_partition(TOPIC, 199).end_offset == 1
        with pytest.raises(RefusedUnanswered):
            await send(caller, {TOPIC: range(201)}, acks=0).bytes()
        assert broker.served.get_partition(TOPIC, 199).end_offset == 2

    run(scenario)


def test_a_transaction_may_have_very_many_partitions() -> None:
    async def scenario(broker: Broker) -> None:
        admission = with_admission(broker)
        await create(broker, TOPIC, 300)
        caller = Caller(broker)

        response = await send(caller, {TOPIC: range(300)}, records=part(0, b"value"), transactional_id=ID).read()

        answers = response.responses[0].partition_responses
        assert [(int(each.error_code.value), each.base_offset) for each in answers] == [(0, 0)] * 300
        assert sum(len(partitions) for _, _, _, partitions, _ in admission.asked) == 300
        assert len(admission.asked) < 5

    run(scenario)


def test_two_producers_in_one_transaction_are_refused_and_nothing_is_written() -> None:
    async def scenario(broker: Broker) -> None:
        with_admission(broker)
        await create(broker, TOPIC, 300)
        batches = [part(0, b"value")] * 299 + [part(0, b"value", producer_id=8)]

        response = await Caller(broker).produce(TOPIC, *batches, transactional_id=ID).read()

        answers = response.responses[0].partition_responses
        assert [int(each.error_code.value) for each in answers] == [INVALID_PRODUCER_ID_MAPPING] * 300
        assert not broker.served.get_partition(TOPIC, 0).has_log

    run(scenario)
