"""HTTP and gRPC on a cluster of two nodes whose clients log in and have ACLs: whoever leads, the same is refused.

What the other node has is asked of it by the node that was called. So everything is tried on both nodes, with one
partition of each topic led by either.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from barnabas.client import Bus
from barnabas.testing.cluster.ports import find_free
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.v1 import bus_pb2
from tests.conformance.security.users import TIMEOUT_S, Admin, basic, grpc_of, http_of, log_in, status_of, wait_until

S = grpc.StatusCode
NODES = pytest.mark.parametrize("node", [1, 2])
RECORDS = {"records": [{"value": "x", "partition": 0}, {"value": "x", "partition": 1}]}


@dataclass(frozen=True)
class Secured:
    """Two nodes; ann may use the topic orders and the group billing, bob nothing; there are hidden ones."""

    nodes: dict[int, EmbeddedBroker]
    admin: Admin
    key: ECKey

    def token(self, user: str, *, lifetime_s: int) -> str:
        now = int(time.time())
        claims = {"sub": user, "iat": now, "exp": now + lifetime_s}
        return jwt.encode({"alg": "ES256", "kid": self.key.kid}, claims, self.key, algorithms=["ES256"])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("two-nodes")
    (directory / "secret").write_text(secrets.token_hex(32))
    key = ECKey.generate_key("P-256", {"kid": "one"})
    (directory / "keys.json").write_text(json.dumps(KeySet([key]).as_dict(private=False)))
    controller, first, second, *local = find_free(5)
    first_settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"CLIENTS://127.0.0.1:{first},LOCAL://127.0.0.1:{local[0]},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    with EmbeddedBroker(_settings(directory) | first_settings) as one:
        assert one.broker is not None
        second_settings = {
            "node.id": "2",
            "process.roles": "broker",
            "cluster.id": one.broker.image.cluster_id or "",
            "listeners": f"CLIENTS://127.0.0.1:{second},LOCAL://127.0.0.1:{local[1]}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        }
        with EmbeddedBroker(_settings(directory) | second_settings) as two:
            secured = Secured({1: one, 2: two}, Admin(one.bootstrap_of("LOCAL")), key)
            _fill(secured)
            yield secured


def _settings(directory: Path) -> dict[str, str]:
    return {
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,LOCAL:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "cluster.secret.file": str(directory / "secret"),
        "authorizer.class.name": "acl",
        "super.users": "User:ANONYMOUS",  # of the listener LOCAL, for the test to administer
        "connection.failed.authentication.delay.ms": "1",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "100",
        "http.listener": "127.0.0.1:0",
        "grpc.listener": "127.0.0.1:0",
    }


def _fill(secured: Secured) -> None:
    admin = secured.admin
    placed = [[1], [2]]
    wanted = [NewTopic(name, 2, replica_assignment=placed) for name in ("orders", "hidden", "__consumer_offsets")]
    for outcome in admin.client.create_topics(wanted).values():
        outcome.result(TIMEOUT_S)
    for user in ("ann", "bob", "ops"):
        admin.set_password(user)
    for operation in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
        admin.allow("ops", operation, "kafka-cluster", ResourceType.BROKER)
    admin.allow("ops", AclOperation.DESCRIBE, "payments", ResourceType.TRANSACTIONAL_ID)
    gone = [f"gone-{node}-{number}" for node in (1, 2) for number in (0, 1)]
    for user in ("ann", "carol"):
        for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS):
            admin.allow(user, operation, "orders")
        for group in ("billing-0", "billing-1", "streams", *gone):
            admin.allow(user, AclOperation.READ, group, ResourceType.GROUP)
            admin.allow(user, AclOperation.DELETE, group, ResourceType.GROUP)
    with Bus(secured.nodes[1].bootstrap_of("LOCAL"), timeout=TIMEOUT_S) as bus:
        for topic in ("orders", "hidden"):
            for partition in (0, 1):
                bus.send(topic, b"first", partition=partition).result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": secured.nodes[1].bootstrap_of("LOCAL"), "transactional.id": "payments"})
    producer.init_transactions(TIMEOUT_S)
    with grpc_of(secured.nodes[1]) as stub:
        for group in ("billing-0", "billing-1", *gone):  # of which each node coordinates some
            assert _commit(stub, "ann", group) is S.OK
    wait_until(lambda: all(len(each.broker.image.acls) == 37 for each in secured.nodes.values() if each.broker))


def _commit(stub: Any, user: str, group: str) -> grpc.StatusCode:
    position = bus_pb2.Position(topic="orders", partition=0, offset=1)
    request = bus_pb2.CommitRequest(group=group, positions=[position])
    return status_of(lambda: stub.Commit(request, timeout=TIMEOUT_S, metadata=basic(user)))


@NODES
def test_over_http_each_node_lets_users_do_what_acls_allow_whoever_leads(secured: Secured, node: int) -> None:
    with http_of(secured.nodes[node]) as http:
        ann, bob = log_in(http, "ann"), log_in(http, "bob")
        written = http.post("/topics/orders/records", json=RECORDS, headers=ann).json()
        assert written["written"] == 2, written
        for topic, headers in (("orders", bob), ("hidden", ann), ("hidden", bob), ("nowhere", ann)):
            assert http.post(f"/topics/{topic}/records", json=RECORDS, headers=headers).status_code == 403
            assert http.get(f"/topics/{topic}/records", headers=headers).status_code == 403
            assert http.get(f"/topics/{topic}/tail", headers=headers).status_code == 403
            assert http.get(f"/topics/{topic}", headers=headers).status_code == 403
            assert http.delete(f"/topics/{topic}", headers=headers).status_code == 403
            for partition in (0, 1):
                one = f"/topics/{topic}/partitions/{partition}/records/0"
                assert http.get(one, headers=headers).status_code == 403
        found = http.get("/topics/orders/records", headers=ann).json()["records"]
        assert {each["partition"] for each in found} == {0, 1}
        assert [each["name"] for each in http.get("/topics", headers=ann).json()["topics"]] == ["orders"]
        assert http.get("/topics", headers=bob).json()["topics"] == []
        assert http.post("/topics", json={"name": "other"}, headers=ann).status_code == 403
        assert http.patch("/topics/orders", json={"partitions": 3}, headers=ann).status_code == 403


@NODES
def test_over_http_each_node_shows_and_changes_groups_as_acls_allow_whoever_coordinates(
    secured: Secured, node: int
) -> None:
    with http_of(secured.nodes[node]) as http:
        ann, bob = log_in(http, "ann"), log_in(http, "bob")
        seen = [each["group"] for each in http.get("/groups", headers=ann).json()["groups"]]
        assert {"billing-0", "billing-1"} <= set(seen)
        assert http.get("/groups", headers=bob).json()["groups"] == []
        reset = {"topics": ["orders"], "to": "earliest"}
        for number in (0, 1):
            group = f"/groups/billing-{number}"
            assert http.get(group, headers=ann).status_code == 200, http.get(group, headers=ann).text
            assert http.get(group, headers=bob).status_code == 403
            assert http.post(f"{group}/offsets", json=reset, headers=bob).status_code == 403
            assert http.post(f"{group}/offsets", json=reset, headers=ann).status_code == 200
            assert http.delete(group, headers=bob).status_code == 403
        assert http.get("/transactions", headers=bob).json()["transactions"] == []
        for path in ("/cluster", "/nodes", f"/nodes/{3 - node}/settings", "/connections"):
            assert http.get(path, headers=ann).status_code == 403


@NODES
def test_over_http_each_node_answers_those_who_may_for_the_whole_cluster(secured: Secured, node: int) -> None:
    other = 3 - node
    with http_of(secured.nodes[node]) as http:
        ops, ann = log_in(http, "ops"), log_in(http, "ann")
        nodes = http.get("/nodes", headers=ops).json()
        assert [(each["node_id"], each["error"], each["size_bytes"] > 0) for each in nodes] == [
            (1, None, True),
            (2, None, True),
        ]
        settings = http.get(f"/nodes/{other}/settings", headers=ops)
        assert settings.status_code == 200, settings.text
        found = http.get("/transactions", headers=ops).json()
        assert [each["transactional_id"] for each in found["transactions"]] == ["payments"]
        assert found["errors"] == {}
        assert http.get("/transactions/payments", headers=ops).status_code == 200
        for number in (0, 1):
            gone = http.delete(f"/groups/gone-{node}-{number}", headers=ann)
            assert gone.status_code == 200, gone.text


@NODES
def test_over_grpc_each_node_lets_users_do_what_acls_allow_whoever_leads(secured: Secured, node: int) -> None:
    def produce(user: str, topic: str) -> set[tuple[int, int]]:
        """The partition of each record, and why it was refused."""
        records = [bus_pb2.NewRecord(value=b"x", partition=number) for number in (0, 1)]
        request = bus_pb2.ProduceRequest(topic=topic, records=records)
        answer = stub.Produce(request, timeout=TIMEOUT_S, metadata=basic(user))
        return {(each.partition, each.error.kafka_code) for each in answer.outcomes}

    def read(user: str, topic: str) -> set[int]:
        """The partitions that records came from."""
        selection = bus_pb2.TopicSelection(topic=topic)
        options = bus_pb2.ConsumeOptions(topics=[selection], until_end=True, ack_mode=bus_pb2.ACK_MODE_AUTOMATIC)
        requests = iter([bus_pb2.ConsumeRequest(options=options)])
        stream = stub.Consume(requests, timeout=TIMEOUT_S, metadata=basic(user))
        return {response.records.partition for response in stream if response.records.records}

    def get(user: str, topic: str, partition: int) -> Any:
        request = bus_pb2.GetRequest(topic=topic, partition=partition, offset=0)
        return stub.Get(request, timeout=TIMEOUT_S, metadata=basic(user))

    def delete(user: str, topic: str) -> Any:
        return stub.DeleteTopic(bus_pb2.DeleteTopicRequest(name=topic), timeout=TIMEOUT_S, metadata=basic(user))

    with grpc_of(secured.nodes[node]) as stub:
        assert produce("ann", "orders") == {(0, 0), (1, 0)}
        assert read("ann", "orders") == {0, 1}
        for user, topic in (("bob", "orders"), ("ann", "hidden"), ("bob", "hidden"), ("ann", "nowhere")):
            tried: list[Callable[[], Any]] = [
                partial(produce, user, topic),
                partial(read, user, topic),
                partial(delete, user, topic),
            ]
            tried += [partial(get, user, topic, number) for number in (0, 1)]
            assert [status_of(each) for each in tried] == [S.PERMISSION_DENIED] * 5
        for number in (0, 1):
            assert get("ann", "orders", number).record.value == b"first"
            assert _commit(stub, "ann", f"billing-{number}") is S.OK
            assert _commit(stub, "bob", f"billing-{number}") is S.PERMISSION_DENIED
        listed = stub.ListTopics(bus_pb2.ListTopicsRequest(), timeout=TIMEOUT_S, metadata=basic("ann")).topics
        assert [each.name for each in listed] == ["orders"]
        new = bus_pb2.CreateTopicRequest(name="other")
        assert status_of(lambda: stub.CreateTopic(new, timeout=TIMEOUT_S, metadata=basic("ann"))) is S.PERMISSION_DENIED


def _streams(stub: Any, metadata: Any) -> list[Any]:
    """A stream of each kind that goes on for ever, each of which has begun."""
    selection = bus_pb2.TopicSelection(topic="orders")
    found = []
    for group in ("", "streams"):
        options = bus_pb2.ConsumeOptions(topics=[selection], group=group, ack_mode=bus_pb2.ACK_MODE_AUTOMATIC)
        requests = iter([bus_pb2.ConsumeRequest(options=options)])
        found.append(stub.Consume(requests, timeout=TIMEOUT_S, metadata=metadata))
    found.append(stub.Watch(bus_pb2.WatchRequest(), timeout=TIMEOUT_S, metadata=metadata))
    for stream in found:
        next(stream)
    return found


def _end_of(stream: Any) -> grpc.StatusCode:
    return status_of(lambda: list(stream))


def _tail(http: httpx.Client, headers: dict[str, str]) -> Any:
    return http.stream("GET", "/topics/orders/tail", headers=headers)


@NODES
@pytest.mark.parametrize("change", ["deleted", "changed"])
def test_logins_end_when_the_user_is_deleted_or_its_password_changed(secured: Secured, node: int, change: str) -> None:
    user, admin = f"eve-{node}-{change}", secured.admin
    admin.set_password(user)
    admin.allow(user, AclOperation.READ, "streams", ResourceType.GROUP)
    admin.allow(user, AclOperation.READ, "orders")
    broker = secured.nodes[node]
    with http_of(broker) as http, grpc_of(broker) as stub:
        begun = bus_pb2.GetRequest(topic="orders", partition=0, offset=0)
        wait_until(lambda: status_of(lambda: stub.Get(begun, timeout=TIMEOUT_S, metadata=basic(user))) is S.OK)
        streams, headers = _streams(stub, basic(user)), log_in(http, user)
        others = _streams(stub, basic("ann"))
        with _tail(http, headers) as tail:
            lines = tail.iter_lines()
            assert next(line for line in lines if line.startswith("event"))
            if change == "deleted":
                admin.delete_user(user)
            else:
                admin.set_password(user, "another")
            assert [_end_of(stream) for stream in streams] == [S.UNAUTHENTICATED] * 3
            end = json.loads(list(lines)[-2].removeprefix("data: "))
            assert (end["error_code"], "log in again" in end["message"]) == (58, True)
        refused = http.get("/topics", headers=headers)
        assert (refused.status_code, "log in again" in refused.json()["message"]) == (401, True)
        for other in others:
            assert other.is_active()
            other.cancel()


@NODES
def test_streams_end_with_the_token_that_they_were_opened_by(secured: Secured, node: int) -> None:
    token = secured.token("carol", lifetime_s=4)
    broker = secured.nodes[node]
    with http_of(broker) as http, grpc_of(broker) as stub:
        given = http.post("/login", json={"oauth_token": token})
        assert given.status_code == 200, given.text
        headers = {"Authorization": f"Bearer {given.json()['token']}"}
        streams = _streams(stub, (("authorization", f"Bearer {token}"),))
        with _tail(http, headers) as tail:
            lines = list(tail.iter_lines())
        assert json.loads(lines[-2].removeprefix("data: "))["error_code"] == 58
        assert [_end_of(stream) for stream in streams] == [S.UNAUTHENTICATED] * 3
        assert http.get("/topics", headers=headers).status_code == 401
