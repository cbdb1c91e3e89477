"""ElectLeaders."""

from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import PartitionRecord
from barnabas.services.broker import Broker
from barnabas.wire.apis import ELECT_LEADERS
from tests.unit.edge.kafka.support import ask, create, run


async def lead_by_another(broker: Broker, *, leader: int) -> None:
    """Have partition 1 of "a" led by a node that is gone, or by none."""
    topic_id = broker.image.topics["a"].topic_id

    def move(image: Image) -> MetadataDecision[None]:
        return MetadataDecision([PartitionRecord(topic_id, 1, (1, 2), (1, 2), leader, 1, 1)], None)

    await broker.metadata.commit(move)


def test_partitions_that_need_no_election_say_so_and_unknown_ones_too() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        wanted = [{"topic": "a", "partitions": (0, 1)}, {"topic": "b", "partitions": (0,)}]
        answer = await ask(broker, ELECT_LEADERS, 1, topic_partitions=wanted)
        results = [
            (topic.topic, each.partition_id, each.error_code.value)
            for topic in answer.replica_election_results
            for each in topic.partition_result
        ]
        assert (answer.error_code.value, results) == (0, [("a", 0, 84), ("a", 1, 3), ("b", 0, 3)])

    run(scenario)


def test_asked_for_all_only_those_are_answered_that_needed_one() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 3)
        await lead_by_another(broker, leader=2)
        (topic,) = (await ask(broker, ELECT_LEADERS, 0, topic_partitions=None)).replica_election_results
        assert [(each.partition_id, each.error_code.value) for each in topic.partition_result] == [(1, 0)]
        assert broker.image.topics["a"].partitions[1].leader == 1

    run(scenario)


def test_a_partition_without_a_leader_gets_one_by_an_unclean_election() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 2)
        await lead_by_another(broker, leader=-1)
        wanted = [{"topic": "a", "partitions": (0, 1)}]
        (topic,) = (
            await ask(broker, ELECT_LEADERS, 2, election_type=1, topic_partitions=wanted)
        ).replica_election_results
        assert [each.error_code.value for each in topic.partition_result] == [84, 0]
        assert broker.image.topics["a"].partitions[1].leader == 1

    run(scenario)


def test_an_unknown_type_of_election_is_refused_as_a_whole() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        wanted = [{"topic": "a", "partitions": (0,)}]
        answer = await ask(broker, ELECT_LEADERS, 2, election_type=7, topic_partitions=wanted)
        assert answer.error_code.value == 42
        assert answer.replica_election_results[0].partition_result[0].error_code.value == 42

    run(scenario)
