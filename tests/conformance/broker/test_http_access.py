"""Users, ACLs and quotas over HTTP: what is done here is there for Kafka's clients, and the other way round."""

import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from barnabas.client.settings import Settings
from barnabas.client.users import Users
from barnabas.testing.embedded import EmbeddedBroker

ACL = {
    "resource_type": "topic",
    "resource_name": "orders-",
    "pattern_type": "prefixed",
    "principal": "User:ada",
    "host": "*",
    "operation": "read",
    "permission": "allow",
}


def _api(broker: EmbeddedBroker) -> httpx.Client:
    client = httpx.Client(base_url=f"{broker.http}/api/v1", timeout=30, trust_env=False)
    for _ in range(300):
        if client.get("/openapi.json").status_code == 200:
            return client
        time.sleep(0.02)  # until it is loaded: there is nothing to be told by
    raise AssertionError("the API did not come up")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "http.listener": "127.0.0.1:0",
        "authorizer.class.name": "acl",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedBroker(settings) as running:
        yield running


@pytest.fixture(scope="module")
def api(broker: EmbeddedBroker) -> Iterator[httpx.Client]:
    with closing(_api(broker)) as client:
        yield client


def test_a_user_is_made_and_deleted_each_after_a_dry_run(broker: EmbeddedBroker, api: httpx.Client) -> None:
    users = Users(Settings(broker.bootstrap))
    body = {"name": "ada", "password": "correct horse"}

    assert api.post("/users", json={**body, "validate_only": True}).json()["changes"] == [
        "a new user, for SCRAM-SHA-256 and SCRAM-SHA-512"
    ]
    assert users.list() == []
    assert api.post("/users", json=body).status_code == 201
    assert [(each.name, each.mechanisms) for each in users.list()] == [
        ("ada", {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096})
    ]
    assert api.post("/users", json=body).json()["changes"][0].startswith("another password")
    assert [each["name"] for each in api.get("/users", params={"search": "AD"}).json()["users"]] == ["ada"]
    assert api.delete("/users/ada", params={"validate_only": "1"}).status_code == 200
    assert api.get("/users").json()["total"] == 1
    assert api.delete("/users/ada").status_code == 200
    assert api.get("/users").json() == {"users": [], "total": 0}
    refused = api.delete("/users/ada")
    assert "user 'ada' does not exist" in refused.json()["message"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"password": ""},
        {"name": ""},
        {"iterations": 1},
        {"mechanisms": ["PLAIN"]},
        {"mechanisms": []},
        {"colour": "red"},
    ],
)
def test_a_user_that_cannot_be_is_refused(api: httpx.Client, wrong: dict[str, object]) -> None:
    assert api.post("/users", json={"name": "eve", "password": "x", **wrong}).status_code == 400
    assert api.get("/users", params={"search": "eve"}).json()["total"] == 0


def test_an_acl_is_created_and_deleted_each_after_a_dry_run(broker: EmbeddedBroker, api: httpx.Client) -> None:
    said = api.post("/acls", json={**ACL, "validate_only": True}).json()["changes"]
    assert said == ["User:ada may read: topics that begin with 'orders-'"]
    assert broker.bus.acls.find() == []
    assert api.post("/acls", json=ACL).status_code == 201
    (found,) = broker.bus.acls.find()
    assert (found.principal, found.resource_name, found.operation) == ("User:ada", "orders-", "Read")
    assert api.get("/acls", params={"principal": "User:ada", "operation": "read"}).json() == {"acls": [ACL], "total": 1}
    assert api.get("/acls", params={"principal": "User:bob"}).json()["total"] == 0
    assert api.delete("/acls", params={**ACL, "validate_only": "1"}).json()["changes"] == said
    assert api.get("/acls").json()["total"] == 1
    assert api.delete("/acls", params=ACL).json()["changes"] == said
    assert broker.bus.acls.find() == []


def test_acls_that_make_no_sense_are_refused_and_all_are_not_deleted_by_mistake(api: httpx.Client) -> None:
    assert api.post("/acls", json={**ACL, "principal": "ada"}).status_code == 400
    assert api.post("/acls", json={**ACL, "operation": "juggle"}).status_code == 400
    assert api.get("/acls", params={"operation": "juggle"}).status_code == 400
    assert "say which ACLs" in api.delete("/acls").json()["message"]


def test_quotas_are_set_and_removed_each_after_a_dry_run(broker: EmbeddedBroker, api: httpx.Client) -> None:
    body = {"entity": {"user": "ada", "client-id": None}, "quotas": {"producer_byte_rate": 1000.0}}

    dry = api.post("/quotas", json={**body, "validate_only": True}).json()
    assert (dry["name"], dry["changes"]) == ("user ada, client-id (default)", ["producer_byte_rate=1000"])
    assert broker.bus.quotas.find() == []
    assert api.post("/quotas", json=body).status_code == 200
    assert [(each.entity, each.quotas) for each in broker.bus.quotas.find()] == [(body["entity"], body["quotas"])]
    assert api.get("/quotas", params={"search": "ad"}).json() == {"quotas": [body], "total": 1}
    gone = {**body, "quotas": {"producer_byte_rate": None}}
    assert api.post("/quotas", json=gone).json()["changes"] == ["producer_byte_rate removed"]
    assert api.get("/quotas").json() == {"quotas": [], "total": 0}
    wrongs: list[dict[str, dict[str, object]]] = [
        {"entity": {}},
        {"quotas": {}},
        {"quotas": {"no_such_quota": 1.0}},
        {"entity": {"planet": "x"}},
    ]
    for wrong in wrongs:
        assert api.post("/quotas", json={**body, **wrong}).status_code == 400


def test_without_an_authorizer_it_is_said_that_acls_are_off_and_without_writing_nothing_changes() -> None:
    settings = {"http.listener": "127.0.0.1:0", "http.write.enable": "false"}
    with EmbeddedBroker(settings) as broker, closing(_api(broker)) as api:
        refused = api.get("/acls").json()
        assert (refused["error"], "authorizer.class.name=acl" in refused["message"]) == ("SECURITY_DISABLED", True)
        assert api.post("/users", json={"name": "a", "password": "b"}).status_code == 403
        assert api.delete("/acls", params={"principal": "User:ada"}).status_code == 403
        assert api.post("/quotas", json={"entity": {"user": "a"}, "quotas": {"x": 1.0}}).status_code == 403
