"""CreateAcls, DescribeAcls and DeleteAcls: from the request to what clients may do."""

import asyncio
import json
import logging
from typing import Any

import pytest

from barnabas.core.access.resources import Operation, topic
from barnabas.runtime import log_lines
from barnabas.services import acls as service
from barnabas.services.audit import log as audit_log
from barnabas.services.broker import Broker
from barnabas.services.session import Principal, Session
from barnabas.wire.apis import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_ACLS,
    CREATE_TOPICS,
    DELETE_ACLS,
    DELETE_TOPICS,
    DESCRIBE_ACLS,
    ELECT_LEADERS,
    INCREMENTAL_ALTER_CONFIGS,
    METADATA,
)
from tests.unit.edge.kafka.calling import Caller, batch
from tests.unit.edge.kafka.clustered import Cluster
from tests.unit.edge.kafka.clustered import run as run_cluster
from tests.unit.edge.kafka.support import ask, ask_as, config_of, create, new_session, run

SETTINGS = {"authorizer_class_name": "acl", "super_users": "User:ANONYMOUS; User:root"}
AUTHORIZING = config_of(**SETTINGS)
INVALID, POLICY, TOPIC_REFUSED, CLUSTER_REFUSED = 42, 44, 29, 31


def acl(name: str = "orders", **fields: Any) -> dict[str, Any]:
    usual = {"resource_type": 2, "resource_pattern_type": 3, "principal": "User:alice", "host": "*"}
    return {**usual, "resource_name": name, "operation": 4, "permission_type": 3, **fields}


def any_filter(**fields: Any) -> dict[str, Any]:
    return {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1, **fields}


async def make(broker: Broker, *acls: dict[str, Any]) -> list[int]:
    answer = await ask(broker, CREATE_ACLS, 3, creations=list(acls))
    return [each.error_code.value for each in answer.results]


async def listed(broker: Broker, **fields: Any) -> list[tuple[str, str, int]]:
    answer = await ask(broker, DESCRIBE_ACLS, 3, **any_filter(**fields))
    assert answer.error_code.value == 0
    return [
        (resource.resource_name, each.principal, int(each.operation))
        for resource in answer.resources
        for each in resource.acls
    ]


def alice() -> Session:
    session = new_session()
    session.principal = Principal("User", "alice")
    return session


def test_what_an_acl_allows_is_allowed_as_soon_as_it_is_answered_and_no_longer_than_it_is_there() -> None:
    async def scenario(broker: Broker) -> None:
        may = broker.access.permits
        assert not may(alice(), Operation.WRITE, topic("orders"))
        assert await make(broker, acl()) == [0]
        assert may(alice(), Operation.WRITE, topic("orders"))
        assert not may(alice(), Operation.WRITE, topic("payments"))
        answer = await ask(broker, DELETE_ACLS, 3, filters=[any_filter(principal_filter="User:alice")])
        (result,) = answer.filter_results
        assert [(each.resource_name, each.principal) for each in result.matching_acls] == [("orders", "User:alice")]
        assert not may(alice(), Operation.WRITE, topic("orders"))
        assert broker.image.acls == {}

    run(scenario, AUTHORIZING)


def test_the_same_acl_is_there_once_however_often_it_is_created() -> None:
    async def scenario(broker: Broker) -> None:
        assert await make(broker, acl(), acl(), acl("b")) == [0, 0, 0]
        offset = broker.metadata.applied_offset
        assert await make(broker, acl()) == [0]
        assert broker.metadata.applied_offset == offset, "nothing was written"
        assert await listed(broker) == [("b", "User:alice", 4), ("orders", "User:alice", 4)]

    run(scenario, AUTHORIZING)


