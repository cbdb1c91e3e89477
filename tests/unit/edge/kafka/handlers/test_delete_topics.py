"""DeleteTopics."""

from uuid import UUID

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import DELETE_TOPICS
from tests.unit.edge.kafka.support import ask, config_of, create, run


@pytest.mark.parametrize("version", [1, 5])
def test_topics_are_deleted_by_name_and_unknown_ones_refused(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        answer = await ask(broker, DELETE_TOPICS, version, topic_names=("not-there", "a"))
        assert [(each.name, each.error_code.value) for each in answer.responses] == [("not-there", 3), ("a", 0)]
        assert not broker.image.topics

    run(scenario)


def test_topics_are_deleted_by_id_and_an_unknown_id_has_no_name() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        topic_id = broker.image.topics["a"].topic_id
        request = {"topics": [{"name": None, "topic_id": UUID(int=9)}, {"name": None, "topic_id": topic_id}]}
        unknown, deleted = (await ask(broker, DELETE_TOPICS, 6, **request)).responses
        assert (unknown.name, unknown.topic_id, unknown.error_code.value) == (None, UUID(int=9), 100)
        assert unknown.error_message
        assert (deleted.name, deleted.topic_id, deleted.error_code.value) == ("a", topic_id, 0)

    run(scenario)


def test_what_is_named_twice_or_not_at_all_is_refused() -> None:
    async def scenario(broker: Broker) -> None:
        for name in ("a", "b", "c"):
            await create(broker, name)
        topic_id = broker.image.topics["b"].topic_id
        request = {
            "topics": [
                {"name": "a"},
                {"name": "a"},
                {"name": "b"},
                {"name": None, "topic_id": topic_id},
                {"name": None, "topic_id": None},
                {"name": "c", "topic_id": topic_id},
            ]
        }
        answers = (await ask(broker, DELETE_TOPICS, 6, **request)).responses
        assert [each.error_code.value for each in answers] == [42] * 5
        assert sorted(broker.image.topics) == ["a", "b", "c"]

    run(scenario)


@pytest.mark.parametrize(("version", "code"), [(1, 42), (3, 73), (5, 73)])
def test_nothing_is_deleted_where_deletion_is_disabled(version: int, code: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        answer = await ask(broker, DELETE_TOPICS, version, topic_names=("a",))
        assert [each.error_code.value for each in answer.responses] == [code]
        assert "a" in broker.image.topics

    run(scenario, config_of(delete_topic_enable="false"))
