"""A real broker with gRPC, and clients of it from the generated stubs."""

from collections.abc import Iterator

import grpc
import pytest

import barnabas
from barnabas.testing.embedded import EmbeddedBroker
from tests.conformance.grpc.clients import Client


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "grpc.listener": "127.0.0.1:0",
        "grpc.max.streams": "12",
        "auto.create.topics.enable": "false",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "100",
    }
    with barnabas.embedded(settings) as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: EmbeddedBroker) -> Iterator[Client]:
    with grpc.insecure_channel(broker.grpc) as channel:
        yield Client(channel)
