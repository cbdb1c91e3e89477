"""A broker with a listener for each security protocol, certificates, users, keys of tokens; and stock clients."""

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiokafka
import aiokafka.abc
import pytest
import trustme
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from barnabas.testing.embedded import EmbeddedBroker
from tests.conformance.broker.clients import kafka

USER: Final = "ann,e=x"  # with both characters that SCRAM has to escape
PLAIN_USER: Final = "anne"  # for kafka-python, which escapes nothing
PASSWORD: Final = "péss w0rd"
ISSUER: Final = "https://issuer.example"
TIMEOUT_S: Final = 20
PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@dataclass(frozen=True)
class Secured:
    """The broker, and what clients need to know."""

    broker: EmbeddedBroker
    root_file: str
    certificate_file: str
    key: ECKey

    def token(self, **claims: Any) -> str:
        now = int(time.time())
        body = {"sub": USER, "iat": now, "exp": now + 3600, "iss": ISSUER, "scope": "kafka", **claims}
        return jwt.encode({"alg": "ES256", "kid": self.key.kid}, body, self.key, algorithms=["ES256"])


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("security")
    root = trustme.CA(key_type=trustme.KeyType.ECDSA)
    root_file, node_file, client_file = (str(directory / name) for name in ("root.pem", "node.pem", "client.pem"))
    root.cert_pem.write_to_path(root_file)
    node = root.issue_cert("127.0.0.1", "localhost", key_type=trustme.KeyType.ECDSA)
    node.private_key_and_cert_chain_pem.write_to_path(node_file)
    client = root.issue_cert("client.example", common_name="Client", key_type=trustme.KeyType.ECDSA)
    client.private_key_and_cert_chain_pem.write_to_path(client_file)
    key = ECKey.generate_key("P-256", {"kid": "one"})
    (directory / "keys.json").write_text(json.dumps(KeySet([key]).as_dict(private=False)))
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", *PROTOCOLS)),
        "ssl.keystore.location": node_file,
        "ssl.truststore.location": root_file,
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/L,DEFAULT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.required.scope": "kafka",
        "connection.failed.authentication.delay.ms": "1",
    }
    with EmbeddedBroker(settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_of("PLAINTEXT")})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            changes: list[UserScramCredentialAlteration] = [
                UserScramCredentialUpsertion(user, info, PASSWORD.encode()) for user in (USER, PLAIN_USER)
            ]
            for outcome in admin.alter_user_scram_credentials(changes).values():
                outcome.result(TIMEOUT_S)
        del admin
        broker.bus.create_topic("orders")
        yield Secured(broker, root_file, client_file, key)


Exchange = Callable[[Secured, str, str, bytes], bytes]
"""Sends a record and reads it back, over a protocol and by a mechanism (empty: without a login)."""


def librdkafka_settings(secured: Secured, protocol: str, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": secured.broker.bootstrap_of(protocol),
        "security.protocol": protocol,
        "log_level": 0,
    }
    if protocol.endswith("SSL"):
        settings["ssl.ca.location"] = secured.root_file
    if protocol == "SSL":
        settings |= {
            "ssl.certificate.location": secured.certificate_file,
            "ssl.key.location": secured.certificate_file,
        }
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (secured.token(), time.time() + 3600)
    elif mechanism:
        settings |= {"sasl.username": USER, "sasl.password": PASSWORD}
    return settings | ({"sasl.mechanism": mechanism} if mechanism else {})


def with_librdkafka(secured: Secured, protocol: str, mechanism: str, value: bytes) -> bytes:
    settings = librdkafka_settings(secured, protocol, mechanism)
    producer = Producer({**settings, "message.timeout.ms": TIMEOUT_S * 1000})
    producer.produce("orders", value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**settings, "group.id": f"rd-{protocol}-{mechanism}", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None and message.value() == value:
                return value
    finally:
        consumer.close()
    raise AssertionError("the record did not come back")


def tls_of(secured: Secured) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=secured.root_file)
    context.load_cert_chain(secured.certificate_file)
    return context


class AioToken(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


def with_aiokafka(secured: Secured, protocol: str, mechanism: str, value: bytes) -> bytes:
    async def exchange() -> bytes:
        settings: dict[str, Any] = {
            "bootstrap_servers": secured.broker.bootstrap_of(protocol),
            "security_protocol": protocol,
            "ssl_context": tls_of(secured) if protocol.endswith("SSL") else None,
        }
        if mechanism:
            settings["sasl_mechanism"] = mechanism
            if mechanism == "OAUTHBEARER":
                settings["sasl_oauth_token_provider"] = AioToken(secured.token())
            else:
                settings |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        try:
            await producer.send_and_wait("orders", value)
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer("orders", auto_offset_reset="earliest", **settings)
        await consumer.start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                async for message in consumer:
                    if message.value == value:
                        return bytes(message.value)
        finally:
            await consumer.stop()
        raise AssertionError("the record did not come back")

    return asyncio.run(exchange())


class KafkaPythonToken(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


def with_kafka_python(secured: Secured, protocol: str, mechanism: str, value: bytes) -> bytes:
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.broker.bootstrap_of(protocol),
        "security_protocol": protocol,
        "ssl_context": tls_of(secured) if protocol.endswith("SSL") else None,
    }
    if mechanism:
        settings["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = KafkaPythonToken(secured.token())
        else:
            settings |= {"sasl_plain_username": PLAIN_USER, "sasl_plain_password": PASSWORD}
    producer = kafka.KafkaProducer(**settings)
    producer.send("orders", value).get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "orders", auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1000, **settings
    )
    try:
        for message in consumer:
            if message.value == value:
                return bytes(message.value)
    finally:
        consumer.close()
    raise AssertionError("the record did not come back")


CLIENTS: Final[dict[str, Exchange]] = {
    "librdkafka": with_librdkafka,
    "aiokafka": with_aiokafka,
    "kafka-python": with_kafka_python,
}


def settings_file(path: Path, settings: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
    return path
