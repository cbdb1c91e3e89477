"""The topics in which the broker keeps its own state: no request of a client loses what is in them."""

from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import (
    ALTER_CONFIGS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_GROUPS,
    OFFSET_COMMIT,
)
from tests.unit.edge.kafka.support import ask, config_of, create, run

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
TOPIC = 2
POLICY_VIOLATION = 44
ALLOWED = config_of(internal_topics_alter_enable="true")


async def prepare(broker: Broker) -> None:
    """A group with a committed offset, and a coordinator of transactions."""
    await create(broker, "a")
    assert await committed(broker) == 0
    await ask(broker, FIND_COORDINATOR, 3, key="t", key_type=1)
    assert await groups(broker) == ["g"]


async def committed(broker: Broker) -> int:
    """Commit an offset; the error code of the answer."""
    partitions = [{"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1}]
    request = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": "a", "partitions": partitions}],
    }
    answer = await ask(broker, OFFSET_COMMIT, 8, **request)
    return int(answer.topics[0].partitions[0].error_code.value)


async def groups(broker: Broker) -> list[str]:
    return [each.group_id for each in (await ask(broker, LIST_GROUPS, 4)).groups]


def incremental(operation: int, value: str | None, name: str = "cleanup.policy") -> dict[str, Any]:
    return {"configs": [{"name": name, "value": value, "config_operation": operation}]}


async def altered(broker: Broker, topic: str, configs: dict[str, Any], **more: Any) -> int:
    resource = {"resource_type": TOPIC, "resource_name": topic, **configs}
    (answer,) = (await ask(broker, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], **more)).responses
    return int(answer.error_code.value)


@pytest.mark.parametrize("topic", [OFFSETS, TRANSACTIONS])
def test_they_cannot_be_deleted_by_name_or_by_id(topic: str) -> None:
    async def scenario(broker: Broker) -> None:
        await prepare(broker)
        (by_old_name,) = (await ask(broker, DELETE_TOPICS, 1, topic_names=(topic,))).responses
        topic_id = broker.image.topics[topic].topic_id
        (by_name,) = (await ask(broker, DELETE_TOPICS, 6, topics=[{"name": topic, "topic_id": None}])).responses
        (by_id,) = (await ask(broker, DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": topic_id}])).responses
        answers = (by_old_name, by_name, by_id)
        assert [each.error_code.value for each in answers] == [POLICY_VIOLATION] * 3
        assert "internal.topics.alter.enable=true" in by_name.error_message
        assert topic in broker.image.topics
        assert await groups(broker) == ["g"]

    run(scenario)


@pytest.mark.parametrize("topic", [OFFSETS, TRANSACTIONS])
@pytest.mark.parametrize("validate_only", [True, False])
def test_they_cannot_be_given_more_partitions(topic: str, *, validate_only: bool) -> None:
    async def scenario(broker: Broker) -> None:
        await prepare(broker)
        wanted = [{"name": topic, "count": 60, "assignments": None}]
        answer = await ask(broker, CREATE_PARTITIONS, 3, topics=wanted, validate_only=validate_only)
        assert answer.results[0].error_code.value == POLICY_VIOLATION
        assert len(broker.image.topics[topic].partitions) == 50

    run(scenario)


@pytest.mark.parametrize(
    "change",
    [incremental(0, "delete"), incremental(0, "compact,delete"), incremental(1, None), incremental(2, "delete")],
)
@pytest.mark.parametrize("validate_only", [True, False])
def test_their_cleanup_policy_stays_compact(change: dict[str, Any], *, validate_only: bool) -> None:
    async def scenario(broker: Broker) -> None:
        await prepare(broker)
        assert await altered(broker, OFFSETS, change, validate_only=validate_only) == POLICY_VIOLATION
        config = broker.served.get(OFFSETS).config.log
        assert (config.is_compacted, config.is_deleted) == (True, False)

    run(scenario)


def test_replacing_all_settings_must_leave_them_compacted() -> None:
    async def scenario(broker: Broker) -> None:
        await prepare(broker)

        async def replace(**settings: str) -> int:
            configs = [{"name": name.replace("_", "."), "value": value} for name, value in settings.items()]
            resource = {"resource_type": TOPIC, "resource_name": OFFSETS, "configs": configs}
            (answer,) = (await ask(broker, ALTER_CONFIGS, 2, resources=[resource])).responses
            return int(answer.error_code.value)

        assert await replace(segment_bytes="1048576") == POLICY_VIOLATION
        assert await replace(segment_bytes="1048576", cleanup_policy="compact") == 0
        assert broker.served.get(OFFSETS).config.log.is_compacted

    run(scenario)


def test_other_settings_of_theirs_can_be_altered() -> None:
    async def scenario(broker: Broker) -> None:
        await prepare(broker)
        assert await altered(broker, OFFSETS, incremental(0, "2097152", "segment.bytes")) == 0
        assert await altered(broker, OFFSETS, incremental(0, "compact")) == 0

    run(scenario)


def test_no_size_of_messages_keeps_offsets_and_transactions_from_being_written() -> None:
    async def scenario(broker: Broker) -> None:
        await prepare(broker)
        for topic in (OFFSETS, TRANSACTIONS):
            assert await altered(broker, topic, incremental(0, "10", "max.message.bytes")) == 0
        assert await committed(broker) == 0
        request = {"transactional_id": "t", "transaction_timeout": 60_000}
        assert (await ask(broker, INIT_PRODUCER_ID, 4, **request)).error_code.value == 0

    run(scenario)


def test_one_that_a_client_makes_is_compacted_too() -> None:
    async def scenario(broker: Broker) -> None:
        new = {"name": OFFSETS, "num_partitions": 3, "replication_factor": 1}
        by_age = {**new, "configs": [{"name": "cleanup.policy", "value": "delete"}]}
        (refused,) = (await ask(broker, CREATE_TOPICS, 7, topics=[by_age])).topics
        assert refused.error_code.value == POLICY_VIOLATION
        (made,) = (await ask(broker, CREATE_TOPICS, 7, topics=[new])).topics
        assert made.error_code.value == 0
        assert broker.image.config_of(TOPIC, OFFSETS)["cleanup.policy"] == "compact"

    run(scenario)


def test_a_setting_of_the_broker_allows_all_of_it() -> None:
    async def scenario(broker: Broker) -> None:
        await prepare(broker)
        assert await altered(broker, OFFSETS, incremental(0, "delete")) == 0
        wanted = [{"name": OFFSETS, "count": 60, "assignments": None}]
        assert (await ask(broker, CREATE_PARTITIONS, 3, topics=wanted)).results[0].error_code.value == 0
        (answer,) = (await ask(broker, DELETE_TOPICS, 1, topic_names=(OFFSETS,))).responses
        assert answer.error_code.value == 0

    run(scenario, ALLOWED)
