"""The API of two real nodes: what lives on the other one is there, too, whichever is asked."""

import base64
import csv
import io
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import ShareConsumer

from barnabas.edge.http.tokens import NotAuthenticated
from barnabas.node.http import NodeHttp
from barnabas.services.authentication import Identity
from barnabas.services.session import Principal
from barnabas.testing.embedded import EmbeddedBroker

EVIL = '<img src=x onerror=alert(1)>":{}\n\nevent: evil'


class Cluster(NamedTuple):
    """Two nodes, and a client of the API of each."""

    one: EmbeddedBroker
    two: EmbeddedBroker
    clients: tuple[httpx.Client, httpx.Client]


def _wait_for_api(base: str) -> httpx.Client:
    client = httpx.Client(base_url=f"{base}/api/v1", timeout=30)
    for _ in range(300):
        if client.get("/openapi.json").status_code == 200:
            return client
        time.sleep(0.02)  # until it is loaded: there is nothing to be told by
    raise AssertionError("the API did not come up")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        "cluster.id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "controller.listener.names": "CONTROLLER",
        "http.listener": "127.0.0.1:0",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
    }
    first = {"listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}", "node.id": "1"}
    second = {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
    }
    with EmbeddedBroker({**shared, **first}) as one, EmbeddedBroker({**shared, **second}) as two:
        clients = (_wait_for_api(one.http), _wait_for_api(two.http))
        yield Cluster(one, two, clients)
        for client in clients:
            client.close()


@pytest.fixture(scope="module")
def orders(cluster: Cluster) -> str:
    """A topic with partitions on both nodes, and 40 records."""
    cluster.one.bus.create_topic("orders", partitions=8)
    sent = [cluster.one.bus.send("orders", json.dumps({"n": n, "state": EVIL}), key=f"k{n}") for n in range(40)]
    for each in sent:
        each.result(10)
    return "orders"


