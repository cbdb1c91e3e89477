"""What admin clients ask of a cluster that is one node, and of the topics in which it keeps its own state."""

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions

from barnabas.client import Bus
from barnabas.core.errors import InvalidTopic, PolicyViolation
from tests.conformance.broker.clients import TIMEOUT_S
from tests.conformance.broker.test_admin import code_of, settings_of

OFFSETS = "__consumer_offsets"


@pytest.fixture
def offsets_topic(bootstrap: str, topic: str) -> str:
    """The topic of groups, which the first commit makes."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": f"group-of-{topic}"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    return OFFSETS


def test_the_topic_of_groups_is_neither_deleted_nor_grown_nor_cleaned_by_age(
    admin: AdminClient, offsets_topic: str
) -> None:
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    by_age = ConfigResource(ResourceType.TOPIC, offsets_topic, incremental_configs=[entry])
    asked: list[Any] = [
        *admin.delete_topics([offsets_topic]).values(),
        *admin.create_partitions([NewPartitions(offsets_topic, 99)]).values(),
        *admin.incremental_alter_configs([by_age]).values(),
    ]
    for each in asked:
        with pytest.raises(KafkaException) as refused:
            each.result(TIMEOUT_S)
        assert code_of(refused) == KafkaError.POLICY_VIOLATION
    assert offsets_topic in admin.list_topics(timeout=TIMEOUT_S).topics


def test_the_sdk_says_why_the_topic_of_groups_is_spared(bootstrap: str, offsets_topic: str) -> None:
    with Bus(bootstrap) as bus:
        with pytest.raises(PolicyViolation, match=r"in it; .* internal\.topics\.alter\.enable=true$"):
            bus.delete_topic(offsets_topic)
        with pytest.raises(InvalidTopic, match=r"in it, and no setting allows that$"):
            bus.truncate(offsets_topic, 0)


def test_no_acl_is_made_without_an_authorizer(admin: AdminClient) -> None:
    # Of a list of them librdkafka reads no error, and finds none.
    rule = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:somebody",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    (made,) = admin.create_acls([rule]).values()
    with pytest.raises(KafkaException) as refused:
        made.result(TIMEOUT_S)
    assert code_of(refused) == KafkaError.SECURITY_DISABLED


def test_a_setting_of_the_running_broker_is_altered_and_given_back(admin: AdminClient) -> None:
    def alter(operation: AlterConfigOpType, name: str, value: str | None) -> None:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        (altered,) = admin.incremental_alter_configs([resource]).values()
        altered.result(TIMEOUT_S)

    alter(AlterConfigOpType.SET, "max.connections", "5000")
    broker = ConfigResource(ResourceType.BROKER, "1")
    found = settings_of(admin, broker)["max.connections"]
    assert (found.value, found.is_read_only) == ("5000", False)
    alter(AlterConfigOpType.DELETE, "max.connections", None)
    assert settings_of(admin, broker)["max.connections"].value == "10000"
    with pytest.raises(KafkaException) as refused:
        alter(AlterConfigOpType.SET, "listeners", "PLAINTEXT://:1")
    assert code_of(refused) == KafkaError.INVALID_REQUEST
