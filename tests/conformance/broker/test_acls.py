"""ACLs with real clients: made by confluent-kafka, kafka-python and the command line, and felt by clients."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from barnabas.cli.main import app, run
from barnabas.client import Bus
from barnabas.core.errors import TopicAuthorizationFailed
from barnabas.testing.embedded import EmbeddedBroker
from tests.conformance.broker.clients import TIMEOUT_S

AUTHORIZING = {"authorizer.class.name": "acl"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker({**AUTHORIZING, "super.users": "User:ANONYMOUS"}) as broker:
        yield broker.bootstrap


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def binding(name: str, pattern: ResourcePatternType = ResourcePatternType.LITERAL) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, pattern, "User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW
    )  # fmt: skip


def matching(name: str, pattern: ResourcePatternType) -> AclBindingFilter:
    anybody: Any = None  # which its types do not know
    return AclBindingFilter(
        ResourceType.TOPIC, name, pattern, anybody, anybody, AclOperation.ANY, AclPermissionType.ANY
    )


def test_confluent_kafka_creates_describes_and_deletes(admin: AdminClient) -> None:
    orders, all_of_or = binding("orders"), binding("or", ResourcePatternType.PREFIXED)
    for made in admin.create_acls([orders, all_of_or]).values():
        made.result(TIMEOUT_S)
    wanted = matching("orders", ResourcePatternType.MATCH)
    assert set(admin.describe_acls(wanted).result(TIMEOUT_S)) == {orders, all_of_or}
    assert admin.describe_acls(matching("orders", ResourcePatternType.LITERAL)).result(TIMEOUT_S) == [orders]
    (deleted,) = admin.delete_acls([wanted]).values()
    assert set(deleted.result(TIMEOUT_S)) == {orders, all_of_or}
    assert admin.describe_acls(wanted).result(TIMEOUT_S) == []


def test_confluent_kafka_hears_why_an_acl_is_refused(admin: AdminClient) -> None:
    wrong = AclBinding(
        ResourceType.BROKER, "x", ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW
    )  # fmt: skip
    (made,) = admin.create_acls([wrong]).values()
    with pytest.raises(KafkaException) as refused:
        made.result(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST


def test_kafka_python_creates_describes_and_deletes(bootstrap: str) -> None:
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=bootstrap)
    pattern = kafka.admin.ResourcePattern(kafka.admin.ResourceType.GROUP, "billing")
    acl = kafka.admin.ACL(
        "User:bob", "10.0.0.7", kafka.admin.ACLOperation.READ, kafka.admin.ACLPermissionType.DENY, pattern
    )
    assert admin.create_acls([acl])["failed"] == []
    wanted = kafka.admin.ACLFilter(
        "User:bob",
        "10.0.0.7",
        kafka.admin.ACLOperation.ANY,
        kafka.admin.ACLPermissionType.ANY,
        kafka.admin.ResourcePatternFilter(
            kafka.admin.ResourceType.GROUP, "billing", kafka.admin.ACLResourcePatternType.LITERAL
        ),
    )
    found, _ = admin.describe_acls(wanted)
    assert found == [acl]
    ((_, deleted, _),) = admin.delete_acls([wanted])
    assert deleted == [acl]
    admin.close()


def test_the_command_line_adds_lists_and_removes(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    def barnabas(*arguments: str) -> list[dict[str, str]]:
        with pytest.raises(SystemExit) as leaving:
            run(app, ["acl", *arguments, "--json", "-b", bootstrap])
        assert leaving.value.code in (0, None)
        found: list[dict[str, str]] = json.loads(capsys.readouterr().out)
        return found

    consumer = ("--allow-principal", "User:carol", "--consumer", "--topic", "orders", "--group", "billing")
    added = barnabas("add", *consumer)
    assert [(each["operation"], each["resource_name"]) for each in added] == [
        ("Read", "orders"),
        ("Describe", "orders"),
        ("Read", "billing"),
    ]
    of_carol = ("--principal", "User:carol")
    assert sorted(map(str, barnabas("list", *of_carol))) == sorted(map(str, added))
    assert len(barnabas("list", "--group", "billing", *of_carol)) == 1
    assert len(barnabas("remove", *consumer, "--yes")) == 3
    assert barnabas("list", *of_carol) == []


def test_clients_may_do_what_acls_say_and_these_outlive_a_restart(tmp_path: Path) -> None:
    """Everybody is ANONYMOUS without authentication: an administrator first, and an ordinary user then."""
    everybody = ("--allow-principal", "User:ANONYMOUS", "--topic", "open")
    with EmbeddedBroker({**AUTHORIZING, "super.users": "User:ANONYMOUS"}, data_dir=str(tmp_path)) as broker:
        with Bus(broker.bootstrap) as bus:
            bus.create_topic("open")
            bus.create_topic("secret")
        with pytest.raises(SystemExit):
            run(app, ["acl", "add", "-b", broker.bootstrap, *everybody, "--operation", "Write"])
    with EmbeddedBroker({**AUTHORIZING, "super.users": "User:root"}, data_dir=str(tmp_path)) as broker:
        failures: list[object] = []
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
        for topic in ("open", "secret"):
            producer.produce(topic, b"v", on_delivery=lambda error, _: failures.append(error and error.code()))
        assert producer.flush(TIMEOUT_S) == 0
        assert sorted(failures, key=str) == [KafkaError.TOPIC_AUTHORIZATION_FAILED, None]
        listed = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=TIMEOUT_S)
        assert set(listed.topics) == {"open"}
        with Bus(broker.bootstrap) as bus, pytest.raises(TopicAuthorizationFailed):
            bus.describe_topic("secret")
