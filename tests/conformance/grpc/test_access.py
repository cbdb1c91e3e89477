"""Every call needs what Kafka's API of the same meaning needs."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

import barnabas
from barnabas.core.access.resources import Operation, Resource, ResourceType
from barnabas.services.session import Session
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.v1 import bus_pb2
from tests.conformance.grpc.clients import TIMEOUT_S, Client, Consumer, produce_stream, refusal

S = grpc.StatusCode
TOPIC, GROUP = "secret", "readers"


class Rules:
    """Allows what is in `allowed`."""

    def __init__(self) -> None:
        self.allowed: set[tuple[Operation, ResourceType]] = set()

    def allows(self, _session: Session, operation: Operation, resource: Resource) -> bool:
        return (operation, resource.type) in self.allowed

    def allows_any(self, _session: Session, operation: Operation, kind: ResourceType) -> bool:
        return (operation, kind) in self.allowed


@pytest.fixture(scope="module")
def rules() -> Rules:
    return Rules()


@pytest.fixture(scope="module")
def client(rules: Rules) -> Iterator[Client]:
    with barnabas.embedded({"grpc.listener": "127.0.0.1:0"}) as broker, grpc.insecure_channel(broker.grpc) as channel:
        made = Client(channel)
        made.stub.CreateTopic(bus_pb2.CreateTopicRequest(name=TOPIC), timeout=TIMEOUT_S)
        made.produce(TOPIC, [b"x"])
        _use(broker, rules)
        yield made


def _use(broker: EmbeddedBroker, rules: Rules) -> None:
    assert broker._node is not None
    assert broker._node.broker is not None
    broker._node.broker.access.use(rules)


def consume(client: Client, **more: Any) -> None:
    options = bus_pb2.ConsumeOptions(topics=[bus_pb2.TopicSelection(topic=TOPIC)], **more)
    consumer = Consumer(client, options)
    try:
        consumer.next("assigned")
    finally:
        consumer.cancel()


TOPIC_READ = {(Operation.READ, ResourceType.TOPIC), (Operation.DESCRIBE, ResourceType.TOPIC)}
GROUP_READ = {(Operation.READ, ResourceType.GROUP)}
CALLS: list[tuple[Any, set[tuple[Operation, ResourceType]]]] = [
    (lambda client: client.produce(TOPIC, [b"y"]), {(Operation.WRITE, ResourceType.TOPIC)}),
    (
        lambda client: list(
            produce_stream(client, bus_pb2.ProduceStreamOptions(topic=TOPIC), [[bus_pb2.NewRecord(value=b"y")]])
        ),
        {(Operation.WRITE, ResourceType.TOPIC)},
    ),
    (lambda client: client.stub.Get(bus_pb2.GetRequest(topic=TOPIC), timeout=TIMEOUT_S), TOPIC_READ),
    (consume, TOPIC_READ),
    (lambda client: consume(client, group=GROUP), TOPIC_READ | GROUP_READ),
    (lambda client: client.stub.Commit(bus_pb2.CommitRequest(group=GROUP), timeout=TIMEOUT_S), GROUP_READ),
    (
        lambda client: client.stub.CreateTopic(
            bus_pb2.CreateTopicRequest(name="new", validate_only=True), timeout=TIMEOUT_S
        ),
        {(Operation.CREATE, ResourceType.TOPIC)},
    ),
    (
        lambda client: client.stub.DescribeTopic(bus_pb2.DescribeTopicRequest(name=TOPIC), timeout=TIMEOUT_S),
        {(Operation.DESCRIBE, ResourceType.TOPIC)},
    ),
    (
        lambda client: next(client.stub.Watch(bus_pb2.WatchRequest(topics=[TOPIC]), timeout=TIMEOUT_S)),
        {(Operation.DESCRIBE, ResourceType.TOPIC)},
    ),
    (
        lambda client: client.stub.DeleteTopic(bus_pb2.DeleteTopicRequest(name=TOPIC), timeout=TIMEOUT_S),
        {(Operation.DELETE, ResourceType.TOPIC)},
    ),
]


@pytest.mark.parametrize(("call", "needed"), CALLS)
def test_a_call_needs_what_it_needs_and_nothing_else(client: Client, rules: Rules, call: Any, needed: Any) -> None:
    rules.allowed = set()
    assert refusal(lambda: call(client))[0] == S.PERMISSION_DENIED
    rules.allowed = needed
    call(client)


def test_topics_that_may_not_be_seen_are_not_listed(client: Client, rules: Rules) -> None:
    rules.allowed = set()
    assert not client.stub.ListTopics(bus_pb2.ListTopicsRequest(), timeout=TIMEOUT_S).topics
