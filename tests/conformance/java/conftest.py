"""Kafka's own clients and tools for Java, on a secured broker and on a cluster.

Only `make java` runs these tests: they need JARs from Maven Central, and each call of a tool is a JVM.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import trustme
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from barnabas.testing.cluster.fixture import TestCluster
from barnabas.testing.cluster.fixture import cluster as running_cluster
from barnabas.testing.embedded import EmbeddedBroker
from bench.maven import tool_jars
from tests.conformance.java.tools import Tools, login, write_properties

if "TEST_JAVA" not in os.environ:
    collect_ignore_glob = ["test_*.py"]

ADMIN_PASSWORD: Final = "the admin's"
STORE_PASSWORD: Final = "of-the-store"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
EC: Final = trustme.KeyType.ECDSA


@dataclass(frozen=True, slots=True)
class Secured:
    """A broker whose clients log in or show certificates, and are allowed what ACLs say."""

    broker: EmbeddedBroker
    directory: Path
    tools: Tools

    def user(self, mechanism: str, name: str, password: str) -> Tools:
        """The tools as used by somebody who logs in."""
        file = self.directory / f"{name}-{mechanism}-{len(password)}.properties"
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory / "root.pem")}
        config = write_properties(file, {**trusted, **login(mechanism, name, password)})
        return self.tools.of(config, self.broker.bootstrap_of("SASL_SSL"))

    def certified(self, **store: str) -> Tools:
        """The tools as used by somebody with a certificate, or without one."""
        settings = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "root.pem"),
            **{f"ssl.{name.replace('_', '.')}": text for name, text in store.items()},
        }
        file = self.directory / f"certified-{store.get('keystore_type', 'not')}.properties"
        return self.tools.of(write_properties(file, settings), self.broker.bootstrap_of("SSL"))

    @property
    def admin(self) -> Tools:
        return self.user("SCRAM-SHA-512", "admin", ADMIN_PASSWORD)


@pytest.fixture(scope="session")
def jars() -> Path:
    found = tool_jars()
    if found is None:
        pytest.skip("Kafka's tools cannot be had: neither Maven Central nor KAFKA_TOOL_JARS")
    return found


@pytest.fixture(scope="session")
def secured(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("java")
    _make_certificates(directory)
    settings = {
        "listeners": "LOCAL://127.0.0.1:0,SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "listener.security.protocol.map": "LOCAL:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
        "inter.broker.listener.name": "LOCAL",
        "ssl.keystore.location": str(directory / "node.pem"),
        "ssl.truststore.location": str(directory / "root.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/L,DEFAULT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": "1",
        "authorizer.class.name": "acl",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with EmbeddedBroker(settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_of("LOCAL")})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            changes = [UserScramCredentialUpsertion("admin", info, ADMIN_PASSWORD.encode())]
            admin.alter_user_scram_credentials([*changes])["admin"].result(60)
        del admin
        nothing = write_properties(directory / "nothing.properties", {})
        yield Secured(broker, directory, Tools(jars, broker.bootstrap_of("LOCAL"), nothing))


@pytest.fixture(scope="session")
def cluster() -> Iterator[TestCluster]:
    with running_cluster(nodes=3) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def cluster_tools(jars: Path, cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    config = write_properties(tmp_path_factory.mktemp("cluster") / "nothing.properties", {})
    return Tools(jars, cluster.bootstrap, config)


def _make_certificates(directory: Path) -> None:
    """A root, a node, and a client Carol, as PEM and PKCS12; Java reads keys in PKCS8 alone."""
    root = trustme.CA(key_type=EC)
    root.cert_pem.write_to_path(str(directory / "root.pem"))
    node = root.issue_cert("127.0.0.1", "localhost", key_type=EC)
    node.private_key_and_cert_chain_pem.write_to_path(str(directory / "node.pem"))
    client = root.issue_cert("carol.example", common_name="Carol", key_type=EC)
    key = load_pem_private_key(client.private_key_pem.bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    certificate = client.cert_chain_pems[0].bytes()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate
    (directory / "carol.pem").write_bytes(pem)
    lock = BestAvailableEncryption(STORE_PASSWORD.encode())
    store = pkcs12.serialize_key_and_certificates(b"carol", key, load_pem_x509_certificate(certificate), None, lock)
    (directory / "carol.p12").write_bytes(store)
