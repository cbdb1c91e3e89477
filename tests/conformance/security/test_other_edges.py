"""HTTP and gRPC on a node whose clients log in: the same users, the same ACLs."""

import base64
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import trustme
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from barnabas.core.errors import BarnabasError
from barnabas.node import http as http_of_node
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.v1 import bus_pb2, bus_pb2_grpc

TIMEOUT_S = 30
PASSWORD = "a:secret"
SCRAM = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
S = grpc.StatusCode


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """One whose users ann and bob log in; ann may read and write a topic. A second listener is open."""
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,LOCAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,LOCAL:PLAINTEXT",
        "inter.broker.listener.name": "LOCAL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "connection.failed.authentication.delay.ms": "1",
        "authorizer.class.name": "acl",
        "super.users": "User:ANONYMOUS",
        "http.listener": "127.0.0.1:0",
        "grpc.listener": "127.0.0.1:0",
    }
    with EmbeddedBroker(settings) as broker:
        admin = _admin(broker)
        admin.create_topics([NewTopic("orders", 1), NewTopic("hidden", 1)])["hidden"].result(TIMEOUT_S)
        for user in ("ann", "bob"):
            _set_password(admin, user, PASSWORD)
        for operation in (AclOperation.READ, AclOperation.WRITE):
            acl = AclBinding(
                ResourceType.TOPIC,
                "orders",
                ResourcePatternType.LITERAL,
                "User:ann",
                "*",
                operation,
                AclPermissionType.ALLOW,
            )
            admin.create_acls([acl])[acl].result(TIMEOUT_S)
        yield broker


def _admin(broker: EmbeddedBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_of("LOCAL")})


def _set_password(admin: AdminClient, user: str, password: str) -> None:
    change = UserScramCredentialUpsertion(user, SCRAM, password.encode())
    admin.alter_user_scram_credentials([change])[user].result(TIMEOUT_S)


# HTTP


