"""Topics of several replicas, asked of a node that is not the controller: created, led by others, moved."""

from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import pytest

from barnabas.core.metadata.brokers import fence
from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image, PartitionState
from barnabas.core.metadata.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.core.metadata.records import TOPIC_RESOURCE
from barnabas.core.metadata.topics import set_configs
from barnabas.wire.apis import (
    ALTER_PARTITION,
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DESCRIBE_TOPIC_PARTITIONS,
    ELECT_LEADERS,
    FIND_COORDINATOR,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
)
from tests.unit.edge.kafka.clustered import Cluster, run

ASKED = 2
PREFERRED, UNCLEAN = 0, 1
TIMEOUT = {"timeout": 30_000}


async def create(cluster: Cluster, name: str = "a", *, factor: int = -1, on: dict[int, Any] | None = None) -> Any:
    topic = {
        "name": name,
        "num_partitions": -1 if on else 1,
        "replication_factor": factor,
        "assignments": [{"partition_index": number, "broker_ids": nodes} for number, nodes in (on or {}).items()],
        "configs": [],
    }
    answer = await cluster.ask(ASKED, CREATE_TOPICS, 7, topics=[topic], validate_only=False, **TIMEOUT)
    return answer.topics[0]


async def described(cluster: Cluster, name: str = "a", node: int = ASKED) -> Any:
    answer = await cluster.ask(node, METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    return answer.topics[0].partitions


def state_of(cluster: Cluster, name: str = "a", partition: int = 0) -> PartitionState:
    return cluster.brokers[1].image.get_topic(name).get_partition(partition)


async def change(cluster: Cluster, decide: Any) -> None:
    await cluster.brokers[1].metadata.commit(decide)
    for broker in cluster.brokers.values():
        await broker.metadata.wait_applied(cluster.brokers[1].metadata.applied_offset)


async def alter_isr(cluster: Cluster, *isr: int, version: int = 3, node: int | None = None, **values: Any) -> Any:
    state = state_of(cluster)
    leader = state.leader if node is None else node
    epochs = {each.node_id: each.epoch for each in cluster.brokers[1].image.nodes.values()}
    asked = {
        "partition_index": 0,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "new_isr": isr,
        "new_isr_with_epochs": [{"broker_id": node_id, "broker_epoch": epochs[node_id]} for node_id in isr],
        **values,
    }
    topics = [{"topic_id": state.topic_id, "partitions": [asked]}]
    return await cluster.ask_controller(
        1, ALTER_PARTITION, version, broker_id=leader, broker_epoch=epochs.get(leader, 0), topics=topics
    )


async def elect(cluster: Cluster, kind: int, partitions: Any = (0,)) -> Any:
    wanted = None if partitions is None else [{"topic": "a", "partitions": partitions}]
    answer = await cluster.ask(ASKED, ELECT_LEADERS, 2, election_type=kind, topic_partitions=wanted, **TIMEOUT)
    assert answer.error_code.value == 0
    return [each.error_code.value for topic in answer.replica_election_results for each in topic.partition_result]


async def reassign(cluster: Cluster, target: Any, **values: Any) -> Any:
    topics = [{"name": "a", "partitions": [{"partition_index": 0, "replicas": target}]}]
    answer = await cluster.ask(ASKED, ALTER_PARTITION_REASSIGNMENTS, 1, topics=topics, **TIMEOUT, **values)
    assert answer.error_code.value == 0
    return answer.responses[0].partitions[0]


async def moving(cluster: Cluster, topics: Any = None) -> list[Any]:
    answer = await cluster.ask(ASKED, LIST_PARTITION_REASSIGNMENTS, 0, topics=topics, **TIMEOUT)
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    ]


def test_a_topic_has_as_many_replicas_as_it_is_created_with() -> None:
    async def scenario(cluster: Cluster) -> None:
        created = await create(cluster, factor=3)
        assert (created.error_code.value, created.replication_factor) == (0, 3)
        (partition,) = await described(cluster)
        assert sorted(partition.replica_nodes) == [1, 2, 3]
        assert partition.isr_nodes == partition.replica_nodes
        assert (partition.leader_id, partition.offline_replicas) == (partition.replica_nodes[0], ())

    run(scenario, nodes=3)


def test_without_a_factor_it_has_that_of_the_settings() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert (await create(cluster)).replication_factor == 2

    run(scenario, nodes=3, settings={1: {"default.replication.factor": "2"}})


