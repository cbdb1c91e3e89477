"""CreateTopics."""

import asyncio
from typing import Any

import pytest

from barnabas.services.broker import Broker
from barnabas.wire.apis import CREATE_TOPICS
from tests.unit.edge.kafka.support import ask, config_of, create, run


def topic(name: str, partitions: int = -1, factor: int = -1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": factor, **more}


@pytest.mark.parametrize("version", [2, 4, 7])
def test_a_topic_with_defaults_is_created_and_served(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        (answer,) = (await ask(broker, CREATE_TOPICS, version, topics=[topic("a")])).topics
        assert (answer.name, answer.error_code.value, answer.error_message) == ("a", 0, None)
        assert len(broker.served.get("a").partitions) == 3

    run(scenario, config_of(num_partitions="3"))


def test_the_answer_describes_what_was_created() -> None:
    async def scenario(broker: Broker) -> None:
        configs = [{"name": "retention.ms", "value": "1000"}]
        (answer,) = (await ask(broker, CREATE_TOPICS, 7, topics=[topic("a", 2, 1, configs=configs)])).topics
        assert answer.topic_id == broker.image.topics["a"].topic_id
        assert (answer.num_partitions, answer.replication_factor) == (2, 1)
        described = {each.name: each for each in answer.configs}
        assert list(described) == sorted(described)
        assert (described["retention.ms"].value, described["retention.ms"].config_source) == ("1000", 1)
        assert described["segment.bytes"].config_source == 5
        assert answer.topic_config_error_code == 0

    run(scenario)


def test_validating_creates_nothing() -> None:
    async def scenario(broker: Broker) -> None:
        (answer,) = (await ask(broker, CREATE_TOPICS, 5, topics=[topic("a", 2, 1)], validate_only=True)).topics
        assert (answer.error_code.value, answer.num_partitions) == (0, 2)
        assert not broker.image.topics

    run(scenario)


def test_assignments_say_where_partitions_go() -> None:
    async def scenario(broker: Broker) -> None:
        assignments = [{"partition_index": index, "broker_ids": (1,)} for index in (1, 0)]
        (answer,) = (await ask(broker, CREATE_TOPICS, 7, topics=[topic("a", assignments=assignments)])).topics
        assert (answer.error_code.value, answer.num_partitions, answer.replication_factor) == (0, 2, 1)

    run(scenario)


def assigned(*places: tuple[int, tuple[int, ...]]) -> list[dict[str, Any]]:
    return [{"partition_index": index, "broker_ids": nodes} for index, nodes in places]


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (topic("there"), 36),
        (topic("no way"), 17),
        (topic(""), 17),
        (topic("x", 0, 1), 37),
        (topic("x", 1, 0), 38),
        (topic("x", 1, 2), 38),
        (topic("x", 1, 1, assignments=assigned((0, (1,)))), 42),
        (topic("x", assignments=assigned((0, (1,)), (0, (1,)))), 39),
        (topic("x", assignments=assigned((0, (9,)))), 39),
        (topic("x", configs=[{"name": "retention.ms", "value": "soon"}]), 40),
        (topic("x", configs=[{"name": "retention.ms", "value": None}]), 40),
        (topic("x", configs=[{"name": "no.such.setting", "value": "1"}]), 40),
        (topic("__cluster_metadata"), 42),
    ],
)
@pytest.mark.parametrize("validate_only", [True, False])
def test_one_bad_topic_is_refused_and_the_other_created(
    refused: dict[str, Any], code: int, validate_only: bool
) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "there")
        request = {"topics": [refused, topic("fine")], "validate_only": validate_only}
        bad, fine = (await ask(broker, CREATE_TOPICS, 7, **request)).topics
        assert (bad.name, bad.error_code.value, bad.num_partitions) == (refused["name"], code, -1)
        assert bad.error_message
        assert bad.configs == ()
        assert fine.error_code.value == 0
        assert ("fine" in broker.image.topics) is not validate_only

    run(scenario)


def test_a_name_that_comes_twice_is_refused_once() -> None:
    async def scenario(broker: Broker) -> None:
        answers = (await ask(broker, CREATE_TOPICS, 3, topics=[topic("a"), topic("b"), topic("a")])).topics
        assert [(each.name, each.error_code.value) for each in answers] == [("a", 42), ("b", 0)]

    run(scenario)


def test_a_topic_that_is_not_created_in_time_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_decide: object) -> None:
        await asyncio.Event().wait()

    async def scenario(broker: Broker) -> None:
        monkeypatch.setattr(broker.metadata, "commit", never)
        request = {"topics": [topic("a"), topic("b")], "timeout": 1}
        answers = (await ask(broker, CREATE_TOPICS, 7, **request)).topics
        assert [each.error_code.value for each in answers] == [7, 7]

    run(scenario)