def test_an_invalid_acl_is_refused_alone_and_so_is_one_too_many() -> None:
    async def scenario(broker: Broker) -> None:
        wrong = [acl(resource_type=4), acl(""), acl(principal="alice"), acl(host="there"), acl(operation=1)]
        assert await make(broker, *wrong, acl("a"), acl("b"), acl("c"), acl("a")) == [INVALID] * 5 + [0, 0, POLICY, 0]
        assert len(broker.image.acls) == 2

    run(scenario, config_of(**SETTINGS, authorizer_max_acls="2"))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "* or orders"),
        ({"pattern_type_filter": 3}, "* orders"),
        ({"pattern_type_filter": 4}, "or"),
        ({"pattern_type_filter": 2, "resource_name_filter": "orders"}, "* or orders"),
        ({"pattern_type_filter": 2, "resource_name_filter": "payments"}, "*"),
        ({"pattern_type_filter": 3, "resource_name_filter": "orders"}, "orders"),
        ({"principal_filter": "User:bob"}, "*"),
        ({"host_filter": "10.0.0.7"}, "or"),
        ({"operation": 3}, "*"),
        ({"permission_type": 2}, "or"),
        ({"resource_type_filter": 3}, ""),
    ],
)
def test_a_filter_lists_and_deletes_the_same_acls(wanted: dict[str, Any], found: str) -> None:
    async def scenario(broker: Broker) -> None:
        prefixed = acl("or", resource_pattern_type=4, host="10.0.0.7", permission_type=2)
        assert await make(broker, acl(), prefixed, acl("*", principal="User:bob", operation=3)) == [0, 0, 0]
        assert [name for name, _, _ in await listed(broker, **wanted)] == found.split()
        (result,) = (await ask(broker, DELETE_ACLS, 3, filters=[any_filter(**wanted)])).filter_results
        assert sorted(each.resource_name for each in result.matching_acls) == found.split()
        assert {name for name, _, _ in await listed(broker)} == {"orders", "or", "*"} - set(found.split())

    run(scenario, AUTHORIZING)


def test_a_filter_that_can_select_one_acl_alone_is_looked_up_and_several_filters_each_tell_theirs() -> None:
    async def scenario(broker: Broker) -> None:
        await make(broker, acl("a"), acl("b"))
        exact = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 4, "permission_type": 3}
        one = {**exact, "resource_name_filter": "a", "principal_filter": "User:alice", "host_filter": "*"}
        filters = [one, {**one, "resource_name_filter": "none"}, any_filter(), any_filter(operation=77)]
        results = (await ask(broker, DELETE_ACLS, 3, filters=filters)).filter_results
        names = [[each.resource_name for each in result.matching_acls] for result in results]
        assert [names[0], names[1], sorted(names[2]), names[3]] == [["a"], [], ["a", "b"], []]
        assert [result.error_code.value for result in results] == [0, 0, 0, INVALID]

    run(scenario, AUTHORIZING)


def test_a_request_with_too_many_searches_or_results_deletes_nothing_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(broker: Broker) -> None:
        await make(broker, *(acl(f"a{number}") for number in range(10)))
        monkeypatch.setattr(service, "MAX_SEARCHES", 1)
        filters = [any_filter(principal_filter=f"User:{name}") for name in ("bob", "carol")]
        results = (await ask(broker, DELETE_ACLS, 3, filters=filters)).filter_results
        assert [result.error_code.value for result in results] == [0, INVALID]
        monkeypatch.setattr(service, "MAX_FOUND", 9)
        (result,) = (await ask(broker, DELETE_ACLS, 3, filters=[any_filter()])).filter_results
        assert (result.error_code.value, len(broker.image.acls)) == (INVALID, 10)

    run(scenario, AUTHORIZING)


def test_a_client_without_alter_on_the_cluster_changes_no_acl_and_sees_none() -> None:
    async def scenario(broker: Broker) -> None:
        await make(broker, acl())
        made = await ask_as(alice(), broker, CREATE_ACLS, 3, {"creations": [acl("b"), acl("c")]})
        assert [each.error_code.value for each in made.results] == [CLUSTER_REFUSED] * 2
        gone = await ask_as(alice(), broker, DELETE_ACLS, 3, {"filters": [any_filter()]})
        assert [each.error_code.value for each in gone.filter_results] == [CLUSTER_REFUSED]
        denied = broker.access.denied
        seen = await ask_as(alice(), broker, DESCRIBE_ACLS, 3, any_filter())
        assert broker.access.denied == denied + 1
        assert (seen.error_code.value, seen.resources) == (CLUSTER_REFUSED, ())
        assert len(broker.image.acls) == 1

    run(scenario, AUTHORIZING)


def test_thousands_of_acls_are_created_listed_and_deleted() -> None:
    async def scenario(broker: Broker) -> None:
        count = 2000
        assert set(await make(broker, *(acl(f"topic-{number}") for number in range(count)))) == {0}
        assert len(await listed(broker)) == count
        (result,) = (await ask(broker, DELETE_ACLS, 3, filters=[any_filter()])).filter_results
        assert (len(result.matching_acls), len(broker.image.acls)) == (count, 0)

    run(scenario, AUTHORIZING)


