"""How much one request may create: topics that it only asks for, and partitions."""

from typing import Any

from barnabas.core.errors import LeaderNotAvailable, PolicyViolation
from barnabas.services.broker import Broker
from barnabas.wire.apis import APIS
from tests.unit.edge.kafka.support import ask, config_of, create, run

METADATA, CREATE_TOPICS, CREATE_PARTITIONS = APIS[3], APIS[19], APIS[37]


def test_without_settings_a_request_makes_ten_thousand_partitions_as_in_kafka_and_a_hundred_topics_by_asking() -> None:
    async def scenario(broker: Broker) -> None:
        wide = [{"name": "wide", "num_partitions": 10_001, "replication_factor": 1}]
        names = [{"name": f"t-{number}"} for number in range(101)]

        refused = await ask(broker, CREATE_TOPICS, 7, topics=wide, timeout=30_000)
        asked = await ask(broker, METADATA, 9, topics=names, allow_auto_topic_creation=True)

        assert refused.topics[0].error_code.value == PolicyViolation.kafka_code
        assert [topic.error_code.value for topic in asked.topics] == [0] * 100 + [LeaderNotAvailable.kafka_code]
        assert len(broker.image.topics) == 100

    run(scenario)


def test_topics_that_are_asked_for_are_created_in_one_commit_and_only_so_many() -> None:
    async def scenario(broker: Broker) -> None:
        commits: list[Any] = []
        broker.metadata.subscribe(commits.append)
        topics = [{"name": f"t-{number}"} for number in range(5)]

        first = await ask(broker, METADATA, 9, topics=topics, allow_auto_topic_creation=True)
        again = await ask(broker, METADATA, 9, topics=topics, allow_auto_topic_creation=True)

        codes = [topic.error_code.value for topic in first.topics]
        assert codes == [0, 0, 0, LeaderNotAvailable.kafka_code, LeaderNotAvailable.kafka_code]
        assert [topic.error_code.value for topic in again.topics] == [0] * 5
        assert len(commits) == 2

    run(scenario, config_of(max_auto_created_topics_per_request="3"))


def test_topics_that_are_asked_for_have_no_more_partitions_than_a_request_may_create() -> None:
    async def scenario(broker: Broker) -> None:
        topics = [{"name": f"t-{number}"} for number in range(5)]

        await ask(broker, METADATA, 9, topics=topics, allow_auto_topic_creation=True)

        assert len(broker.image.topics) == 2

    run(scenario, config_of(num_partitions="4", max_new_partitions_per_request="10"))


def test_of_names_that_metrics_cannot_tell_apart_only_the_first_is_created() -> None:
    async def scenario(broker: Broker) -> None:
        topics = [{"name": "a.b"}, {"name": "a_b"}]

        answer = await ask(broker, METADATA, 9, topics=topics, allow_auto_topic_creation=True)

        assert [topic.error_code.value for topic in answer.topics] == [0, 17]
        assert list(broker.image.topics) == ["a.b"]

    run(scenario)


def test_a_request_for_too_many_partitions_creates_nothing() -> None:
    async def scenario(broker: Broker) -> None:
        new = [{"name": name, "num_partitions": 6, "replication_factor": 1} for name in ("a", "b")]

        answer = await ask(broker, CREATE_TOPICS, 7, topics=new, timeout=30_000)

        assert [topic.error_code.value for topic in answer.topics] == [PolicyViolation.kafka_code] * 2
        assert "max.new.partitions.per.request=10" in answer.topics[0].error_message
        assert not broker.image.topics

    run(scenario, config_of(max_new_partitions_per_request="10"))


def test_a_topic_grows_by_no_more_than_a_request_may_create() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "t", 5)

        refused = await ask(broker, CREATE_PARTITIONS, 3, topics=[{"name": "t", "count": 16}], timeout=30_000)
        grown = await ask(broker, CREATE_PARTITIONS, 3, topics=[{"name": "t", "count": 15}], timeout=30_000)

        assert refused.results[0].error_code.value == PolicyViolation.kafka_code
        assert grown.results[0].error_code.value == 0

    run(scenario, config_of(max_new_partitions_per_request="10"))
