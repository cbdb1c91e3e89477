"""Limits on how much clients make a node keep: one more is refused with a code, and what is there goes on."""

from typing import Any

import pytest

from barnabas.core.errors import PolicyViolation
from barnabas.core.metadata.topics import NewTopic
from barnabas.services.broker import Broker
from barnabas.wire.apis import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
)
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.support import ask, config_of, create, run

POLICY_VIOLATION = 44


async def commit(broker: Broker, group: str) -> int:
    partition = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
    answer = await ask(
        broker,
        OFFSET_COMMIT,
        9,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "orders", "partitions": [partition]}],
    )
    return int(answer.topics[0].partitions[0].error_code.value)


async def init(broker: Broker, transactional_id: str) -> int:
    answer = await ask(
        broker, INIT_PRODUCER_ID, 4, transactional_id=transactional_id, producer_id=-1, producer_epoch=-1
    )
    return int(answer.error_code.value)


def new_topic(name: str, partitions: int) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}


def test_a_group_too_many_is_refused_and_known_ones_go_on() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "orders")
        assert [await commit(broker, group) for group in ("a", "b")] == [0, 0]
        assert await commit(broker, "c") == POLICY_VIOLATION
        assert await commit(broker, "a") == 0
        joined = await ask(
            broker,
            JOIN_GROUP,
            9,
            group_id="d",
            member_id="",
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
        assert int(joined.error_code.value) == POLICY_VIOLATION

    run(scenario, config_of(max_groups="2"))


def test_a_transactional_id_too_many_is_refused_and_known_ones_go_on() -> None:
    async def scenario(broker: Broker) -> None:
        assert [await init(broker, name) for name in ("a", "b")] == [0, 0]
        assert await init(broker, "c") == POLICY_VIOLATION
        assert await init(broker, "b") == 0

    run(scenario, config_of(max_transactional_ids="2"))


def test_partitions_beyond_those_of_the_cluster_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "orders", 3)
        answer = await ask(broker, CREATE_TOPICS, 7, topics=[new_topic("more", 3)])
        assert int(answer.topics[0].error_code.value) == POLICY_VIOLATION
        assert "max.partitions" in answer.topics[0].error_message
        grown = await ask(broker, CREATE_PARTITIONS, 3, topics=[{"name": "orders", "count": 6, "assignments": None}])
        assert int(grown.results[0].error_code.value) == POLICY_VIOLATION
        named = await ask(
            broker,
            METADATA,
            12,
            topics=[{"topic_id": None, "name": name} for name in ("x", "y", "z")],
            allow_auto_topic_creation=True,
        )
        assert sorted(int(each.error_code.value) for each in named.topics) == [0, 0, POLICY_VIOLATION]
        await broker.topics.delete("orders")
        await create(broker, "more", 3)
        assert broker.image.partition_count == 5

    run(scenario, config_of(max_partitions="5"))


def test_topics_of_the_broker_itself_are_created_beyond_the_limit() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "orders", 1)
        assert await commit(broker, "a") == 0
        with pytest.raises(PolicyViolation):
            await broker.topics.create(NewTopic("more", 1, 1))

    run(scenario, config_of(max_partitions="1"))


def test_an_idempotent_producer_too_many_is_refused_and_known_ones_go_on() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "orders")
        caller = Caller(broker)

        async def produce(producer_id: int, sequence: int) -> int:
            data = batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            return await caller.refusal("orders", data)

        assert [await produce(1, 0), await produce(2, 0)] == [0, 0]
        assert await produce(3, 0) == POLICY_VIOLATION
        assert await produce(1, 1) == 0

    run(scenario, config_of(max_producer_ids_per_partition="2"))
