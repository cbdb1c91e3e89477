"""Anything that may be sent to a whole node, in every API and version, to its listeners for clients and controllers.

Requests made by hypothesis from kio's schemas with any values they can have, and the same bytes changed. Each is
followed by an honest request on the same connection. The oracle: an answer that kio can read, or a closed connection;
and a node that complains of nothing, lives, and serves. To the controllers' listener some of the requests come from a
stranger who knows the quorum (`knowing`): the node, its only voter, leads it to the end in the epoch of its start.

TEST_FUZZ_EXAMPLES raises the number of examples for each version of each API.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.serial.errors import OutOfBoundValue

from barnabas.core.records.batch import Codec
from barnabas.core.records.record import Record, encode_batch
from barnabas.edge.kafka.registry import FORWARDED
from barnabas.services.quorum import QuorumService
from barnabas.wire.apis import APIS, DESCRIBE_TRANSACTIONS, ENVELOPE, FETCH, PRODUCE, Api
from barnabas.wire.principal import PrincipalData, write_principal
from barnabas.wire.produce import read_produce
from barnabas.wire.responses import read_response
from tests.support.served import CLIENT_APIS, CONTROLLER_APIS, SERVED, versions_of
from tests.system.knowing import Known
from tests.system.running import Client, RunningNode, create_topic, read_answer
from tests.unit.edge.kafka.calling import frame_of
from tests.unit.wire.kio_values import encode, requests

EXAMPLES = int(os.environ.get("TEST_FUZZ_EXAMPLES", "6"))
FUZZ = settings(
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.reuse, Phase.generate, Phase.shrink],
)
SHORT_WAIT_S = 0.3
CLIENTS, CONTROLLERS = "PLAINTEXT", "CONTROLLER"
BY_API = pytest.mark.parametrize(
    ("listener", "api"),
    [
        pytest.param(listener, api, id=f"{listener.lower()}-{api.name}")
        for listener, apis in ((CLIENTS, CLIENT_APIS), (CONTROLLERS, CONTROLLER_APIS))
        for api in apis
    ],
)
BATCHES = st.builds(
    lambda count, codec, fields, key: bytes(
        encode_batch([Record(n, 1, key, b"v" * n) for n in range(count)], codec=codec, **fields)
    ),
    st.integers(1, 5),
    st.sampled_from(Codec),
    st.sampled_from(
        [{}, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}, {"is_transactional": True, "producer_id": 1}]
    ),
    st.none() | st.just(b"k"),
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    node = RunningNode(
        tmp_path_factory.mktemp("fuzz"),
        listeners=f"{CLIENTS}://127.0.0.1:0,{CONTROLLERS}://127.0.0.1:0",
        controller_listener_names=CONTROLLERS,
        max_incremental_fetch_session_cache_slots="10",
    )
    for name, configs in (("t", {}), ("a", {"cleanup_policy": "compact"}), ("0", {"compression_type": "zstd"})):
        create_topic(node.port, name, 2, **configs)
    epoch = quorum_of(node).epoch
    yield node
    node.check()
    assert (quorum_of(node).leader_id, quorum_of(node).epoch) == (quorum_of(node).replica.node_id, epoch)
    node.stop()


def quorum_of(node: RunningNode) -> QuorumService:
    assert node.node.broker is not None
    assert node.node.broker.quorum is not None
    return node.node.broker.quorum


class Fuzzer:
    """Sends what it is given and holds the node to the oracle; keeps its connection while that is open."""

    def __init__(self, node: RunningNode, listener: str) -> None:
        self._node = node
        self._port = node.node.addresses[listener][1]
        self._client = Client(self._port)
        self.sent = 0

    def send(self, api: Api, version: int, frame: bytes, *, is_valid: bool) -> None:
        self.sent += 1
        self._client.socket.settimeout(SHORT_WAIT_S if api is FETCH else 20)
        try:
            is_open, answers = self._client.ask_raw(frame)
        except TimeoutError:
            assert api is FETCH, "no answer, and no end"  # a poll may take as long as it asks for
            is_open, answers = False, []
        if not is_open:
            self._client.socket.close()
            self._client = Client(self._port)
        assert self._node.errors == [], self._node.errors[-1]
        assert self._node.is_alive
        assert len(answers) <= 1
        if is_valid and answers:
            assert answers[0][:4] == frame[4:8]
            check_readable(api, version, answers[0])
        if is_valid and not is_open and api is not FETCH:
            assert api is PRODUCE, "a request that follows its schema is answered"
            assert_wants_no_answer(frame, version)

    def close(self) -> None:
        self._client.socket.close()


def check_readable(api: Api, version: int, answer: bytes) -> None:
    if api is ENVELOPE:  # it has a field of our own, which kio does not know
        read_response(api.key, version, answer)
        return
    # kio takes no time before 1970, and the -1 of a transaction that has not begun is one.
    with suppress(OutOfBoundValue) if api is DESCRIBE_TRANSACTIONS else nullcontext():
        read_answer(api, version, answer)


def assert_wants_no_answer(frame: bytes, version: int) -> None:
    body_at = 11 + (version >= PRODUCE.flexible_from)
    assert read_produce(memoryview(frame), body_at, len(frame), version).acks == 0


@pytest.fixture
def fuzzer(node: RunningNode, listener: str) -> Iterator[Fuzzer]:
    fuzzer = Fuzzer(node, listener)
    yield fuzzer
    fuzzer.close()


@pytest.fixture
def known(node: RunningNode, listener: str) -> Known | None:
    """What a stranger on a listener for controllers knows; on one for clients it is of no use."""
    if listener == CLIENTS:
        return None
    quorum = quorum_of(node)
    assert quorum.replica.directory_id is not None
    return Known(quorum.cluster_id, quorum.replica.node_id, quorum.replica.directory_id)


def filled(envelope: Any, data: st.DataObject) -> Any:
    """An envelope with a request in it that may be there."""
    inner = APIS[data.draw(st.sampled_from(sorted(FORWARDED)))]
    version = data.draw(st.sampled_from(versions_of(inner)))
    frame = frame_of(inner, version, encode(tamed(data.draw(requests(inner, version)), data)))
    principal = write_principal(PrincipalData("User", "somebody"))
    return replace(envelope, request_data=frame, request_principal=principal, client_host_address=b"\x7f\x00\x00\x01")


def tamed(entity: Any, data: st.DataObject, api: Api | None = None, known: Known | None = None) -> Any:
    """A request that does not wait for long, and that sometimes brings a real batch to a real topic.

    With `known` it is sometimes that of a stranger who knows the quorum.
    """
    if api is ENVELOPE and data.draw(st.booleans()):
        entity = filled(entity, data)
    if api is not None and known is not None and data.draw(st.booleans()):
        entity = known.put_into(api, entity)
    if hasattr(entity, "max_wait"):
        entity = replace(entity, max_wait=min(entity.max_wait, timedelta(milliseconds=2)))
    topics = getattr(entity, "topic_data", ())
    if topics and topics[0].partition_data and data.draw(st.booleans()):
        part = replace(topics[0].partition_data[0], index=data.draw(st.integers(0, 2)), records=data.draw(BATCHES))
        topic = replace(topics[0], partition_data=(part, *topics[0].partition_data[1:]))
        entity = replace(entity, topic_data=(topic, *topics[1:]), acks=data.draw(st.sampled_from([-1, 0, 1, 5])))
    return entity


@BY_API
def test_any_values_are_answered(fuzzer: Fuzzer, api: Api, known: Known | None) -> None:
    for version in versions_of(api):

        @given(requests(api, version), st.data())
        @FUZZ
        def check(entity: Any, data: st.DataObject) -> None:
            frame = frame_of(api, version, encode(tamed(entity, data, api, known)))  # noqa: B023 - called in this turn
            fuzzer.send(api, version, frame, is_valid=True)  # noqa: B023

        check()


MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["set", "insert", "cut", "repeat", "count"]),
        st.integers(0, 2**16),
        st.binary(min_size=1, max_size=6)
        | st.sampled_from([b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff"]),
    ),
    min_size=1,
    max_size=4,
)


def mutated(frame: bytes, mutations: list[tuple[str, int, bytes]]) -> bytes:
    out = bytearray(frame)
    for kind, where, value in mutations:
        at = where % (len(out) + 1)
        match kind:
            case "set":
                out[at : at + len(value)] = value
            case "insert":
                out[at:at] = value
            case "cut":
                del out[at : at + where % 7 + 1]
            case "repeat":
                out[at:at] = out[at : at + 20]
            case _:
                out[at : at + 1] = bytes([value[0]])
    return bytes(out) or b"\x00"


@BY_API
def test_any_bytes_are_answered_or_refused(fuzzer: Fuzzer, api: Api, known: Known | None) -> None:
    for version in versions_of(api):

        @given(requests(api, version), MUTATIONS, st.data())
        @FUZZ
        def check(entity: Any, mutations: list[tuple[str, int, bytes]], data: st.DataObject) -> None:
            frame = mutated(frame_of(api, version, encode(tamed(entity, data, api, known))), mutations)  # noqa: B023
            of = APIS.get(int.from_bytes(frame[:2], "big"), api)
            fuzzer.send(FETCH if FETCH in (of, api) else of, version, frame, is_valid=False)  # noqa: B023

        check()


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=5))
@settings(FUZZ, max_examples=EXAMPLES * 10)
def test_any_stream_of_bytes_is_answered_or_closed(node: RunningNode, pieces: list[bytes]) -> None:
    with Client(node.port) as client:
        for piece in pieces:
            client.send_bytes(piece)
        try:
            client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            return
        while client.receive() is not None:
            pass
    assert node.errors == []


@given(st.sampled_from(sorted(SERVED)), st.integers(-(2**15), 2**15 - 1), st.binary(max_size=40))
@settings(FUZZ, max_examples=EXAMPLES * 10)
def test_any_version_is_answered_or_closed(node: RunningNode, key: int, version: int, body: bytes) -> None:
    with Client(node.port, timeout_s=5) as client:
        frame = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\x00\x00\x00\x07" + body
        try:
            client.ask_raw(frame)
        except TimeoutError:
            assert key == FETCH.key
    assert node.errors == []
