"""Quotas in a cluster: set on any node, held to on all of them, and changes counted where the controller is."""

import pytest

from barnabas.wire.apis import ALTER_CLIENT_QUOTAS, CREATE_TOPICS, DESCRIBE_CLIENT_QUOTAS
from tests.unit.edge.kafka.calling import Caller, FakeConnection, batch
from tests.unit.edge.kafka.clustered import NO_LEADER, Cluster, run

NOT_CONTROLLER, THROTTLING_QUOTA_EXCEEDED = 41, 89


async def set_quota(cluster: Cluster, node_id: int, name: str, value: float) -> int:
    entity = [{"entity_type": "client-id", "entity_name": None}]
    op = {"key": name, "value": value, "remove": False}
    answer = await cluster.ask(
        node_id, ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": [op]}], validate_only=False
    )
    (entry,) = answer.entries
    assert entry.entity[0].entity_type == "client-id"
    return int(entry.error_code.value)


def test_a_quota_that_was_set_on_one_node_holds_on_all() -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await set_quota(cluster, 2, "producer_byte_rate", 100.0) == 0
        for node_id in (2, 3):
            answer = await cluster.ask(node_id, DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False)
            (entry,) = answer.entries
            assert [(each.key, each.value) for each in entry.values] == [("producer_byte_rate", 100.0)]
            assert cluster.brokers[node_id].quotas.is_on
        connection = FakeConnection()
        client = Caller(cluster.brokers[3], connection)
        client.produce("orders", batch(bytes(2_000)))
        assert connection.muted == [pytest.approx(11, abs=1)]

    run(scenario, nodes=3)


def test_without_a_controller_quotas_are_not_altered() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.quorum.elect(NO_LEADER)
        assert await set_quota(cluster, 2, "producer_byte_rate", 100.0) == NOT_CONTROLLER

    run(scenario)


@pytest.mark.parametrize("version", [2, 4, 5, 6, 7])
def test_a_client_over_its_quota_of_changes_is_held_by_the_node_that_it_asked(version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await set_quota(cluster, 2, "controller_mutation_rate", 1.0) == 0
        connection = FakeConnection()
        client = Caller(cluster.brokers[2], connection)

        async def create(name: str) -> tuple[int, float]:
            topic = {"name": name, "num_partitions": 20, "replication_factor": 1, "assignments": [], "configs": []}
            answer = await client.request(
                CREATE_TOPICS, version, topics=[topic], timeout=30_000, validate_only=False
            ).read()
            return int(answer.topics[0].error_code.value), answer.throttle_time.total_seconds()

        first_code, first_s = await create("one")
        second_code, second_s = await create("two")
        is_strict = version >= 6
        assert (first_code, second_code) == (0, THROTTLING_QUOTA_EXCEEDED if is_strict else 0)
        assert first_s == pytest.approx(0 if is_strict else 9, abs=1)
        assert second_s == pytest.approx(9 if is_strict else 29, abs=1)
        assert connection.muted == [each for each in (first_s, second_s) if each]

    run(scenario)
