"""Quotas over HTTP and gRPC: who is over one hears when to come again, or is held if it is a stream."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import httpx
import pytest
from confluent_kafka.cimpl import NewTopic

from barnabas.client import Bus
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.v1 import bus_pb2
from tests.conformance.security.users import TIMEOUT_S, Admin, basic, grpc_of, http_of, log_in, status_of, wait_until

S = grpc.StatusCode
LONG = "x" * 5_000
USERS = ("http-writer", "http-reader", "http-maker", "http-busy", "free", "grpc-writer", "grpc-reader", "grpc-maker")
STREAMING = ("stream-writer", "stream-reader", "tail-reader")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "listeners": "CLIENTS://127.0.0.1:0,LOCAL://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,LOCAL:PLAINTEXT",
        "inter.broker.listener.name": "LOCAL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "http.listener": "127.0.0.1:0",
        "grpc.listener": "127.0.0.1:0",
    }
    with EmbeddedBroker(settings) as broker:
        admin = Admin(broker.bootstrap_of("LOCAL"))
        admin.client.create_topics([NewTopic("orders", 1)])["orders"].result(TIMEOUT_S)
        for user in (*USERS, *STREAMING):
            admin.set_password(user)
        yield broker


@pytest.fixture(scope="module")
def bus(broker: EmbeddedBroker) -> Iterator[Bus]:
    with Bus(broker.bootstrap_of("LOCAL")) as bus:
        yield bus


@pytest.fixture(scope="module")
def http(broker: EmbeddedBroker) -> Iterator[httpx.Client]:
    with http_of(broker) as client:
        yield client


@pytest.fixture(scope="module")
def stub(broker: EmbeddedBroker) -> Iterator[Any]:
    with grpc_of(broker) as stub:
        yield stub


def check_refused(answer: httpx.Response, quota: str) -> None:
    assert (answer.status_code, answer.json()["error_code"]) == (429, 89)
    assert quota in answer.json()["message"]
    assert answer.json()["retriable"]
    assert int(answer.headers["retry-after"]) >= 1


def test_who_has_produced_too_much_over_http_is_told_when_to_come_again(http: httpx.Client, bus: Bus) -> None:
    bus.quotas.set({"user": "http-writer"}, {"producer_byte_rate": 100})
    record, writer = {"records": [{"value": LONG}]}, log_in(http, "http-writer")
    first = http.post("/topics/orders/records", json=record, headers=writer).json()["records"][0]
    check_refused(http.post("/topics/orders/records", json=record, headers=writer), "producer_byte_rate")
    assert http.get("/topics/orders/records?limit=1", headers=writer).status_code == 200
    other = http.post("/topics/orders/records", json=record, headers=log_in(http, "free")).json()["records"][0]
    assert other["offset"] == first["offset"] + 1  # nothing of what was refused is written


def test_who_has_read_too_much_over_http_is_told_when_to_come_again(http: httpx.Client, bus: Bus) -> None:
    bus.send("orders", LONG).result(TIMEOUT_S)
    bus.quotas.set({"user": "http-reader"}, {"consumer_byte_rate": 100})
    reader = log_in(http, "http-reader")
    assert http.get("/topics/orders/records", headers=reader).status_code == 200
    check_refused(http.get("/topics/orders/records", headers=reader), "consumer_byte_rate")
    check_refused(http.get("/topics/orders/partitions/0/records/0", headers=reader), "consumer_byte_rate")


def test_what_a_filter_looks_at_counts_although_nothing_is_found(http: httpx.Client, bus: Bus) -> None:
    bus.send("orders", LONG).result(TIMEOUT_S)
    bus.quotas.set({"client-id": "a-filter"}, {"consumer_byte_rate": 100})
    looking = {**log_in(http, "free"), "Barnabas-Client-Id": "a-filter"}
    found = http.get("/topics/orders/records?filter=value:eq:nothing", headers=looking)
    assert (found.status_code, found.json()["records"]) == (200, [])
    check_refused(http.get("/topics/orders/records?filter=value:eq:nothing", headers=looking), "consumer_byte_rate")
    assert http.get("/topics/orders/records", headers=log_in(http, "free")).status_code == 200


def test_who_has_changed_too_many_partitions_over_http_is_told_when_to_come_again(http: httpx.Client, bus: Bus) -> None:
    bus.quotas.set({"user": "http-maker"}, {"controller_mutation_rate": 1})
    maker = log_in(http, "http-maker")
    assert http.post("/topics", json={"name": "made", "partitions": 20}, headers=maker).status_code == 201
    check_refused(http.post("/topics", json={"name": "more"}, headers=maker), "controller_mutation_rate")
    check_refused(http.delete("/topics/made", headers=maker), "controller_mutation_rate")
    assert http.get("/topics", headers=maker).status_code == 200


def test_who_takes_too_much_of_the_nodes_time_over_http_is_told_when_to_come_again(
    http: httpx.Client, bus: Bus
) -> None:
    bus.quotas.set({"user": "http-busy"}, {"request_percentage": 0.0001})
    busy = log_in(http, "http-busy")
    assert http.get("/topics", headers=busy).status_code == 200
    check_refused(http.get("/topics", headers=busy), "request_percentage")
    log_in(http, "http-busy")  # who has not logged in yet is nobody, and has no quota


def refused(call: Callable[[], Any]) -> tuple[str, int]:
    """What a call is refused for, and how long to wait."""
    with pytest.raises(grpc.RpcError) as refusal:
        call()
    error: Any = refusal.value
    assert error.code() is S.RESOURCE_EXHAUSTED
    trailing = dict(error.trailing_metadata())
    assert trailing["barnabas-kafka-code"] == "89"
    assert b"google.rpc.RetryInfo" in trailing["grpc-status-details-bin"]
    return error.details(), int(trailing["grpc-retry-pushback-ms"])


def test_who_is_over_a_quota_over_grpc_is_told_when_to_come_again(stub: Any, bus: Bus) -> None:
    bus.quotas.set({"user": "grpc-writer"}, {"producer_byte_rate": 100})
    bus.quotas.set({"user": "grpc-reader"}, {"consumer_byte_rate": 100})
    bus.quotas.set({"user": "grpc-maker"}, {"controller_mutation_rate": 1})
    request = bus_pb2.ProduceRequest(topic="orders", records=[bus_pb2.NewRecord(value=LONG.encode())])
    written = stub.Produce(request, timeout=TIMEOUT_S, metadata=basic("grpc-writer")).outcomes[0]
    words, wait_ms = refused(lambda: stub.Produce(request, timeout=TIMEOUT_S, metadata=basic("grpc-writer")))
    assert "producer_byte_rate" in words
    assert wait_ms > 0
    record = bus_pb2.GetRequest(topic="orders", partition=0, offset=written.offset)
    assert stub.Get(record, timeout=TIMEOUT_S, metadata=basic("grpc-writer")).record.value == LONG.encode()
    stub.Get(record, timeout=TIMEOUT_S, metadata=basic("grpc-reader"))
    words, _ = refused(lambda: stub.Get(record, timeout=TIMEOUT_S, metadata=basic("grpc-reader")))
    assert "consumer_byte_rate" in words
    new = bus_pb2.CreateTopicRequest(name="grpc-made", partitions=20)
    assert stub.CreateTopic(new, timeout=TIMEOUT_S, metadata=basic("grpc-maker")).partitions == 20
    more = bus_pb2.CreateTopicRequest(name="grpc-more")
    words, wait_ms = refused(lambda: stub.CreateTopic(more, timeout=TIMEOUT_S, metadata=basic("grpc-maker")))
    assert "controller_mutation_rate" in words
    assert wait_ms > 0
    # Nor by writing to a topic that is created for that.
    other = bus_pb2.ProduceRequest(topic="grpc-other", records=request.records)
    refused(lambda: stub.Produce(other, timeout=TIMEOUT_S, metadata=basic("grpc-maker")))
    assert status_of(lambda: stub.Produce(other, timeout=TIMEOUT_S, metadata=basic("free"))) is S.OK


def throttled(broker: EmbeddedBroker, kind: str) -> int:
    assert broker.broker is not None
    return broker.broker.quotas.throttled[kind]


def test_a_stream_that_writes_too_much_is_read_no_further_until_it_may_go_on(
    broker: EmbeddedBroker, stub: Any, bus: Bus
) -> None:
    bus.create_topic("streamed")
    bus.quotas.set({"user": "stream-writer"}, {"producer_byte_rate": 100})
    before = throttled(broker, "producer")

    def requests() -> Iterator[Any]:
        yield bus_pb2.ProduceStreamRequest(options=bus_pb2.ProduceStreamOptions(topic="streamed"))
        for _ in range(3):
            yield bus_pb2.ProduceStreamRequest(records=[bus_pb2.NewRecord(value=LONG.encode())])

    responses = stub.ProduceStream(requests(), timeout=TIMEOUT_S, metadata=basic("stream-writer"))
    assert next(responses).sequence == 0
    wait_until(lambda: throttled(broker, "producer") > before)
    assert len(list(bus.consume("streamed", until_end=True))) == 1
    bus.quotas.remove({"user": "stream-writer"})
    assert [each.sequence for each in responses] == [1, 2]


def test_streams_that_read_too_much_are_held_until_they_may_go_on(
    broker: EmbeddedBroker, stub: Any, http: httpx.Client, bus: Bus
) -> None:
    bus.create_topic("read")
    for user in ("stream-reader", "tail-reader"):
        bus.quotas.set({"user": user}, {"consumer_byte_rate": 100})
    for _ in range(3):
        bus.send("read", LONG).result(TIMEOUT_S)
    before = throttled(broker, "consumer")
    options = bus_pb2.ConsumeOptions(
        topics=[bus_pb2.TopicSelection(topic="read")],
        until_end=True,
        ack_mode=bus_pb2.ACK_MODE_AUTOMATIC,
    )
    stream = stub.Consume(
        iter([bus_pb2.ConsumeRequest(options=options)]), timeout=TIMEOUT_S, metadata=basic("stream-reader")
    )
    offsets: list[int] = []
    for response in stream:
        offsets += [each.offset for each in response.records.records]
        if len(offsets) == 1:
            wait_until(lambda: throttled(broker, "consumer") > before)
            bus.quotas.remove({"user": "stream-reader"})
    assert offsets == [0, 1, 2]
    reader = log_in(http, "tail-reader")
    with http.stream("GET", "/topics/read/tail?last_event_id=0:0", headers=reader) as tail:
        before = throttled(broker, "consumer")
        records = (line for line in tail.iter_lines() if line == "event: record")
        next(records)
        wait_until(lambda: throttled(broker, "consumer") > before)
        bus.quotas.remove({"user": "tail-reader"})
        assert [next(records), next(records)] == ["event: record"] * 2