def all_pages(client: httpx.Client, path: str, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    for _ in range(200):
        page = client.get(path, params={**params, **({"cursor": cursor} if cursor else {})}).json()
        found += page["records"]
        cursor = page["next"]
        if cursor is None:
            return found
    raise AssertionError("it does not end")


# The cluster


def test_both_nodes_describe_the_same_cluster(cluster: Cluster) -> None:
    for client in cluster.clients:
        found = client.get("/cluster").json()
        assert (found["controller_id"], found["counts"]["nodes"], found["counts"]["offline"]) == (1, 2, 0)
        assert [each["role"] for each in found["quorum"]["members"]] == ["leader", "observer"]
        nodes = client.get("/nodes").json()
        assert [(each["node_id"], each["state"], each["error"]) for each in nodes] == [
            (1, "active", None),
            (2, "active", None),
        ]
        assert all(each["disk_total_bytes"] > 0 for each in nodes)


def test_settings_of_any_node_come_with_their_meaning(cluster: Cluster) -> None:
    for client in cluster.clients:
        for node in (1, 2):
            settings = {each["name"]: each for each in client.get(f"/nodes/{node}/settings").json()["settings"]}
            assert settings["node.id"]["value"] == str(node)
            assert "node" in settings["node.id"]["meaning"]
    assert cluster.clients[0].get("/nodes/77/settings").status_code == 404


def test_connections_name_their_clients(cluster: Cluster, orders: str) -> None:
    found = cluster.clients[0].get("/connections").json()
    assert found["total"] >= 1
    assert any("rdkafka" in each["software"] for each in found["connections"])


def test_the_description_names_every_route(cluster: Cluster) -> None:
    found = cluster.clients[0].get("/openapi.json").json()
    assert found["openapi"] == "3.1.0"
    assert set(found["paths"]["/api/v1/topics/{topic}"]) == {"get", "patch", "delete"}
    assert found["components"]["schemas"]["Problem"]["required"] == ["error_code", "error", "message"]


# Topics


def test_a_topic_is_described_with_what_the_other_node_leads(cluster: Cluster, orders: str) -> None:
    for client in cluster.clients:
        found = client.get(f"/topics/{orders}").json()
        assert {each["leader"] for each in found["partitions"]} == {1, 2}
        assert sum(each["end_offset"] for each in found["partitions"]) == 40
        for each in found["partitions"]:
            assert list(each["sizes"]) == [str(each["leader"])]
        assert "read" in found["allowed"]
        assert {each["name"] for each in found["settings"]} >= {"retention.ms", "cleanup.policy"}


@pytest.mark.parametrize("at", [0, 1])
def test_a_topic_is_created_altered_and_deleted_over_any_node_each_after_a_dry_run(cluster: Cluster, at: int) -> None:
    client, name = cluster.clients[at], f"made-{at}"
    dry = client.post("/topics", json={"name": name, "partitions": 2, "validate_only": True})
    assert (dry.status_code, dry.json()["changes"][0]) == (201, "2 partitions")
    assert client.get(f"/topics/{name}").status_code == 404
    made = client.post("/topics", json={"name": name, "partitions": 2, "settings": {"retention.ms": "1000"}})
    assert made.status_code == 201
    assert client.post("/topics", json={"name": name}).json()["error"] == "TOPIC_ALREADY_EXISTS"
    change = {"partitions": 3, "settings": {"retention.ms": None, "cleanup.policy": "compact"}}
    assert client.patch(f"/topics/{name}", json={**change, "validate_only": True}).status_code == 200
    assert len(client.get(f"/topics/{name}").json()["partitions"]) == 2
    assert client.patch(f"/topics/{name}", json=change).status_code == 200
    found = client.get(f"/topics/{name}").json()
    assert len(found["partitions"]) == 3
    assert {each["name"]: each["value"] for each in found["settings"]}["cleanup.policy"] == "compact"
    assert client.delete(f"/topics/{name}", params={"validate_only": "true"}).status_code == 200
    assert client.get(f"/topics/{name}").status_code == 200
    assert client.delete(f"/topics/{name}").status_code == 200
    assert client.delete(f"/topics/{name}").json()["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_nothing_is_altered_if_a_part_of_it_is_refused(cluster: Cluster) -> None:
    client = cluster.clients[0]
    client.post("/topics", json={"name": "whole", "partitions": 4})
    refused = client.patch("/topics/whole", json={"partitions": 2, "settings": {"cleanup.policy": "compact"}})
    assert refused.json()["error"] == "INVALID_PARTITIONS"
    found = client.get("/topics/whole").json()
    assert {each["name"]: each["value"] for each in found["settings"]}["cleanup.policy"] == "delete"


def test_topics_come_in_pages(cluster: Cluster) -> None:
    client = cluster.clients[1]
    for number in range(5):
        client.post("/topics", json={"name": f"page-{number}", "partitions": 1})
    first = client.get("/topics", params={"search": "PAGE-", "limit": 3}).json()
    rest = client.get("/topics", params={"search": "PAGE-", "limit": 3, "after": first["next"]}).json()
    assert [each["name"] for each in (*first["topics"], *rest["topics"])] == [f"page-{n}" for n in range(5)]
    assert (first["total"], rest["next"]) == (5, None)


# Records


def test_pages_with_a_cursor_have_every_record_once_in_both_directions(cluster: Cluster, orders: str) -> None:
    for client in cluster.clients:
        for order in ("oldest", "newest"):
            found = all_pages(client, f"/topics/{orders}/records", limit=7, order=order)
            assert len({(each["partition"], each["offset"]) for each in found}) == len(found) == 40
            times = [each["timestamp"] for each in found]
            assert times == sorted(times, reverse=order == "newest")


def test_a_key_is_looked_for_in_its_partition_alone(cluster: Cluster, orders: str) -> None:
    found = cluster.clients[0].get(f"/topics/{orders}/records", params={"key": "k7"}).json()
    assert [each["key"]["data"] for each in found["records"]] == ["k7"]
    assert found["progress"]["scanned_records"] < 40


def test_filters_look_into_json_and_say_how_far_they_came(cluster: Cluster, orders: str) -> None:
    client = cluster.clients[1]
    found = all_pages(client, f"/topics/{orders}/records", filter="value.n:ge:38")
    assert sorted(json.loads(each["value"]["data"])["n"] for each in found) == [38, 39]
    both = {"filter": ["value.n:lt:10", "key:matches:^k[2-4]$"]}
    assert len(all_pages(client, f"/topics/{orders}/records", **both)) == 3
    none = client.get(f"/topics/{orders}/records", params={"filter": "value.n:gt:1000"}).json()
    assert (none["records"], none["next"], none["progress"]["is_complete"]) == ([], None, True)
    assert none["progress"]["scanned_records"] == 40


def test_a_record_is_read_by_its_id_from_either_node(cluster: Cluster, orders: str) -> None:
    for client in cluster.clients:
        for partition in {each["partition"] for each in all_pages(client, f"/topics/{orders}/records")}:
            found = client.get(f"/topics/{orders}/partitions/{partition}/records/0").json()
            assert (found["partition"], found["offset"], found["value"]["is_json"]) == (partition, 0, True)
        missing = client.get(f"/topics/{orders}/partitions/{partition}/records/4000")
        assert (missing.status_code, missing.json()["error"]) == (416, "OFFSET_OUT_OF_RANGE")


def test_what_is_no_text_says_why_and_what_is_long_is_cut_and_can_be_loaded(cluster: Cluster) -> None:
    cluster.one.bus.create_topic("bytes")
    cluster.one.bus.send("bytes", b"\xff\x00", headers=[("h", EVIL.encode()), ("none", None)]).result(10)
    cluster.one.bus.send("bytes", "ä" * 30_000).result(10)
    odd, long = cluster.clients[0].get("/topics/bytes/records").json()["records"]
    assert odd["value"]["encoding"] == "base64"
    assert base64.b64decode(odd["value"]["data"]) == b"\xff\x00"
    assert odd["value"]["why_not_text"].startswith("not UTF-8")
    assert [(each["name"], each["value"] and each["value"]["data"]) for each in odd["headers"]] == [
        ("h", EVIL),
        ("none", None),
    ]
    assert long["value"]["is_cut"]
    assert (long["value"]["size"], len(long["value"]["data"])) == (60_000, 10_000)
    whole = cluster.clients[0].get(long["href"].removeprefix("/api/v1")).json()
    assert whole["value"]["data"] == "ä" * 30_000
    bare = cluster.clients[0].get("/topics/bytes/records", params={"content": "false"}).json()["records"]
    assert [each["value"]["data"] for each in bare] == ["", ""]


def test_aborted_records_are_seen_only_by_who_asks_for_them(cluster: Cluster) -> None:
    bus = cluster.one.bus
    bus.create_topic("paid", partitions=2)
    with bus.transaction("shop") as tx:
        tx.send("paid", "committed", partition=0)
        tx.send("paid", "committed", partition=1)

    def fail() -> None:
        with bus.transaction("shop") as tx:
            for partition in (0, 1):
                tx.send("paid", "aborted", partition=partition).result(10)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    for client in cluster.clients:
        values = [each["value"]["data"] for each in all_pages(client, "/topics/paid/records")]
        assert values == ["committed"] * 2
        dirty = all_pages(client, "/topics/paid/records", isolation="read_uncommitted")
        assert sorted(each["value"]["data"] for each in dirty) == ["aborted"] * 2 + ["committed"] * 2
        listed = client.get("/transactions").json()["transactions"]
        assert [(each["transactional_id"], each["state"]) for each in listed] == [("shop", "CompleteAbort")]
        assert client.get("/transactions/shop").json()["producer_id"] >= 0
        producers = client.get("/topics/paid/producers").json()["producers"]
        assert {each["partition"] for each in producers} == {0, 1}


def test_records_are_written_to_either_node_with_a_report_for_each(cluster: Cluster) -> None:
    cluster.one.bus.create_topic("written", partitions=4)
    records = [
        *({"value": f"v{n}", "partition": n, "headers": [{"name": "h", "value": "x"}]} for n in range(4)),
        {"value": "=", "value_encoding": "base64"},
        {"value": "nowhere", "partition": 99},
        {"key": "only a key"},
    ]
    for client in cluster.clients:
        done = client.post("/topics/written/records", json={"records": records}).json()
        assert [each["partition"] for each in done["records"][:4]] == [0, 1, 2, 3]
        assert [each["error"] and each["error"]["error"] for each in done["records"]] == [
            *[None] * 4,
            "INVALID_RECORD",
            "UNKNOWN_TOPIC_OR_PARTITION",
            None,
        ]
        assert done["written"] == 5
    read = sorted(str(each.value) for each in cluster.one.bus.consume("written", until_end=True))
    assert len(read) == 10
    dry = cluster.clients[0].post("/topics/written/records", json={"records": [{"value": "x"}], "validate_only": True})
    assert (dry.json()["written"], dry.json()["records"][0]["offset"]) == (0, None)


def test_an_export_is_a_file_without_formulas(cluster: Cluster) -> None:
    cluster.one.bus.create_topic("exported")
    cluster.one.bus.send("exported", "=1+1", key="@k").result(10)
    client = cluster.clients[1]
    table = client.get("/topics/exported/export", params={"as": "csv"})
    assert table.headers["content-disposition"].startswith("attachment")
    assert table.text.splitlines()[1].endswith(",'@k,'=1+1")
    cluster.one.bus.send("exported", "a\r=1+1", key="two rows?").result(10)
    table = client.get("/topics/exported/export", params={"as": "csv"})
    assert [row[3:] for row in csv.reader(io.StringIO(table.text, newline=""))][2] == ["two rows?", "a\r=1+1"]
    lines = client.get("/topics/exported/export").text.splitlines()
    assert [json.loads(line)["value"]["data"] for line in lines] == ["=1+1", "a\r=1+1"]


def test_a_tail_goes_on_where_it_was_left(cluster: Cluster) -> None:
    cluster.one.bus.create_topic("tailed", partitions=2)
    path, ids = "/topics/tailed/tail", [""]

    def read(client: httpx.Client, count: int) -> list[str]:
        found: list[str] = []
        headers = {"Last-Event-ID": ids[-1]} if ids[-1] else {}
        with client.stream("GET", path, headers=headers) as events:
            kind = ""
            for line in events.iter_lines():
                name, _, rest = line.partition(": ")
                if name == "id":
                    ids.append(rest)
                elif name == "event":
                    kind = rest
                    if kind == "begin" and len(ids) == 2:
                        for number in range(3):
                            cluster.one.bus.send("tailed", f"{number}{EVIL}", partition=number % 2).result(10)
                elif name == "data" and kind == "record":
                    found.append(json.loads(rest)["value"]["data"])
                    if len(found) == count:
                        break
        return found

    assert sorted(read(cluster.clients[0], 3)) == [f"{number}{EVIL}" for number in range(3)]
    cluster.one.bus.send("tailed", "while away", partition=1).result(10)
    assert read(cluster.clients[1], 1) == ["while away"]


def _end_of(client: httpx.Client, path: str, act: Callable[[], object], **headers: str) -> dict[str, Any]:
    """The last event of a tail that something is done to once it has begun."""
    kind, data = "", "{}"
    with client.stream("GET", path, headers=headers) as events:
        for line in events.iter_lines():
            name, _, rest = line.partition(": ")
            if name == "event":
                kind = rest
                if kind == "begin":
                    act()
            elif name == "data":
                data = rest
    assert kind == "end"
    return dict(json.loads(data))


def test_a_tail_says_that_its_topic_was_deleted_also_if_there_is_another_of_that_name(cluster: Cluster) -> None:
    bus = cluster.one.bus
    bus.create_topic("passing", partitions=1)

    def replace() -> None:
        bus.delete_topic("passing")
        bus.create_topic("passing", partitions=1)

    assert _end_of(cluster.clients[0], "/topics/passing/tail", replace)["reason"] == "topic_deleted"


def test_a_tail_says_that_its_node_stops_or_that_a_log_in_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = NodeHttp.begin

    async def begin_with_login(self: NodeHttp) -> None:
        self.login = FakeLogin()
        await begin(self)

    monkeypatch.setattr(NodeHttp, "begin", begin_with_login)
    with EmbeddedBroker({"http.listener": "127.0.0.1:0", "http.token.lifetime.ms": "3000"}) as broker:
        broker.bus.create_topic("t")
        client = _wait_for_api(broker.http)

        def log_in() -> str:
            given = client.post("/login", json={"username": "alice", "password": "secret"}).json()
            return f"Bearer {given['token']}"

        ended = _end_of(client, "/topics/t/tail", lambda: None, Authorization=log_in())
        assert (ended["reason"], ended["error_code"]) == ("refused", 58)
        stopping = threading.Thread(target=broker.stop)
        ended = _end_of(client, "/topics/t/tail", stopping.start, Authorization=log_in())
        assert ended["reason"] == "node_stopping"
        stopping.join()
        client.close()


# Groups


def test_groups_of_both_nodes_have_their_lag_and_offsets_that_can_be_reset(cluster: Cluster, orders: str) -> None:
    groups = ("a", "b", EVIL.replace("\n", " "))
    for name in groups:
        assert len(list(cluster.one.bus.consume(orders, group=name, until_end=True))) == 40
    for client in cluster.clients:
        listed = client.get("/groups", params={"lag": "1"}).json()
        assert {each["group"] for each in listed["groups"]} >= set(groups)
        assert {each["coordinator"] for each in listed["groups"]} == {1, 2}
        for name in groups:
            found = client.get(f"/groups/{quote(name, safe='')}").json()
            assert (found["group"], found["lag"], found["state"]) == (name, 0, "Empty")
    for client, name in zip(cluster.clients, groups, strict=False):
        dry = client.post(f"/groups/{name}/offsets", json={"to": "earliest", "validate_only": True}).json()
        assert sum(each["before"] or 0 for each in dry["offsets"]) == 40
        assert {each["after"] for each in dry["offsets"]} == {0}
        assert client.get(f"/groups/{name}").json()["lag"] == 0
        client.post(f"/groups/{name}/offsets", json={"to": "earliest"})
        found = client.get(f"/groups/{name}").json()
        assert (found["lag"], found["lag_seconds"] > 0) == (40, True)
        assert client.delete(f"/groups/{name}/topics/{orders}").status_code == 200
        assert client.get(f"/groups/{name}").json().get("offsets", []) == []
        assert client.delete(f"/groups/{name}").status_code in (200, 404)


def test_who_has_read_everything_has_no_lag_however_it_is_asked(cluster: Cluster) -> None:
    bus = cluster.one.bus
    bus.create_topic("lagging", partitions=1)
    with bus.transaction("lagging") as tx:
        tx.send("lagging", b"seen")
    bus.reset_group("lagging", to=1, topic="lagging")  # behind the record; librdkafka does not commit behind a marker
    with suppress(ZeroDivisionError), bus.transaction("lagging") as tx:
        tx.send("lagging", b"never seen").result(30)
        raise ZeroDivisionError

    (told,) = bus.describe_group("lagging").partitions

    assert (told.offset, told.end_offset, told.lag, told.lag_seconds) == (1, 4, 0, 0.0)
    for client in cluster.clients:
        found = client.get("/groups/lagging").json()
        assert (found["lag"], found["lag_seconds"]) == (0, 0.0)

    bus.reset_group("lagging", to=0, topic="lagging")
    (told,) = bus.describe_group("lagging").partitions
    assert told.lag == 1 == cluster.clients[0].get("/groups/lagging").json()["lag"]
    assert told.lag_seconds is not None


@pytest.mark.parametrize("at", [0, 1])
def test_a_share_group_is_described_with_what_is_left(cluster: Cluster, at: int) -> None:
    client, name = cluster.clients[at], f"shared-{at}"
    cluster.one.bus.create_topic(name)
    consumer = ShareConsumer({"bootstrap.servers": cluster.one.bootstrap, "group.id": name, "log_level": 0})
    consumer.subscribe([name])
    for _ in range(100):
        consumer.poll(0.1)
        if any(each["committed"] == 0 for each in client.get(f"/groups/{name}").json().get("offsets", ())):
            break  # where it begins is written: at the end of the empty topic
    consumer.close()
    cluster.one.bus.send(name, "not done").result(10)

    found = client.get(f"/groups/{name}").json()
    assert (found["type"], found["lag"], found["lag_seconds"]) == ("Share", 1, None)
    (row,) = client.get("/groups", params={"search": name, "lag": "true"}).json()["groups"]
    assert (row["type"], row["lag"]) == ("Share", 1)
    refused = client.post(f"/groups/{name}/offsets", json={"to": "earliest", "topics": [name]})
    assert (refused.status_code, refused.json()["error"]) == (400, "INVALID_REQUEST")
    assert client.delete(f"/groups/{name}").status_code == 200
    missing = client.get(f"/groups/{name}")
    assert (missing.status_code, missing.json()["message"]) == (404, f"there is no group '{name}'")


def test_a_group_with_members_is_not_reset(cluster: Cluster, orders: str) -> None:
    reading = cluster.one.bus.consume(orders, group="busy")
    next(reading)
    client = cluster.clients[0]
    described = client.get("/groups/busy").json()
    assert len(described["members"]) == 1
    assert {each["topic"] for each in described["members"][0]["assignment"]} == {orders}
    refused = client.post("/groups/busy/offsets", json={"to": "latest", "topics": [orders]})
    assert (refused.status_code, refused.json()["error"]) == (409, "NON_EMPTY_GROUP")
    assert client.delete("/groups/busy").status_code == 409
    reading.close()


# Refusals


def test_every_refusal_is_json_with_a_code_and_a_sentence(cluster: Cluster, orders: str) -> None:
    client = cluster.clients[0]
    bad = [
        client.get("/nothing"),
        client.put("/topics"),
        client.get("/topics/none"),
        client.get("/groups/none"),
        client.get(f"/topics/{orders}/records", params={"cursor": "rubbish"}),
        client.get(f"/topics/{orders}/records", params={"filter": "value:runs:os.system"}),
        client.get(f"/topics/{orders}/records", params={"filter": "value:matches:(?=x)"}),
        client.get(f"/topics/{orders}/records", params={"partition": "99"}),
        client.post("/topics", content=b"{"),
        client.post("/topics", content=b"{", headers={"content-type": "application/json"}),
        client.post("/topics", json={"name": "x", "partition": 1}),
        client.post("/topics", json={"name": "a/b"}),
        client.post("/login", json={}),
    ]
    for answer in bad:
        assert 400 <= answer.status_code < 500, answer.url
        problem = answer.json()
        assert set(problem) == {"error_code", "error", "message", "retriable"}
        assert problem["message"]


@pytest.mark.parametrize(
    ("method", "path", "params", "body"),
    [
        ("DELETE", "/topics/kept", {"validate-only": "true"}, None),
        ("DELETE", "/topics/kept", {}, {"validate_only": True}),
        ("PATCH", "/topics/kept", {"validate_only": "true"}, {"partitions": 4}),
        ("POST", "/topics/kept/records", {"validate_only": "true"}, {"records": [{"value": "x"}]}),
        ("GET", "/topics/kept/records", {"filtr": "key:eq:a"}, None),
    ],
)
def test_a_parameter_that_is_misspelt_or_misplaced_is_refused_and_nothing_is_done(
    cluster: Cluster, method: str, path: str, params: dict[str, str], body: Any
) -> None:
    client = cluster.clients[0]
    client.post("/topics", json={"name": "kept", "partitions": 2})
    answer = client.request(method, path, params=params, json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, "INVALID_REQUEST")
    assert len(client.get("/topics/kept").json()["partitions"]) == 2
    assert client.get("/topics/kept/records").json()["records"] == []


def test_other_names_and_other_pages_are_refused(cluster: Cluster) -> None:
    client = cluster.clients[0]
    assert client.get("/cluster", headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/cluster", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.get("/cluster", headers={"Origin": cluster.one.http}).status_code == 200


PARAMETERS = (
    *("partition", "key", "filter", "isolation", "format", "order", "offset", "time", "cursor", "limit", "budget_ms"),
    *("budget_mb", "content", "after", "search", "internal", "lag", "state", "longer_than_ms", "as", "max_records"),
)
VALUES = (
    *("", "0", "-1", "9" * 30, "1e9", "NaN", "٣", "true", "null", "[]", "../..", "%00", "\x00", "\ud7ff", "a" * 5000),
    *("value:eq:1", "value.a.b:gt:1", "header.:exists:", "key:matches:[", "offset:lt:x", ":::", "AAAA", EVIL),
)


def test_no_parameter_makes_the_node_fail(cluster: Cluster, orders: str) -> None:
    dice = random.Random(7)
    paths = (
        "/topics",
        f"/topics/{orders}/records",
        "/groups",
        "/transactions",
        f"/topics/{orders}/export",
        "/connections",
    )
    for _ in range(150):
        params: list[tuple[str, str | int | float | bool | None]] = [
            (dice.choice(PARAMETERS), dice.choice(VALUES)) for _ in range(dice.randrange(4))
        ]
        answer = cluster.clients[dice.randrange(2)].get(dice.choice(paths), params=params)
        assert answer.status_code < 500, (answer.url, answer.text)


# Who may


class FakeLogin:
    """Knows one user."""

    async def by_password(self, user: str, password: str, *, peer: tuple[str, int]) -> Identity:
        if (user, password, peer[0]) != ("alice", "secret", "127.0.0.1"):
            raise NotAuthenticated("wrong user or password")
        return Identity(Principal("User", "alice"))

    async def by_token(self, token: str, *, peer: tuple[str, int]) -> Identity:
        raise NotAuthenticated(f"{peer} has no token, but {len(token)} characters")

    def still_counts(self, identity: Identity) -> bool:
        return identity.principal.name == "alice"


def test_writing_and_exporting_can_be_off() -> None:
    settings = {"http.listener": "127.0.0.1:0", "http.write.enable": "false", "http.export.enable": "false"}
    with EmbeddedBroker(settings) as broker:
        broker.bus.create_topic("t")
        client = _wait_for_api(broker.http)
        assert client.post("/topics", json={"name": "x"}).status_code == 403
        assert client.post("/topics", json={"name": "x", "validate_only": True}).status_code == 201
        assert client.post("/topics/t/records", json={"records": [{"value": "x"}]}).status_code == 403
        assert client.delete("/topics/t").status_code == 403
        assert client.get("/topics/t/export").status_code == 403
        assert client.get("/topics/t").json()["allowed"] == ["read", "describe", "describe_configs"]
        client.close()


def test_who_has_to_log_in_gets_a_token_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = NodeHttp.begin

    async def begin_with_login(self: NodeHttp) -> None:
        self.login = FakeLogin()
        await begin(self)

    monkeypatch.setattr(NodeHttp, "begin", begin_with_login)
    with EmbeddedBroker({"http.listener": "127.0.0.1:0"}) as broker:
        client = _wait_for_api(broker.http)
        refused = client.get("/cluster")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert client.post("/login", json={"username": "alice", "password": "wrong"}).status_code == 401
        assert client.post("/login", json={"oauth_token": "x"}).status_code == 401
        for neither in ({}, {"username": "alice"}, {"username": "alice", "password": "secret", "oauth_token": "x"}):
            assert client.post("/login", json=neither).status_code == 400
        given = client.post("/login", json={"username": "alice", "password": "secret"}).json()
        headers = {"Authorization": f"Bearer {given['token']}"}
        assert client.get("/cluster", headers=headers).json()["principal"] == "User:alice"
        forged = {"Authorization": f"Bearer {given['token'][:-2]}AA"}
        assert client.get("/cluster", headers=forged).status_code == 401
        assert client.get("/openapi.json").status_code == 200
        client.close()
