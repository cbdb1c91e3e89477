"""Users, ACLs and calls over HTTP and gRPC, as tests of a secured node or cluster make them."""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import httpx
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from barnabas.testing.embedded import EmbeddedBroker
from barnabas.v1 import bus_pb2_grpc

TIMEOUT_S = 30
PASSWORD = "a:secret"
_SCRAM = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)


class Admin:
    """Administers over a listener that asks nobody."""

    def __init__(self, bootstrap: str) -> None:
        self.client = AdminClient({"bootstrap.servers": bootstrap})

    def set_password(self, user: str, password: str = PASSWORD) -> None:
        change = UserScramCredentialUpsertion(user, _SCRAM, password.encode())
        self.client.alter_user_scram_credentials([change])[user].result(TIMEOUT_S)

    def delete_user(self, user: str) -> None:
        change = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)
        self.client.alter_user_scram_credentials([change])[user].result(TIMEOUT_S)

    def allow(self, user: str, operation: AclOperation, name: str, kind: ResourceType = ResourceType.TOPIC) -> None:
        acl = AclBinding(
            kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW
        )
        self.client.create_acls([acl])[acl].result(TIMEOUT_S)


@contextmanager
def http_of(broker: EmbeddedBroker) -> Iterator[httpx.Client]:
    """The API of a node, once it is loaded."""
    with httpx.Client(base_url=f"{broker.http}/api/v1", timeout=TIMEOUT_S) as client:
        wait_until(lambda: client.get("/openapi.json").status_code == 200)
        yield client


def log_in(client: httpx.Client, user: str, password: str = PASSWORD) -> dict[str, str]:
    """The headers of a user's requests."""
    given = client.post("/login", json={"username": user, "password": password})
    assert given.status_code == 200, given.text
    return {"Authorization": f"Bearer {given.json()['token']}"}


@contextmanager
def grpc_of(broker: EmbeddedBroker) -> Iterator[Any]:
    """The service of a node."""
    with grpc.insecure_channel(broker.grpc) as channel:
        yield bus_pb2_grpc.BusServiceStub(channel)


def basic(user: str, password: str = PASSWORD) -> tuple[tuple[str, str], ...]:
    """The metadata of a user's calls."""
    return (("authorization", f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"),)


def status_of(call: Callable[[], Any]) -> grpc.StatusCode:
    """How a call ends."""
    try:
        call()
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return when something holds."""
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)