@pytest.fixture
def http(broker: EmbeddedBroker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{broker.http}/api/v1", timeout=TIMEOUT_S) as client:
        until = time.monotonic() + TIMEOUT_S
        while client.get("/openapi.json").status_code != 200:  # the API is loaded after the node is ready
            assert time.monotonic() < until
        yield client


def _log_in(client: httpx.Client, user: str, password: str = PASSWORD) -> dict[str, str]:
    given = client.post("/login", json={"username": user, "password": password})
    assert given.status_code == 200, given.text
    return {"Authorization": f"Bearer {given.json()['token']}"}


def test_http_is_for_users_who_log_in_and_lets_them_do_what_acls_allow(http: httpx.Client) -> None:
    record = {"records": [{"value": "x"}]}
    assert http.post("/topics/orders/records", json=record).status_code == 401
    ann, bob = _log_in(http, "ann"), _log_in(http, "bob")
    assert http.post("/topics/orders/records", json=record, headers=ann).status_code in (200, 201)
    assert http.post("/topics/orders/records", json=record, headers=bob).status_code == 403
    assert http.get("/topics/orders/records", headers=ann).status_code == 200
    assert http.get("/topics/hidden/records", headers=ann).status_code == 403
    assert "hidden" not in http.get("/topics", headers=ann).text
    assert http.get("/cluster", headers=ann).status_code == 403
    for path in ("/users", "/acls", "/quotas"):
        assert http.get(path, headers=ann).status_code == 403
    new_user = {"name": "eve", "password": "x", "validate_only": True}
    assert http.post("/users", json=new_user, headers=ann).status_code == 403
    assert http.delete("/users/bob", headers=ann).status_code == 403
    assert http.delete("/acls", params={"principal": "User:bob", "validate_only": "1"}, headers=ann).status_code == 403


@pytest.mark.parametrize(
    "credentials",
    [
        {"username": "ann", "password": "wrong"},
        {"username": "nobody", "password": PASSWORD},
        {"username": "$node-1", "password": PASSWORD},
        {"username": "ann", "password": ""},
        {"username": "ann\0", "password": PASSWORD},
        {"username": "a" * 100_000, "password": PASSWORD},
        {"oauth_token": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ."},
    ],
)
def test_whoever_cannot_log_in_over_http_hears_the_same(http: httpx.Client, credentials: dict[str, str]) -> None:
    answer = http.post("/login", json=credentials)
    assert (answer.status_code, answer.json()["message"]) == (401, "Authentication failed: invalid credentials")


# gRPC


@pytest.fixture
def stub(broker: EmbeddedBroker) -> Iterator[Any]:
    with grpc.insecure_channel(broker.grpc) as channel:
        yield bus_pb2_grpc.BusServiceStub(channel)


def _basic(user: str, password: str = PASSWORD) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"),)


def _get(stub: Any, topic: str, metadata: Any = ()) -> grpc.StatusCode:
    """How a call ends."""
    try:
        stub.ListTopics(bus_pb2.ListTopicsRequest(), timeout=TIMEOUT_S, metadata=metadata)
        stub.DescribeTopic(bus_pb2.DescribeTopicRequest(name=topic), timeout=TIMEOUT_S, metadata=metadata)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return S.OK


def test_grpc_is_for_users_who_log_in_and_lets_them_do_what_acls_allow(stub: Any) -> None:
    assert _get(stub, "orders") is S.UNAUTHENTICATED
    assert _get(stub, "orders", _basic("ann")) is S.OK
    assert _get(stub, "orders", _basic("bob")) is S.PERMISSION_DENIED
    assert _get(stub, "hidden", _basic("ann")) is S.PERMISSION_DENIED
    for metadata in (_basic("ann", "wrong"), _basic("nobody"), _basic("$node-1"), (("authorization", "Bearer x"),)):
        assert _get(stub, "orders", metadata) is S.UNAUTHENTICATED


def test_a_password_that_was_right_counts_until_it_is_changed_or_the_user_is_gone(
    broker: EmbeddedBroker, stub: Any
) -> None:
    admin = _admin(broker)
    _set_password(admin, "eve", "first")
    assert _get(stub, "orders", _basic("eve", "first")) is S.PERMISSION_DENIED
    _set_password(admin, "eve", "second")
    assert _get(stub, "orders", _basic("eve", "first")) is S.UNAUTHENTICATED
    assert _get(stub, "orders", _basic("eve", "second")) is S.PERMISSION_DENIED
    deletion = UserScramCredentialDeletion("eve", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["eve"].result(TIMEOUT_S)
    assert _get(stub, "orders", _basic("eve", "second")) is S.UNAUTHENTICATED


# Beyond this machine


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Settings of a node whose address for HTTP counts as one that other machines can reach."""
    monkeypatch.setattr(http_of_node, "is_loopback", lambda _: False)
    return {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "http.listener": "127.0.0.1:0"}


def _status_of_login(broker: EmbeddedBroker, **options: Any) -> int:
    address = broker.http if not options else broker.http.replace("http://", "https://")
    with httpx.Client(base_url=f"{address}/api/v1", timeout=TIMEOUT_S, **options) as client:
        until = time.monotonic() + TIMEOUT_S
        while client.get("/openapi.json").status_code != 200:
            assert time.monotonic() < until
        assert client.get("/topics").status_code == (401 if options else 403)
        return client.post("/login", json={"username": "ann", "password": "wrong"}).status_code


def test_passwords_are_not_taken_over_http_where_others_could_read_them(far: dict[str, str]) -> None:
    with EmbeddedBroker(far) as broker:
        assert _status_of_login(broker) == 403


def test_with_tls_http_is_for_other_machines_as_well(far: dict[str, str], tmp_path: Path) -> None:
    root = trustme.CA(key_type=trustme.KeyType.ECDSA)
    issued = root.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "node.pem"))
    trusted = ssl.create_default_context()
    root.configure_trust(trusted)
    files = {f"http.tls.{name}.file": str(tmp_path / "node.pem") for name in ("certificate", "key")}
    with EmbeddedBroker({**far, **files}) as broker:
        assert _status_of_login(broker, verify=trusted) == 401


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"grpc.listener": "0.0.0.0:0"}, "could be read on the way"),
        ({"grpc.listener": "0.0.0.0:0", "grpc.tls.certificate.file": "x", "grpc.tls.key.file": "x"}, "do not log in"),
        ({"http.listener": "127.0.0.1:0", "http.tls.certificate.file": "x"}, "given together"),
        (
            {"http.listener": "127.0.0.1:0", "http.tls.certificate.file": "x", "http.tls.key.file": "x"},
            "http.tls.certificate.file and",
        ),
    ],
)
def test_what_would_let_strangers_in_or_cannot_work_is_refused_at_the_start(
    settings: dict[str, str], words: str
) -> None:
    with pytest.raises(BarnabasError, match=words), EmbeddedBroker(settings):
        pass