# In a cluster

CLUSTERED = {key.replace("_", "."): text for key, text in SETTINGS.items()}
NEW = {"topics": [{"name": "mine", "num_partitions": 1, "replication_factor": 1}]}


def test_a_change_is_authorized_by_the_controller_for_whoever_asked_another_node() -> None:
    async def scenario(cluster: Cluster) -> None:
        session = cluster.callers[2].client.session
        session.principal = Principal("User", "root")
        creation = acl("mine", operation=5)
        made = await cluster.ask(2, CREATE_ACLS, 3, creations=[creation, acl("mine", operation=4, principal="x")])
        assert [each.error_code.value for each in made.results] == [0, INVALID]
        assert all(len(broker.image.acls) == 1 for broker in cluster.brokers.values()), "applied where it was asked"
        for principal, code in (("bob", TOPIC_REFUSED), ("alice", 0), ("alice", 36)):
            session.principal = Principal("User", principal)
            answer = await cluster.ask(2, CREATE_TOPICS, 7, **NEW)
            assert [each.error_code.value for each in answer.topics] == [code]
        denied = await cluster.ask(2, DELETE_ACLS, 3, filters=[any_filter()])
        assert [each.error_code.value for each in denied.filter_results] == [CLUSTER_REFUSED]

    run_cluster(scenario, settings=dict.fromkeys((1, 2), CLUSTERED))


def test_a_node_creates_what_it_needs_itself_whoever_made_it_necessary() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.callers[2].client.session.principal = Principal("User", "alice")
        await cluster.brokers[2].groups.create_topic()
        assert "__consumer_offsets" in cluster.brokers[2].image.topics

    run_cluster(scenario, settings=dict.fromkeys((1, 2), CLUSTERED))


# What is not told


def test_a_refusal_does_not_name_a_topic_that_the_client_did_not_name() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "secret")
        topic_id = broker.image.topics["secret"].topic_id
        caller = Caller(broker)
        caller.client.session.principal = Principal("User", "alice")
        answers = [
            await caller.produced("secret", batch(b"v"), version=13),
            await caller.request(METADATA, 12, topics=[{"name": None, "topic_id": topic_id}]).read(),
            await caller.request(DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": topic_id}]).read(),
            await caller.request(ELECT_LEADERS, 2, topic_partitions=None).read(),
        ]
        assert all("secret" not in repr(answer) for answer in answers), answers
        both = [{"name": "secret"}, {"name": None, "topic_id": topic_id}]
        deleted = await caller.request(DELETE_TOPICS, 6, topics=both).read()
        assert [each.error_code.value for each in deleted.responses] == [TOPIC_REFUSED] * 2, "not that they are one"

    run(scenario, AUTHORIZING)


def test_who_may_see_a_topic_but_not_delete_it_is_told_its_name() -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "orders")
        await make(broker, acl(operation=8))
        topic_id = broker.image.topics["orders"].topic_id
        request = {"topics": [{"name": None, "topic_id": topic_id}]}
        (deleted,) = (await ask_as(alice(), broker, DELETE_TOPICS, 6, request)).responses
        assert (deleted.name, deleted.error_code.value) == ("orders", TOPIC_REFUSED)

    run(scenario, AUTHORIZING)


def test_who_creates_a_topic_is_told_its_settings_only_with_permission() -> None:
    async def scenario(broker: Broker) -> None:
        await make(broker, acl("mine", operation=5))
        (told,) = (await ask_as(alice(), broker, CREATE_TOPICS, 7, NEW)).topics
        assert (told.error_code.value, told.configs, told.num_partitions) == (0, None, -1)
        assert told.topic_config_error_code == TOPIC_REFUSED
        await ask(broker, DELETE_TOPICS, 6, topics=[{"name": "mine"}])
        await make(broker, acl("mine", operation=10))
        (told,) = (await ask_as(alice(), broker, CREATE_TOPICS, 7, NEW)).topics
        assert (told.topic_config_error_code, told.num_partitions) == (0, 1)
        assert told.configs is not None

    run(scenario, AUTHORIZING)


