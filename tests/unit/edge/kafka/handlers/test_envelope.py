"""Envelope: what is in it is carried out for its caller; bad ones are refused, each with its own code."""

from collections.abc import Mapping
from typing import Any

import pytest
from kio.index import load_request_schema

from barnabas.core.access.resources import Operation, Resource, ResourceType
from barnabas.edge.kafka import answering
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import envelope
from barnabas.edge.kafka.server import ENVELOPE_ROOM
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import API_VERSIONS, CREATE_TOPICS, ENVELOPE, METADATA, PRODUCE, Api
from barnabas.wire.errors import MalformedRequest, UnservedVersion
from barnabas.wire.principal import PrincipalData, read_principal, write_principal
from barnabas.wire.responses import read_response, write_response
from tests.support.served import HANDLERS
from tests.unit.edge.kafka.calling import Caller, FakeConnection, frame_of
from tests.unit.edge.kafka.support import build, config_of, new_session, run, through_bytes
from tests.unit.wire.kio_values import encode

PRINCIPAL = write_principal(PrincipalData("User", "alice"))
HOST = bytes([10, 0, 0, 7])
NEW_TOPIC: dict[str, Any] = {"topics": [{"name": "a", "num_partitions": 1, "replication_factor": 1}]}
INVALID, UNSUPPORTED, NO_PRINCIPAL = 42, 35, 97


def inner(api: Api = CREATE_TOPICS, version: int = 7, **values: Any) -> bytes:
    return frame_of(api, version, encode(build(load_request_schema(api.key, version), values)))


async def send(broker: Broker, data: bytes, **fields: Any) -> Mapping[str, Any]:
    """What the handler answers to an envelope with this request in it."""
    values = {"request_data": data, "request_principal": PRINCIPAL, "client_host_address": HOST, **fields}
    entity = through_bytes(ENVELOPE, 0, values)
    return await HANDLERS[ENVELOPE.key](broker, entity, Asked(0, new_session("CONTROLLER")))


def test_the_answer_comes_with_the_offset_that_was_applied() -> None:
    async def scenario(broker: Broker) -> None:
        before = broker.metadata.applied_offset
        values = await send(broker, inner(**NEW_TOPIC))
        assert values["error_code"] == 0
        assert values["metadata_offset"] == broker.metadata.applied_offset > before
        answer = read_response(CREATE_TOPICS.key, 7, values["response_data"])
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [("a", 0)]
        assert values["response_data"][:4] == b"\x00\x00\x00\x07", "the correlation id of the request"
        body = bytes(write_response(ENVELOPE.key, 0, values))
        read = read_response(ENVELOPE.key, 0, b"\x00\x00\x00\x07\x00" + body)
        assert read.metadata_offset == values["metadata_offset"]

    run(scenario)


class Listening:
    """Allows all but what a node may do, and keeps who asked."""

    def __init__(self, *, allows_nodes: bool) -> None:
        self._allows_nodes = allows_nodes
        self.sessions: list[Session] = []

    def allows(self, session: Session, operation: Operation, resource: Resource) -> bool:
        if operation is Operation.CLUSTER_ACTION:
            return self._allows_nodes
        if operation is Operation.CREATE:
            self.sessions.append(session)
        return True

    def allows_any(self, session: Session, operation: Operation, kind: ResourceType) -> bool:
        return True


def test_its_caller_is_the_client_of_the_other_node() -> None:
    async def scenario(broker: Broker) -> None:
        rules = Listening(allows_nodes=True)
        broker.access.use(rules)
        await send(broker, inner(**NEW_TOPIC))
        await send(broker, inner(**NEW_TOPIC), client_host_address=bytes(15) + b"\x01")
        assert [str(session.principal) for session in rules.sessions] == ["User:alice"] * 2
        assert [session.client_host for session in rules.sessions] == ["/10.0.0.7", "/::1"]
        assert [(session.client_id, session.is_forwarded) for session in rules.sessions] == [("c", True)] * 2

    run(scenario)


def test_only_a_node_can_be_the_caller_that_nodes_are() -> None:
    async def scenario(broker: Broker) -> None:
        rules = Listening(allows_nodes=True)
        broker.access.use(rules)
        node = write_principal(PrincipalData("Node", "itself"))
        await send(broker, inner(**NEW_TOPIC))
        await send(broker, inner(**NEW_TOPIC), request_principal=node)
        assert [session.is_node for session in rules.sessions] == [False, True]
        broker.access.use(Listening(allows_nodes=False))
        assert await send(broker, inner(**NEW_TOPIC), request_principal=node) == {"error_code": 31}

    run(scenario)


