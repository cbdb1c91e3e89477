"""Nodes that know each other by certificates alone (mTLS), with an authorizer and without SASL."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from barnabas.client import Bus
from barnabas.core.errors import InvalidConfig
from barnabas.testing.cluster.ports import find_free
from barnabas.testing.embedded import EmbeddedBroker

TIMEOUT_S = 30
NAMES = ("node-1", "node-2", "admin", "ann")
RULES = "RULE:^CN=([^,]*),.*$/$1/L,DEFAULT"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root, and a certificate with its key for each name."""
    directory = tmp_path_factory.mktemp("certificates")
    root = trustme.CA(key_type=trustme.KeyType.ECDSA)
    root.cert_pem.write_to_path(str(directory / "root.pem"))
    for name in NAMES:
        issued = root.issue_cert("127.0.0.1", common_name=name, key_type=trustme.KeyType.ECDSA)
        issued.private_key_and_cert_chain_pem.write_to_path(str(directory / f"{name}.pem"))
    return directory


def node_settings(certificates: Path, number: int, **more: str) -> dict[str, str]:
    settings = {
        "node.id": str(number),
        "listener.security.protocol.map": "CLIENTS:SSL,CONTROLLER:SSL",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "ssl.keystore.location": str(certificates / f"node-{number}.pem"),
        "ssl.truststore.location": str(certificates / "root.pem"),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": RULES,
        "authorizer.class.name": "acl",
        "super.users": "User:node-1;User:node-2;User:admin",
        "offsets.topic.replication.factor": "2",
    }
    return settings | {name.replace("_", "."): value for name, value in more.items()}


def client_settings(certificates: Path, name: str) -> dict[str, str | int | float | bool]:
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates / "root.pem"),
        "ssl.certificate.location": str(certificates / f"{name}.pem"),
        "ssl.key.location": str(certificates / f"{name}.pem"),
    }


class Cluster:
    """A controller that is a broker, too, and nodes that join it."""

    def __init__(self, certificates: Path, stack: ExitStack) -> None:
        self._certificates = certificates
        self._stack = stack
        controller, first = find_free(2)
        self._controller = f"127.0.0.1:{controller}"
        self.first = self._begin(
            1,
            process_roles="broker,controller",
            listeners=f"CLIENTS://127.0.0.1:{first},CONTROLLER://{self._controller}",
            controller_quorum_voters=f"1@{self._controller}",
        )

    def _begin(self, number: int, **more: str) -> EmbeddedBroker:
        settings = node_settings(self._certificates, number, **more)
        return self._stack.enter_context(EmbeddedBroker(settings))

    def join(self, number: int, **more: str) -> EmbeddedBroker:
        broker = self.first.broker
        assert broker is not None
        joining = {
            "process_roles": "broker",
            "cluster_id": broker.image.cluster_id or "",
            "listeners": f"CLIENTS://127.0.0.1:{find_free(1)[0]}",
            "controller_quorum_bootstrap_servers": self._controller,
        }
        return self._begin(number, **(joining | more))


@pytest.fixture
def cluster(certificates: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(certificates, stack)


def test_nodes_that_are_super_users_by_their_certificates_do_all_their_work(
    cluster: Cluster, certificates: Path
) -> None:
    second = cluster.join(2)
    admin = client_settings(certificates, "admin")
    make = AdminClient({**admin, "bootstrap.servers": second.bootstrap})  # which forwards it to the controller
    make.create_topics([NewTopic("orders", 2, 2)])["orders"].result(TIMEOUT_S)
    config = {name: str(value) for name, value in admin.items()}
    with Bus(second.bootstrap, config=config, timeout=TIMEOUT_S) as bus:
        for partition in (0, 1):
            bus.send("orders", "first", partition=partition).result(TIMEOUT_S)
        assert len(list(bus.consume("orders", group="billing", until_end=True))) == 2
    producer = Producer({**admin, "bootstrap.servers": second.bootstrap, "transactional.id": "t"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce("orders", b"in a transaction", partition=partition)
    producer.commit_transaction(TIMEOUT_S)
    ann = AdminClient({**client_settings(certificates, "ann"), "bootstrap.servers": second.bootstrap})
    assert "orders" not in ann.list_topics(timeout=TIMEOUT_S).topics
    acl = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:ann",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    make.create_acls([acl])[acl].result(TIMEOUT_S)
    assert "orders" in ann.list_topics(timeout=TIMEOUT_S).topics


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"super_users": "User:node-1;User:admin"}, "User:node-2"),
        ({"ssl_principal_mapping_rules": "DEFAULT"}, "User:CN=node-2,"),
        ({"ssl_client_auth": "none"}, "User:ANONYMOUS"),
    ],
)
def test_a_node_that_is_no_super_user_does_not_start_and_says_what_to_do(
    cluster: Cluster, more: dict[str, str], name: str
) -> None:
    with pytest.raises(InvalidConfig, match="this node is") as refusal:
        cluster.join(2, **more)
    assert name in str(refusal.value)
    assert "Name all nodes in super.users, on every node" in str(refusal.value)
