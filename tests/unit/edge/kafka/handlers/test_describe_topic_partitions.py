"""DescribeTopicPartitions."""

from typing import Any

from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_TOPIC_PARTITIONS
from tests.unit.edge.kafka.support import ask, create, run


def page(answer: Any) -> list[tuple[str, int, list[int]]]:
    return [
        (topic.name, topic.error_code.value, [each.partition_index for each in topic.partitions])
        for topic in answer.topics
    ]


async def describe(broker: Broker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    topics = [{"name": name} for name in names]
    return await ask(broker, DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=limit, cursor=at)


def test_all_topics_come_sorted_in_pages() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "b", 3)
        await create(broker, "a", 2)
        answer = await describe(broker, limit=3)
        assert page(answer) == [("a", 0, [0, 1]), ("b", 0, [0])]
        assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("b", 1)
        answer = await describe(broker, limit=3, cursor=("b", 1))
        assert page(answer) == [("b", 0, [1, 2])]
        assert answer.next_cursor is None

    run(scenario)


def test_a_page_that_ends_with_a_topic_points_to_the_next() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 2)
        await create(broker, "b", 1)
        answer = await describe(broker, limit=2)
        assert page(answer) == [("a", 0, [0, 1])]
        assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("b", 0)

    run(scenario)


def test_asked_for_by_name_topics_come_sorted_and_bad_ones_are_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "b")
        answer = await describe(broker, "c", "b", "no way", limit=0)
        assert page(answer) == [("b", 0, [0])]
        assert answer.next_cursor.topic_name == "c"
        assert page(await describe(broker, "c", "b", "no way")) == [("b", 0, [0]), ("c", 3, []), ("no way", 17, [])]
        topic = (await describe(broker, "b")).topics[0]
        assert topic.topic_authorized_operations == 3576
        assert (topic.partitions[0].leader_id, topic.partitions[0].isr_nodes) == (1, (1,))

    run(scenario)


def test_a_cursor_that_cannot_be_is_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        assert page(await describe(broker, "a", cursor=("a", -1))) == [("a", 42, [])]
        assert page(await describe(broker, "a", cursor=("b", 0))) == [("a", 42, [])]
        assert page(await describe(broker, "a", cursor=("a", 7))) == [("a", 0, [])]

    run(scenario)