def test_one_that_is_no_node_is_refused_whoever_the_caller_is() -> None:
    async def scenario(broker: Broker) -> None:
        broker.access.use(Listening(allows_nodes=False))
        assert await send(broker, inner(**NEW_TOPIC)) == {"error_code": 31}

    run(scenario)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"", INVALID, id="nothing"),
        pytest.param(inner()[:3], INVALID, id="half-a-header"),
        pytest.param(inner(**NEW_TOPIC)[:-9], INVALID, id="truncated"),
        pytest.param(frame_of(CREATE_TOPICS, 7, b"\xff\xff\xff\xff\x0f"), INVALID, id="too-many-elements"),
        pytest.param(frame_of(CREATE_TOPICS, 99, b""), UNSUPPORTED, id="unknown-version"),
        pytest.param(frame_of(CREATE_TOPICS, -1, b""), UNSUPPORTED, id="negative-version"),
        pytest.param(inner(ENVELOPE, 0, request_data=inner(**NEW_TOPIC)), INVALID, id="envelope-in-an-envelope"),
        pytest.param(inner(METADATA, 9, topics=[]), INVALID, id="not-for-the-controller"),
        pytest.param(frame_of(PRODUCE, 9, b""), INVALID, id="produce"),
        pytest.param(frame_of(API_VERSIONS, 99, b""), INVALID, id="api-versions"),
        pytest.param(b"\xff\xff" + inner()[2:], INVALID, id="unknown-api"),
        pytest.param(frame_of(CREATE_TOPICS, 7, b"", client_id=b"\xff"), INVALID, id="client-id-is-no-text"),
    ],
)
def test_a_request_that_cannot_be_carried_out_is_refused(data: bytes, code: int) -> None:
    async def scenario(broker: Broker) -> None:
        assert await send(broker, data) == {"error_code": code}

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"request_principal": None}, NO_PRINCIPAL),
        ({"request_principal": b"\x00"}, NO_PRINCIPAL),
        ({"request_principal": PRINCIPAL[:-1]}, NO_PRINCIPAL),
        ({"request_principal": PRINCIPAL[:-3]}, NO_PRINCIPAL),
        ({"request_principal": b"\x00\x00\x02\xff\x01\x00\x00"}, NO_PRINCIPAL),
        ({"client_host_address": b""}, INVALID),
        ({"client_host_address": bytes(5)}, INVALID),
    ],
)
def test_a_caller_that_cannot_be_read_is_refused(fields: dict[str, Any], code: int) -> None:
    async def scenario(broker: Broker) -> None:
        assert await send(broker, inner(**NEW_TOPIC), **fields) == {"error_code": code}
        assert broker.image.topics == {}

    run(scenario)


def test_a_request_that_is_too_long_is_refused_and_so_is_an_envelope_with_more_room_than_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(broker: Broker) -> None:
        monkeypatch.setattr(envelope, "MAX_REQUEST_BYTES", 1000)
        assert await send(broker, inner(**NEW_TOPIC) + bytes(1000)) == {"error_code": INVALID}
        assert (await send(broker, inner(**NEW_TOPIC)))["error_code"] == 0

    run(scenario)

    async def frames(broker: Broker) -> None:
        connection = FakeConnection()
        connection.listener = "CONTROLLER"
        caller = Caller(broker, connection)
        longest = answering.MAX_REQUEST_BYTES + ENVELOPE_ROOM
        with pytest.raises(MalformedRequest):
            caller.send(frame_of(ENVELOPE, 0, bytes(longest)))

    run(frames, config_of(listeners="PLAINTEXT://h:9092,CONTROLLER://h:9093", controller_listener_names="CONTROLLER"))


def test_it_is_not_served_to_clients() -> None:
    async def scenario(broker: Broker) -> None:
        with pytest.raises(UnservedVersion, match="API 58 is not served"):
            Caller(broker).send(frame_of(ENVELOPE, 0, b""))

    run(scenario)


@pytest.mark.parametrize(
    "principal", [PrincipalData("User", "alice"), PrincipalData("Gruppe", "ä" * 300, is_token_authenticated=True)]
)
def test_a_principal_is_read_as_it_was_written(principal: PrincipalData) -> None:
    assert read_principal(write_principal(principal)) == principal


def test_a_principal_is_written_as_kafka_does() -> None:
    assert PRINCIPAL == b"\x00\x00" + b"\x05User" + b"\x06alice" + b"\x00" + b"\x00"
