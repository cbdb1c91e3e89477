"""A client that comes to a node that does not lead is told who does, and where that node is (KIP-951)."""

from functools import partial
from typing import Any

import pytest

from barnabas.core.metadata.brokers import fence
from barnabas.core.records.record import Record, encode_batch
from barnabas.wire.apis import CREATE_TOPICS, FETCH, PRODUCE
from tests.support.served import versions_of
from tests.unit.edge.kafka.calling import Caller, FakeConnection
from tests.unit.edge.kafka.clustered import Cluster, run

LEADER, OTHER = 1, 2
NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH = 6, 74
BATCH = bytes(encode_batch([Record(0, 0, None, b"v")]))
RACKS = {LEADER: {"broker.rack": "a"}}


async def create(cluster: Cluster, partitions: int = 1) -> None:
    placed = [{"partition_index": number, "broker_ids": (LEADER, OTHER)} for number in range(partitions)]
    topic = {"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": placed, "configs": []}
    answer = await cluster.ask(LEADER, CREATE_TOPICS, 7, topics=[topic], validate_only=False, timeout=30_000)
    assert answer.topics[0].error_code.value == 0
    for broker in cluster.brokers.values():
        await broker.metadata.wait_applied(cluster.brokers[LEADER].metadata.applied_offset)


def leader_in(partition: Any) -> tuple[int, int] | None:
    leader = getattr(partition, "current_leader", None)
    return None if leader is None else (leader.leader_id, leader.leader_epoch)


def endpoints_in(answer: Any) -> list[Any]:
    return [(each.node_id, each.host, each.port, each.rack) for each in getattr(answer, "node_endpoints", ())]


@pytest.mark.parametrize("version", versions_of(PRODUCE))
def test_a_refused_produce_names_the_leader(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        answer = await cluster.callers[OTHER].produce("t", BATCH, version=version, acks=1).read()
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code.value == NOT_LEADER_OR_FOLLOWER
        if version >= 10:
            assert leader_in(partition) == (LEADER, 0)
            assert endpoints_in(answer) == [(LEADER, "n1.test", 9092, "a")]
        else:
            assert (leader_in(partition), endpoints_in(answer)) == (None, [])

    run(scenario, settings=RACKS)


@pytest.mark.parametrize("version", versions_of(FETCH))
def test_a_refused_fetch_names_the_leader(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        answer = await cluster.callers[OTHER].fetch(("t", 0, 0), version=version).read()
        (partition,) = answer.responses[0].partitions
        assert partition.error_code.value == NOT_LEADER_OR_FOLLOWER
        if version >= 16:
            assert leader_in(partition) == (LEADER, 0)
            assert endpoints_in(answer) == [(LEADER, "n1.test", 9092, "a")]
        else:
            assert leader_in(partition) in (None, (-1, -1))
            assert endpoints_in(answer) == []

    run(scenario, settings=RACKS)


def test_what_is_not_refused_so_names_nobody() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        caller = cluster.callers[LEADER]
        for answer in (
            await caller.produce("t", BATCH, version=13, acks=1).read(),
            await caller.fetch(("t", 0, 0), version=17).read(),
            await caller.fetch(("t", 0, 99), version=17).read(),
            await caller.fetch(("t", 0, 0), version=17, epochs=(7, -1)).read(),  # of a leader to come
        ):
            assert endpoints_in(answer) == []
            topic = answer.responses[0]
            (partition,) = getattr(topic, "partitions", None) or topic.partition_responses
            assert leader_in(partition) == (-1, -1)

    run(scenario)


def test_a_fetch_of_an_old_leader_epoch_names_the_new_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        await cluster.brokers[LEADER].metadata.commit(partial(fence, node_id=LEADER))
        for broker in cluster.brokers.values():
            await broker.metadata.wait_applied(cluster.brokers[LEADER].metadata.applied_offset)
        answer = await cluster.callers[OTHER].fetch(("t", 0, 0), version=17, epochs=(0, -1)).read()
        (partition,) = answer.responses[0].partitions
        assert partition.error_code.value == FENCED_LEADER_EPOCH
        assert leader_in(partition) == (OTHER, 1)
        assert [each[0] for each in endpoints_in(answer)] == [OTHER]

    run(scenario)


def test_a_leader_that_is_fenced_has_no_address() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        for node_id in (OTHER, LEADER):  # then nobody leads
            await cluster.brokers[LEADER].metadata.commit(partial(fence, node_id=node_id))
        for broker in cluster.brokers.values():
            await broker.metadata.wait_applied(cluster.brokers[LEADER].metadata.applied_offset)
        answer = await cluster.callers[OTHER].produce("t", BATCH, version=13, acks=1).read()
        (partition,) = answer.responses[0].partition_responses
        assert leader_in(partition)[0] == -1  # type: ignore[index]
        assert endpoints_in(answer) == []

    run(scenario)


def test_a_client_is_told_the_address_of_the_listener_that_it_came_through() -> None:
    class Outside(FakeConnection):
        listener = "OUTSIDE"

    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        caller = Caller(cluster.brokers[OTHER], Outside())
        answer = await caller.fetch(("t", 0, 0), version=17).read()
        assert endpoints_in(answer) == [(LEADER, "n1.outside", 9192, None)]

    run(scenario)


def test_many_partitions_of_one_leader_name_its_address_once() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster, partitions=200)
        caller = cluster.callers[OTHER]
        produced = await caller.produce("t", *[BATCH] * 200, version=12, acks=1).read()
        fetched = await caller.fetch(*(("t", number, 0) for number in range(200)), version=17).read()
        for answer in (produced, fetched):
            assert endpoints_in(answer) == [(LEADER, "n1.test", 9092, None)]
        leaders = {leader_in(each) for topic in fetched.responses for each in topic.partitions}
        leaders |= {leader_in(each) for topic in produced.responses for each in topic.partition_responses}
        assert leaders == {(LEADER, 0)}

    run(scenario)
