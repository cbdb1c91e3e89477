"""What stands around the calls: health, reflection, refusals, limits, TLS, odd input. Over a real node."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import barnabas
from barnabas.core.errors import AddressNotAvailable
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.v1 import bus_pb2
from tests.conformance.grpc.clients import TIMEOUT_S, Client, refusal

S = grpc.StatusCode
SERVICE = "barnabas.v1.BusService"
METHODS = [each.name for each in bus_pb2.DESCRIPTOR.services_by_name["BusService"].methods]


def test_health_says_that_it_serves(client: Client) -> None:
    health = health_pb2_grpc.HealthStub(client.channel)
    for service in ("", SERVICE):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=TIMEOUT_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_reflection_names_the_services_and_their_file(client: Client) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
    ]
    listed, file = stub.ServerReflectionInfo(iter(requests), timeout=TIMEOUT_S)
    assert SERVICE in [each.name for each in listed.list_services_response.service]
    assert list(file.file_descriptor_response.file_descriptor_proto) == [bus_pb2.DESCRIPTOR.serialized_pb]


@pytest.mark.parametrize(
    ("method", "request_", "code", "kafka"),
    [
        ("Produce", bus_pb2.ProduceRequest(topic="missing", records=[bus_pb2.NewRecord()]), S.NOT_FOUND, 3),
        ("Produce", bus_pb2.ProduceRequest(), S.INVALID_ARGUMENT, 42),
        ("Produce", bus_pb2.ProduceRequest(topic="t", acks=9), S.INVALID_ARGUMENT, 42),  # type: ignore[arg-type]
        ("Produce", bus_pb2.ProduceRequest(topic="t", compression=9), S.INVALID_ARGUMENT, 42),  # type: ignore[arg-type]
        ("Produce", bus_pb2.ProduceRequest(topic="t", partitioner=9), S.INVALID_ARGUMENT, 42),  # type: ignore[arg-type]
        ("Produce", bus_pb2.ProduceRequest(topic="t", timeout_ms=-1), S.INVALID_ARGUMENT, 42),
        ("Get", bus_pb2.GetRequest(topic="missing"), S.NOT_FOUND, 3),
        ("Get", bus_pb2.GetRequest(topic="missing", offset=-1), S.INVALID_ARGUMENT, 42),
        ("Commit", bus_pb2.CommitRequest(), S.INVALID_ARGUMENT, 24),
        ("CreateTopic", bus_pb2.CreateTopicRequest(name="a/b"), S.INVALID_ARGUMENT, 17),
        ("CreateTopic", bus_pb2.CreateTopicRequest(name="t", partitions=-1), S.INVALID_ARGUMENT, 42),
        ("CreateTopic", bus_pb2.CreateTopicRequest(name="t", replication_factor=3), S.INVALID_ARGUMENT, 38),
        ("CreateTopic", bus_pb2.CreateTopicRequest(name="t", configs={"no.such": "1"}), S.INVALID_ARGUMENT, 40),
        ("CreateTopic", bus_pb2.CreateTopicRequest(name="t", partitions=1_000_000), S.FAILED_PRECONDITION, 44),
        ("DeleteTopic", bus_pb2.DeleteTopicRequest(name="missing"), S.NOT_FOUND, 3),
        ("DescribeTopic", bus_pb2.DescribeTopicRequest(name="missing"), S.NOT_FOUND, 3),
        ("ListTopics", bus_pb2.ListTopicsRequest(page_size=-1), S.INVALID_ARGUMENT, 42),
    ],
)
def test_a_refusal_has_a_status_and_kafkas_code(
    client: Client, method: str, request_: Any, code: Any, kafka: int
) -> None:
    status, kafka_code, message = refusal(lambda: getattr(client.stub, method)(request_, timeout=TIMEOUT_S))
    assert (status, kafka_code) == (code, kafka), message
    assert message


def test_a_topic_that_exists_cannot_be_created(client: Client) -> None:
    topic = client.new_topic()
    status, kafka, _ = refusal(
        lambda: client.stub.CreateTopic(bus_pb2.CreateTopicRequest(name=topic), timeout=TIMEOUT_S)
    )
    assert (status, kafka) == (S.ALREADY_EXISTS, 36)


def test_a_message_over_the_limit_is_refused(client: Client) -> None:
    topic = client.new_topic()
    assert refusal(lambda: client.produce(topic, [b"x" * 5_000_000]))[0] == S.RESOURCE_EXHAUSTED
    assert client.produce(topic, [b"x"]).outcomes[0].offset == 0


def test_a_password_that_nobody_checks_is_refused(client: Client) -> None:
    request = bus_pb2.ListTopicsRequest()
    metadata = (("authorization", "Basic YWxpY2U6c2VjcmV0"),)
    status, kafka, _ = refusal(lambda: client.stub.ListTopics(request, timeout=TIMEOUT_S, metadata=metadata))
    assert (status, kafka) == (S.UNAUTHENTICATED, 58)


@pytest.mark.parametrize("seed", range(4))
def test_odd_bytes_are_refused_and_harm_nobody(client: Client, seed: int) -> None:
    dice = random.Random(seed)
    topic = client.new_topic()
    whole = bus_pb2.ProduceRequest(topic=topic, records=[bus_pb2.NewRecord(key=b"k", value=b"v")]).SerializeToString()
    for method in METHODS:
        for _ in range(10):
            data = bytearray(whole if dice.random() < 0.5 else dice.randbytes(dice.randrange(200)))
            for _ in range(dice.randrange(4)):
                if data:
                    data[dice.randrange(len(data))] = dice.randrange(256)
            _call(client, method, bytes(data))
    assert not client.produce(client.new_topic(), [b"after"]).outcomes[0].HasField("error")  # that one may be deleted


def _call(client: Client, method: str, data: bytes) -> None:
    path = f"/{SERVICE}/{method}"
    told = S.OK
    try:
        if method in ("ProduceStream", "Consume"):
            list(client.channel.stream_stream(path)(iter([data]), timeout=1))
        elif method == "Watch":
            stream = client.channel.unary_stream(path)(data, timeout=1)
            next(stream)
            stream.cancel()
        else:
            client.channel.unary_unary(path)(data, timeout=1)
    except grpc.RpcError as error:
        told = error.code()
    assert told not in (S.INTERNAL, S.UNKNOWN), f"{method} {data!r}"


def test_a_port_that_is_taken_is_refused_in_words(broker: EmbeddedBroker) -> None:
    with pytest.raises(AddressNotAvailable, match=r"grpc\.listener"), barnabas.embedded({"grpc.listener": broker.grpc}):
        pass


def test_nothing_of_grpc_is_loaded_unless_it_is_on() -> None:
    program = (
        "import barnabas, sys\n"
        "with barnabas.embedded() as broker: broker.bootstrap\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('grpc', 'google') or 'edge.grpc' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_clients_with_a_certificate_are_let_in_and_others_are_not(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, alice = authority.issue_cert("localhost", "127.0.0.1"), authority.issue_cert(common_name="alice")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server.private_key_pem.write_to_path(tmp_path / "key.pem")
    server.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    settings = {
        "grpc.listener": "127.0.0.1:0",
        "grpc.tls.certificate.file": str(tmp_path / "cert.pem"),
        "grpc.tls.key.file": str(tmp_path / "key.pem"),
        "grpc.tls.client.ca.file": str(tmp_path / "ca.pem"),
    }
    root = authority.cert_pem.bytes()
    with barnabas.embedded(settings) as broker:
        known = grpc.ssl_channel_credentials(root, alice.private_key_pem.bytes(), alice.cert_chain_pems[0].bytes())
        with grpc.secure_channel(broker.grpc, known) as channel:
            Client(channel).stub.ListTopics(bus_pb2.ListTopicsRequest(), timeout=TIMEOUT_S)
        with grpc.secure_channel(broker.grpc, grpc.ssl_channel_credentials(root)) as channel:
            call = Client(channel).stub.ListTopics
            assert refusal(lambda: call(bus_pb2.ListTopicsRequest(), timeout=5))[0] == S.UNAVAILABLE
