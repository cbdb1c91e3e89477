"""What only a larger cluster can do: reassignments, log directories, brokers that leave, features, and no ACLs."""

from typing import Any

import pytest

from barnabas.core.metadata.levels import LATEST_LEVEL
from barnabas.services.broker import Broker
from barnabas.wire.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_REPLICA_LOG_DIRS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    LIST_PARTITION_REASSIGNMENTS,
    UNREGISTER_BROKER,
    UPDATE_FEATURES,
)
from tests.unit.edge.kafka.support import NODE_ID, ask, create, run

SECURITY_DISABLED = 54
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@pytest.mark.parametrize(
    ("topic", "partition", "replicas", "code"),
    [
        ("a", 0, (NODE_ID,), 0),
        ("a", 0, (7,), 39),
        ("a", 0, (NODE_ID, 7), 39),
        ("a", 0, (NODE_ID, NODE_ID), 39),
        ("a", 0, (), 39),
        ("a", 0, None, 85),
        ("a", 9, (NODE_ID,), 3),
        ("not-there", 0, (NODE_ID,), 3),
        ("not-there", 0, None, 3),
    ],
)
def test_a_partition_stays_where_it_is(topic: str, partition: int, replicas: tuple[int, ...] | None, code: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        before = broker.metadata.applied_offset
        partitions = [{"partition_index": partition, "replicas": replicas}]
        request = {"topics": [{"name": topic, "partitions": partitions}], "allow_replication_factor_change": True}
        answer = await ask(broker, ALTER_PARTITION_REASSIGNMENTS, 1, **request)
        (result,) = answer.responses[0].partitions
        assert (answer.error_code.value, result.partition_index, result.error_code.value) == (0, partition, code)
        assert (result.error_message is None) is (code == 0)
        assert broker.metadata.applied_offset == before

    run(scenario)


@pytest.mark.parametrize(
    "topics", [None, [{"name": "a", "partition_indexes": (0,)}, {"name": "no", "partition_indexes": (0,)}]]
)
def test_no_reassignment_is_in_progress(topics: Any) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        answer = await ask(broker, LIST_PARTITION_REASSIGNMENTS, 0, topics=topics)
        assert (answer.error_code.value, answer.topics) == (0, ())

    run(scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_can_be_moved_to_the_directory_it_is_in(version: int) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "a")
        dirs = [
            {"path": "/data", "topics": [{"name": "a", "partitions": (0, 9)}, {"name": "no", "partitions": (0,)}]},
            {"path": "/other", "topics": [{"name": "b", "partitions": (0,)}]},
        ]
        answer = await ask(broker, ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
        found = {
            (topic.topic_name, each.partition_index): each.error_code.value
            for topic in answer.results
            for each in topic.partitions
        }
        assert found == {("a", 0): 0, ("a", 9): 9, ("no", 0): 9, ("b", 0): 57}

    run(scenario)


@pytest.mark.parametrize(("node", "code"), [(9, 102), (NODE_ID, 42)])
def test_neither_an_unknown_broker_nor_a_running_one_is_unregistered(node: int, code: int) -> None:
    async def scenario(broker: Broker) -> None:
        answer = await ask(broker, UNREGISTER_BROKER, 0, broker_id=node)
        assert (answer.error_code.value, bool(answer.error_message)) == (code, True)
        assert NODE_ID in broker.image.nodes

    run(scenario)


@pytest.mark.parametrize(
    ("name", "level", "kind", "code"),
    [
        ("group.version", 1, UPGRADE, 0),
        ("transaction.version", 2, SAFE_DOWNGRADE, 0),
        ("metadata.version", LATEST_LEVEL, UPGRADE, 0),
        ("no.such.feature", 0, UPGRADE, 0),
        ("no.such.feature", 1, UPGRADE, 95),
        ("group.version", 2, UPGRADE, 95),
        ("group.version", -1, UPGRADE, 95),
        ("group.version", 0, UPGRADE, 95),
        ("group.version", 0, UNSAFE_DOWNGRADE, 95),
        ("group.version", 1, 9, 95),
        ("metadata.version", 6, SAFE_DOWNGRADE, 95),
    ],
)
@pytest.mark.parametrize("validate_only", [True, False])
def test_a_feature_stays_at_its_level(name: str, level: int, kind: int, code: int, *, validate_only: bool) -> None:
    async def scenario(broker: Broker) -> None:
        update = {"feature": name, "max_version_level": level, "upgrade_type": kind}
        request = {"feature_updates": [update], "validate_only": validate_only}
        for version in (1, 2):
            answer = await ask(broker, UPDATE_FEATURES, version, **request)
            assert (answer.error_code.value, answer.error_message is None) == (code, code == 0)
            if version == 1:
                assert [each.feature for each in answer.results] == ([name] if code == 0 else [])

    run(scenario)


def test_one_update_that_cannot_be_done_refuses_all_of_a_request() -> None:
    async def scenario(broker: Broker) -> None:
        updates = [
            {"feature": "group.version", "max_version_level": 1, "upgrade_type": UPGRADE},
            {"feature": "transaction.version", "max_version_level": 3, "upgrade_type": UPGRADE},
        ]
        answer = await ask(broker, UPDATE_FEATURES, 1, feature_updates=updates)
        assert (answer.error_code.value, answer.results) == (95, ())
        assert "transaction.version" in answer.error_message

    run(scenario)


@pytest.mark.parametrize("allow_downgrade", [True, False])
def test_the_oldest_version_says_whether_a_level_may_go_down(*, allow_downgrade: bool) -> None:
    async def scenario(broker: Broker) -> None:
        update = {"feature": "group.version", "max_version_level": 0, "allow_downgrade": allow_downgrade}
        answer = await ask(broker, UPDATE_FEATURES, 0, feature_updates=[update])
        assert answer.error_code.value == 95
        assert ("cannot be changed" in answer.error_message) is allow_downgrade

    run(scenario)


def test_without_an_authorizer_there_are_no_acls() -> None:
    async def scenario(broker: Broker) -> None:
        listed = await ask(broker, DESCRIBE_ACLS, 3, resource_type_filter=2)
        assert (listed.error_code.value, bool(listed.error_message), listed.resources) == (SECURITY_DISABLED, True, ())
        rule = {"resource_type": 2, "resource_name": "a", "principal": "User:x", "host": "*"}
        made = await ask(broker, CREATE_ACLS, 3, creations=[rule, rule])
        assert [each.error_code.value for each in made.results] == [SECURITY_DISABLED] * 2
        gone = await ask(broker, DELETE_ACLS, 3, filters=[{"resource_type_filter": 2}])
        assert [(each.error_code.value, each.matching_acls) for each in gone.filter_results] == [
            (SECURITY_DISABLED, ())
        ]

    run(scenario)