def test_replicas_go_where_the_request_says() -> None:
    async def scenario(cluster: Cluster) -> None:
        created = await create(cluster, on={0: (3, 1), 1: (2, 3)})
        assert (created.num_partitions, created.replication_factor) == (2, 2)
        assert [each.replica_nodes for each in await described(cluster)] == [(3, 1), (2, 3)]

    run(scenario, nodes=3)


def test_more_replicas_than_active_nodes_are_refused_in_words() -> None:
    async def scenario(cluster: Cluster) -> None:
        refused = await create(cluster, factor=4)
        assert refused.error_code.value == 38
        assert "only 3 broker(s) are registered" in refused.error_message
        await change(cluster, partial(fence, node_id=3))
        refused = await create(cluster, factor=3)
        assert refused.error_code.value == 38
        assert "2 of them active" in refused.error_message

    run(scenario, nodes=3)


def test_new_partitions_have_as_many_replicas_as_the_others() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, factor=2)
        topics = [{"name": "a", "count": 3, "assignments": None}]
        answer = await cluster.ask(ASKED, CREATE_PARTITIONS, 3, topics=topics, validate_only=False, **TIMEOUT)
        assert answer.results[0].error_code.value == 0
        assert [len(each.replica_nodes) for each in await described(cluster)] == [2, 2, 2]

    run(scenario, nodes=3)


@pytest.mark.parametrize(("nodes", "given", "factor"), [(1, None, 1), (2, None, 2), (3, None, 3), (3, "1", 1)])
def test_an_internal_topic_has_three_replicas_or_as_many_as_there_are_nodes(
    nodes: int, given: str | None, factor: int
) -> None:
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    settings = {name: given for name in names if given is not None}

    async def scenario(cluster: Cluster) -> None:
        for kind, name in enumerate((OFFSETS_TOPIC, TRANSACTIONS_TOPIC)):
            await cluster.ask(nodes, FIND_COORDINATOR, 6, coordinator_keys=("x",), key_type=kind)
            assert len(state_of(cluster, name).replicas) == factor
        own = cluster.brokers[1].image.config_of(TOPIC_RESOURCE, TRANSACTIONS_TOPIC)
        assert own["min.insync.replicas"] == "2", "transaction.state.log.min.isr"

    run(scenario, nodes=nodes, settings=dict.fromkeys(range(1, nodes + 1), settings))


def test_the_replicas_of_a_fenced_node_are_offline_and_another_leads() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (3, 1, 2)})
        await change(cluster, partial(fence, node_id=3))
        (partition,) = await described(cluster)
        assert (partition.leader_id, partition.isr_nodes, partition.offline_replicas) == (1, (1, 2), (3,))

    run(scenario, nodes=3)


def test_who_left_while_too_few_were_in_sync_is_shown_as_eligible() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (3, 1, 2)})
        await change(cluster, lambda image: set_min_isr(image, 2))
        for node_id in (3, 1):
            await change(cluster, partial(fence, node_id=node_id))
        asked = {"topics": [{"name": "a"}], "response_partition_limit": 100, "cursor": None}
        answer = await cluster.ask(ASKED, DESCRIBE_TOPIC_PARTITIONS, 0, **asked)
        (partition,) = answer.topics[0].partitions
        assert (partition.isr_nodes, partition.eligible_leader_replicas) == ((2,), (1,))
        assert partition.offline_replicas == (3, 1)

    run(scenario, nodes=3)


def set_min_isr(image: Image, count: int) -> MetadataDecision[Any]:
    return set_configs(image, TOPIC_RESOURCE, "a", {"min.insync.replicas": str(count)})


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_changes_its_isr(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (2, 1, 3)})
        answer = await alter_isr(cluster, 2, 1, version=version)
        (partition,) = answer.topics[0].partitions
        assert (answer.error_code.value, partition.error_code.value) == (0, 0)
        assert (partition.leader_id, partition.isr, partition.partition_epoch) == (2, (2, 1), 1)
        assert state_of(cluster).isr == (2, 1)
        answer = await alter_isr(cluster, 2, 1, 3, version=version)
        assert answer.topics[0].partitions[0].isr == (2, 1, 3)

    run(scenario, nodes=3)


def test_what_is_wrong_with_a_partition_is_said_for_it_alone() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (2, 1, 3)})
        for values, code in (
            ({"leader_epoch": 7}, 41),
            ({"leader_epoch": -1}, 74),
            ({"partition_epoch": -1}, 95),
            ({"partition_index": 9}, 3),
            ({"new_isr_with_epochs": [{"broker_id": 2, "broker_epoch": 77}]}, 107),
            ({"new_isr_with_epochs": []}, 42),
        ):
            answer = await alter_isr(cluster, 2, 1, **values)
            assert (answer.error_code.value, answer.topics[0].partitions[0].error_code.value) == (0, code)
        assert (await alter_isr(cluster, 2, 1, node=3)).topics[0].partitions[0].error_code.value == 42
        assert (await alter_isr(cluster, 2, 1, node=9)).error_code.value == 77
        assert state_of(cluster).isr == (2, 1, 3)

    run(scenario, nodes=3)