def test_an_expression_matches_only_topics_that_who_subscribes_with_it_may_see() -> None:
    async def scenario(broker: Broker) -> None:
        for name in ("the-open", "the-secret"):
            await create(broker, name)
        await make(broker, acl("the-open", operation=8), acl("g", resource_type=3, operation=3))

        epoch = 0

        async def beat(**fields: Any) -> None:
            nonlocal epoch
            member = {"group_id": "g", "member_id": "m", "member_epoch": epoch, "rebalance_timeout": 1000}
            answer = await ask_as(alice(), broker, CONSUMER_GROUP_HEARTBEAT, 1, {**member, **fields})
            assert answer.error_code.value == 0
            epoch = answer.member_epoch

        async def read() -> set[str]:
            for _ in range(3):  # what is matched and assigned comes with the next heartbeats
                await asyncio.sleep(1)
                await beat()
            (group,) = (await ask(broker, CONSUMER_GROUP_DESCRIBE, 1, group_ids=("g",))).groups
            return {each.topic_name for each in group.members[0].assignment.topic_partitions}

        await beat(subscribed_topic_regex="the-.*", topic_partitions=())
        assert await read() == {"the-open"}
        await make(broker, acl("the-new", operation=8), acl("the-later", operation=8))
        for name in ("the-new", "the-other"):
            await create(broker, name)
        assert await read() == {"the-open", "the-new"}
        subscribers = broker.groups._coordinators.subscribers
        assert subscribers is not None
        subscribers._clients.clear()  # as after a restart
        await create(broker, "the-later")
        (group,) = (await ask(broker, CONSUMER_GROUP_DESCRIBE, 1, group_ids=("g",))).groups
        assert "the-later" not in repr(group), "nothing is added before it is known who reads"
        assert await read() == {"the-open", "the-new", "the-later"}

    run(scenario, AUTHORIZING, is_virtual=True)


# The audit log


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == audit_log.name]


@pytest.mark.parametrize("wanted", ["none", "denied", "all"])
def test_the_audit_log_has_what_was_asked_for_and_is_off_by_default(
    wanted: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(broker: Broker) -> None:
        await create(broker, "orders")
        await make(broker, acl())
        caplog.clear()
        caller = Caller(broker)
        caller.client.session.principal = Principal("User", "alice")
        assert await caller.refusal("orders", batch(b"v")) == 0
        assert (await caller.fetched(("orders", 0, 0))).error_code.value == TOPIC_REFUSED
        await caller.request(METADATA, 12, topics=None).read()

    caplog.set_level(logging.INFO)
    settings = {} if wanted == "none" else {"authorizer_audit_log": wanted}
    run(scenario, config_of(**SETTINGS, **settings))
    lines = audited(caplog)
    denied = {
        "allowed": False,
        "principal": "User:alice",
        "host": "127.0.0.1",
        "listener": "PLAINTEXT",
        "client_id": "c",
        "request": "fetch",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource": "orders",
        "forwarded": False,
    }
    written = {**denied, "allowed": True, "request": "produce", "operation": "WRITE"}
    described = {**denied, "allowed": True, "request": "metadata", "operation": "DESCRIBE"}
    assert lines == {"none": [], "denied": [denied], "all": [written, denied, described]}[wanted]


def test_the_audit_log_is_turned_on_while_the_broker_runs(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(broker: Broker) -> None:
        config = {"name": "authorizer.audit.log", "value": "denied", "config_operation": 0}
        resource = {"resource_type": 4, "resource_name": "", "configs": [config]}
        altered = await ask(broker, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
        assert altered.responses[0].error_code.value == 0
        await ask_as(alice(), broker, METADATA, 12, {"topics": [{"name": "x"}]})

    caplog.set_level(logging.INFO)
    run(scenario, AUTHORIZING)
    assert [line["resource"] for line in audited(caplog)] == ["x"]


def test_a_client_cannot_forge_a_line_of_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(broker: Broker) -> None:
        session = alice()
        session.client_id = 'c", "allowed": true}\n{"allowed": true, "x": "\u2028\x85\x1b[2J'
        await ask_as(session, broker, METADATA, 12, {"topics": [{"name": "\n" + "y" * 5000}]})

    caplog.set_level(logging.INFO)
    run(scenario, config_of(**SETTINGS, authorizer_audit_log="denied"))
    (record,) = [each for each in caplog.records if each.name == audit_log.name]
    assert record.getMessage().isascii()
    assert record.getMessage().isprintable()
    assert len(record.getMessage()) < log_lines.LONGEST_LINE
    (line,) = audited(caplog)
    assert line["allowed"] is False
    assert line["client_id"].startswith('c", "allowed": true}\n')
