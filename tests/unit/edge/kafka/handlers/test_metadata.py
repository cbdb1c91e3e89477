"""Metadata."""

from typing import Any
from uuid import UUID

import pytest

from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import PartitionRecord
from barnabas.services.broker import Broker
from barnabas.wire.apis import METADATA
from tests.unit.edge.kafka.support import NODE_ID, ask, config_of, create, run


def codes(answer: Any) -> dict[str | None, int]:
    return {topic.name: topic.error_code.value for topic in answer.topics}


def test_version_0_asks_for_all_with_an_empty_list_and_later_ones_with_null() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        await create(broker, "b")
        assert codes(await ask(broker, METADATA, 0, topics=[])) == {"a": 0, "b": 0}
        for version in (1, 8, 13):
            assert codes(await ask(broker, METADATA, version, topics=[])) == {}
            assert codes(await ask(broker, METADATA, version, topics=None)) == {"a": 0, "b": 0}

    run(scenario)


def test_the_cluster_its_nodes_and_its_controller_are_named() -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, METADATA, 13, topics=[])
        (node,) = answer.brokers
        assert (node.node_id, node.host, node.port, node.rack) == (NODE_ID, "broker.test", 9092, "a")
        assert (answer.cluster_id, answer.controller_id) == (broker.image.cluster_id, NODE_ID)

    run(scenario)


def test_a_topic_that_is_asked_for_is_created_and_in_the_answer() -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, METADATA, 13, topics=[{"name": "new"}])
        (topic,) = answer.topics
        assert topic.error_code.value == 0
        assert [each.partition_index for each in topic.partitions] == [0, 1, 2]
        assert topic.topic_id == broker.image.topics["new"].topic_id
        assert (topic.partitions[0].leader_id, topic.partitions[0].leader_epoch) == (NODE_ID, 0)

    run(scenario, config_of(num_partitions="3"))


def test_a_topic_is_not_created_when_the_client_or_the_broker_forbids_it() -> None:
    async def forbidden_by_client(broker: Broker) -> None:
        request = {"topics": [{"name": "new"}], "allow_auto_topic_creation": False}
        assert codes(await ask(broker, METADATA, 4, **request)) == {"new": 3}
        assert "new" not in broker.image.topics

    async def forbidden_by_broker(broker: Broker) -> None:
        assert codes(await ask(broker, METADATA, 1, topics=[{"name": "new"}])) == {"new": 3}

    run(forbidden_by_client)
    run(forbidden_by_broker, config_of(auto_create_topics_enable="false"))


@pytest.mark.parametrize("may_create", [True, False])
def test_one_bad_name_spoils_nothing_else(may_create: bool) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a.b")
        request = {"topics": [{"name": name} for name in ("a.b", "no way", "a.b")]}
        answer = await ask(broker, METADATA, 12, **request, allow_auto_topic_creation=may_create)
        assert codes(answer) == {"a.b": 0, "no way": 17}

    run(scenario)


def test_a_topic_that_cannot_be_created_is_answered_with_the_reason() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a.b")
        assert codes(await ask(broker, METADATA, 9, topics=[{"name": "a_b"}])) == {"a_b": 17}

    run(scenario)


def test_topics_are_found_by_id_and_unknown_ids_are_echoed() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        topic_id, unknown = broker.image.topics["a"].topic_id, UUID(int=5)
        request = {"topics": [{"topic_id": unknown, "name": None}, {"topic_id": topic_id, "name": None}]}
        first, second = (await ask(broker, METADATA, 12, **request)).topics
        assert (first.error_code.value, first.name, first.topic_id) == (100, None, unknown)
        assert (second.error_code.value, second.name, second.topic_id) == (0, "a", topic_id)

    run(scenario)


def test_versions_10_and_11_have_ids_but_refuse_them() -> None:
    async def scenario(broker: Broker) -> None:
        request = {"topics": [{"topic_id": UUID(int=5), "name": "a"}]}
        assert codes(await ask(broker, METADATA, 10, **request)) == {"a": 42}

    run(scenario)


def test_operations_are_named_when_asked_for() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        plain = await ask(broker, METADATA, 8, topics=None)
        assert plain.topics[0].topic_authorized_operations == plain.cluster_authorized_operations == -(2**31)
        request = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
        asked_for = await ask(broker, METADATA, 8, topics=None, **request)
        assert asked_for.topics[0].topic_authorized_operations == 3576
        assert asked_for.cluster_authorized_operations == 8096

    run(scenario)


def test_internal_topics_are_marked() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "__consumer_offsets")
        (topic,) = (await ask(broker, METADATA, 1, topics=None)).topics
        assert topic.is_internal

    run(scenario)


def test_replicas_that_are_not_there_are_offline_and_version_0_leaves_them_out() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a", 2)
        topic_id = broker.image.topics["a"].topic_id

        def move(image: Image) -> MetadataDecision[None]:
            led_here = PartitionRecord(topic_id, 0, (1, 2), (1, 2), 1, 1, 1)
            led_elsewhere = PartitionRecord(topic_id, 1, (2, 1), (2,), 2, 1, 1)
            return MetadataDecision([led_here, led_elsewhere], None)

        await broker.metadata.commit(move)
        here, elsewhere = (await ask(broker, METADATA, 13, topics=None)).topics[0].partitions
        assert (here.error_code.value, here.leader_id, here.offline_replicas) == (0, 1, (2,))
        assert (elsewhere.error_code.value, elsewhere.leader_id, elsewhere.isr_nodes) == (5, -1, (2,))
        here, elsewhere = (await ask(broker, METADATA, 0, topics=[])).topics[0].partitions
        assert (here.error_code.value, here.replica_nodes) == (9, (1,))
        assert (elsewhere.error_code.value, elsewhere.isr_nodes) == (5, ())

    run(scenario)