def test_only_the_active_controller_is_asked_for_isrs() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (2, 1, 3)})
        cluster.quorum.elect(3)
        assert (await alter_isr(cluster, 2, 1)).error_code.value == 41

    run(scenario, nodes=3)


def test_the_preferred_leader_is_elected_when_it_is_in_sync_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (3, 1, 2), 1: (1, 2, 3)})
        assert await elect(cluster, PREFERRED) == [84]
        await change(cluster, partial(fence, node_id=3))
        assert state_of(cluster).leader == 1
        assert await elect(cluster, PREFERRED, (0, 1, 9)) == [80, 84, 3]
        await change(cluster, partial(unfenced, node_id=3))
        await alter_isr(cluster, 1, 2, 3)
        assert await elect(cluster, PREFERRED, None) == [0], "those that need none are left out"
        assert state_of(cluster).leader == 3

    run(scenario, nodes=3)


def unfenced(image: Image, *, node_id: int) -> MetadataDecision[None]:
    return MetadataDecision([msgspec.structs.replace(image.nodes[node_id], is_fenced=False)], None)


def test_an_operator_elects_a_leader_that_may_lack_records() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (3, 1)})
        await alter_isr(cluster, 3)
        await change(cluster, partial(fence, node_id=3))
        (partition,) = await described(cluster)
        assert (partition.leader_id, partition.error_code.value) == (-1, 5)
        assert await elect(cluster, PREFERRED) == [80]
        assert await elect(cluster, UNCLEAN) == [0]
        assert (state_of(cluster).leader, state_of(cluster).isr) == (1, (1,))
        assert await elect(cluster, UNCLEAN) == [84]

    run(scenario, nodes=3)


def test_a_partition_is_moved_by_adding_first_and_removing_when_the_new_replica_is_in_sync() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (1, 2)})
        assert (await reassign(cluster, (3, 2))).error_code.value == 0
        under_way = ("a", 0, (3, 2, 1), (3,), (1,))
        assert await moving(cluster) == [under_way]
        assert await moving(cluster, [{"name": "a", "partition_indexes": (0, 9)}]) == [under_way]
        assert await moving(cluster, [{"name": "b", "partition_indexes": (0,)}]) == []

        answer = await alter_isr(cluster, 1, 2, 3)

        assert answer.topics[0].partitions[0].error_code.value == 108, "the change is made, and another leads"
        state = state_of(cluster)
        assert (state.replicas, state.leader, sorted(state.isr)) == ((3, 2), 3, [2, 3])
        assert await moving(cluster) == []

    run(scenario, nodes=3)


def test_a_move_is_cancelled() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (1, 2)})
        assert (await reassign(cluster, None)).error_code.value == 85
        await reassign(cluster, (3, 2))
        assert (await reassign(cluster, None)).error_code.value == 0
        assert sorted(state_of(cluster).replicas) == [1, 2]
        assert await moving(cluster) == []

    run(scenario, nodes=3)


@pytest.mark.parametrize(
    ("target", "allows", "code"),
    [((9,), True, 39), ((1, 1), True, 39), ((), True, 39), ((1, 2, 3), False, 38), ((1, 2, 3), True, 0)],
)
def test_a_target_that_cannot_be_is_refused(target: tuple[int, ...], code: int, *, allows: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, on={0: (1, 2)})
        answer = await reassign(cluster, target, allow_replication_factor_change=allows)
        assert (answer.error_code.value, bool(answer.error_message)) == (code, bool(code))

    run(scenario, nodes=3)


def test_a_topic_that_is_not_there_has_no_isr() -> None:
    async def scenario(cluster: Cluster) -> None:
        node = cluster.brokers[1].image.nodes[2]
        partition = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0, "new_isr_with_epochs": []}
        topics = [{"topic_id": UUID(int=77), "partitions": [partition]}]
        answer = await cluster.ask_controller(
            1, ALTER_PARTITION, 3, broker_id=2, broker_epoch=node.epoch, topics=topics
        )
        assert answer.topics[0].topic_id == UUID(int=77)
        assert answer.topics[0].partitions[0].error_code.value == 100

    run(scenario)
