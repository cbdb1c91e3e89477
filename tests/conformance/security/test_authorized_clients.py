"""Users who log in, and ACLs: what stock clients and our own may do, over real sockets."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.cimpl import NewTopic

from barnabas.client import Bus
from barnabas.core.errors import BarnabasError
from barnabas.testing.embedded import EmbeddedBroker

TIMEOUT_S = 30
PASSWORD = "a secret"
GRANTS = (
    ("ann", ResourceType.TOPIC, "orders", AclOperation.READ, AclPermissionType.ALLOW),
    ("ann", ResourceType.TOPIC, "orders", AclOperation.WRITE, AclPermissionType.ALLOW),
    ("ann", ResourceType.GROUP, "billing", AclOperation.READ, AclPermissionType.ALLOW),
    ("ann", ResourceType.TRANSACTIONAL_ID, "t", AclOperation.WRITE, AclPermissionType.ALLOW),
    ("bob", ResourceType.TOPIC, "orders", AclOperation.READ, AclPermissionType.ALLOW),
    ("bob", ResourceType.TOPIC, "ord", AclOperation.READ, AclPermissionType.DENY),
)
"""The last is prefixed, and wins over what allows the literal name."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,LOCAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,LOCAL:PLAINTEXT",
        "inter.broker.listener.name": "LOCAL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "authorizer.class.name": "acl",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
    }
    with EmbeddedBroker(settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_of("LOCAL")})
        admin.create_topics([NewTopic("orders", 1), NewTopic("hidden", 1)])["hidden"].result(TIMEOUT_S)
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        for user in ("ann", "bob"):
            change = UserScramCredentialUpsertion(user, scram, PASSWORD.encode())
            admin.alter_user_scram_credentials([change])[user].result(TIMEOUT_S)
        for user, kind, name, operation, permission in GRANTS:
            pattern = ResourcePatternType.PREFIXED if name == "ord" else ResourcePatternType.LITERAL
            acl = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)
            admin.create_acls([acl])[acl].result(TIMEOUT_S)
        assert produced({"bootstrap.servers": broker.bootstrap_of("LOCAL")}, "orders") is None
        yield broker


def of(broker: EmbeddedBroker, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap_of("CLIENTS"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }


def produced(config: dict[str, Any], topic: str) -> int | None:
    met: list[int | None] = []
    producer = Producer({**config, "message.timeout.ms": TIMEOUT_S * 1000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: met.append(None if error is None else error.code()))
    assert producer.flush(TIMEOUT_S) == 0
    return met[0]


def consumed(config: dict[str, Any], group: str) -> int | None:
    """The error that a member of a group meets first; None if it gets a record."""
    consumer = Consumer({**config, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        return None if error is None else error.code()
    finally:
        consumer.close()


def test_producing_and_groups_need_what_is_granted(broker: EmbeddedBroker) -> None:
    ann, bob = of(broker, "ann"), of(broker, "bob")
    assert produced(ann, "orders") is None
    assert produced(ann, "hidden") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produced(bob, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consumed(ann, "billing") is None
    assert consumed(ann, "another") == KafkaError.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("transactional_id", "is_allowed"), [("t", True), ("another", False)])
def test_transactions_need_their_id(broker: EmbeddedBroker, transactional_id: str, is_allowed: bool) -> None:
    producer = Producer({**of(broker, "ann"), "transactional.id": transactional_id})
    if not is_allowed:
        with pytest.raises(KafkaException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            producer.init_transactions(TIMEOUT_S)
        return
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("orders", b"in a transaction")
    producer.commit_transaction(TIMEOUT_S)


def test_what_is_not_granted_is_not_listed_and_not_changed(broker: EmbeddedBroker) -> None:
    admin = AdminClient(of(broker, "ann"))
    assert "hidden" not in admin.list_topics(timeout=TIMEOUT_S).topics
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        admin.delete_topics(["orders"])["orders"].result(TIMEOUT_S)
    change = UserScramCredentialUpsertion("eve", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"x")
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        admin.alter_user_scram_credentials([change])["eve"].result(TIMEOUT_S)


def bus_of(broker: EmbeddedBroker, user: str) -> Bus:
    config = of(broker, user)
    return Bus(config.pop("bootstrap.servers"), config=config, timeout=TIMEOUT_S, connect_timeout=TIMEOUT_S)


def test_a_reader_without_a_group_needs_the_topic_alone(broker: EmbeddedBroker) -> None:
    with bus_of(broker, "ann") as bus:
        bus.send("orders", "first").result(TIMEOUT_S)
        assert next(iter(bus.consume("orders", until_end=True))) is not None
        assert bus.get("orders", 0, 0) is not None


def test_a_prefixed_denial_wins_over_a_literal_grant(broker: EmbeddedBroker) -> None:
    with bus_of(broker, "bob") as bus, pytest.raises(BarnabasError):
        list(bus.consume("orders", until_end=True))
