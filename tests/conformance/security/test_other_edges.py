"""HTTP and gRPC on a node whose clients log in: the same users, the same ACLs."""

import base64
import time
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
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
