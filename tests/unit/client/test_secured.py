"""TLS and logins against a front that wants them, with a real broker behind; librdkafka is let in by the same front."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.client import Bus
from barnabas.client.brokers import Brokers
from barnabas.client.errors import Unreachable
from barnabas.client.fetcher import LATEST, Fetcher
from barnabas.client.scram import LoginFailed
from barnabas.client.security import TlsFailed
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError
from barnabas.testing.embedded import EmbeddedBroker
from tests.support.secured import PASSWORD, Certificates, SecuredFront, TokenEndpoint, Wanted, login

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ALL = ("PLAIN", *SCRAM, "OAUTHBEARER")

OpenFront = Callable[[Wanted], SecuredFront]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as tokens:
        yield tokens


@pytest.fixture
def open_front(broker: EmbeddedBroker) -> Iterator[OpenFront]:
    with ExitStack() as stack:
        yield lambda wanted: stack.enter_context(SecuredFront(broker.bootstrap, wanted))


@pytest.fixture
def topic(real_bus: Bus, name: str) -> str:
    real_bus.create_topic(name, partitions=2)
    return name


def ask(front: SecuredFront, config: Mapping[str, str]) -> set[str]:
    """The topics there are, over a connection of our own."""
    brokers = Brokers(Settings(front.bootstrap, config=config))
    try:
        return set(brokers.metadata(None).topics)
    finally:
        brokers.close()


def refused(front: SecuredFront, config: Mapping[str, str], bootstrap: str | None = None) -> BarnabasError:
    """What a reader hears; at once, although it is patient with what may pass."""
    started = time.monotonic()
    fetcher = Fetcher(Settings(bootstrap or front.bootstrap, config=config), "t")
    with pytest.raises(BarnabasError) as refusal:
        fetcher.offsets([0], LATEST)
    fetcher.close()
    assert time.monotonic() - started < 30, "it was patient, as for a minute it may be"
    assert "\n" not in str(refusal.value)
    return refusal.value


@pytest.mark.parametrize("is_tls", [False, True])
@pytest.mark.parametrize("mechanism", ALL)
def test_every_mechanism_lets_us_in_as_it_does_librdkafka(
    open_front: OpenFront, certificates: Certificates, tokens: TokenEndpoint, topic: str, mechanism: str, is_tls: bool
) -> None:
    front = open_front(Wanted(certificates.server("127.0.0.1") if is_tls else None, ALL, tokens))
    protocol = {"security.protocol": "sasl_ssl" if is_tls else "sasl_plaintext"}
    if is_tls:
        protocol["ssl.ca.location"] = certificates.root_file
    config = {**protocol, **login(mechanism, tokens if mechanism == "OAUTHBEARER" else None)}

    reference = Producer({"bootstrap.servers": front.bootstrap, **config})
    for number in range(10):
        reference.produce(topic, b"%d" % number, partition=number % 2)
    assert reference.flush(60) == 0
    with Bus(front.bootstrap, config=config) as bus:
        values = bus.read_arrow(topic, columns=["value"]).read_all().column("value").to_pylist()
        transactions = bus.transactions(pattern="no-such-id")

    assert sorted(values) == [b"%d" % number for number in range(10)]
    assert transactions == []
    assert set(front.wanted.logins) == {mechanism}


def test_tls_alone_with_the_certificates_in_the_settings(
    open_front: OpenFront, certificates: Certificates, topic: str
) -> None:
    front = open_front(Wanted(certificates.server("127.0.0.1", wants_client=True)))
    certificate, key = certificates.client()
    config = {"security.protocol": "SSL", "ssl.ca.pem": certificates.root_pem}

    assert topic in ask(front, {**config, "ssl.certificate.pem": certificate, "ssl.key.pem": key})
    assert "does it require a client certificate?" in str(refused(front, config))


def test_answers_larger_than_a_tls_record_are_read_whole(
    open_front: OpenFront, certificates: Certificates, real_bus: Bus, topic: str
) -> None:
    front = open_front(Wanted(certificates.server("127.0.0.1")))
    sent = [bytes([number]) * 300_000 for number in range(20)]
    for number, value in enumerate(sent):
        real_bus.send(topic, value, partition=number % 2)
    real_bus.flush(60)

    with Bus(front.bootstrap, config={"security.protocol": "ssl", "ssl.ca.location": certificates.root_file}) as bus:
        values = bus.read_arrow(topic, columns=["value"]).read_all().column("value").to_pylist()

    assert sorted(values) == sent


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_a_wrong_password_is_refused_at_once(open_front: OpenFront, mechanism: str) -> None:
    front = open_front(Wanted(mechanisms=ALL[:3]))
    config = {"security.protocol": "sasl_plaintext", **login(mechanism), "sasl.password": "wrong-one"}

    refusal = refused(front, config)

    assert isinstance(refusal, LoginFailed)
    assert f"refused the login of 'ann,e=x' by {mechanism}: Authentication failed" in str(refusal)
    assert "wrong-one" not in str(refusal)


def test_a_token_that_is_refused_is_said(open_front: OpenFront) -> None:
    with TokenEndpoint() as tokens:
        front = open_front(Wanted(mechanisms=("OAUTHBEARER",), tokens=tokens))
        config = {"security.protocol": "sasl_plaintext", **login("OAUTHBEARER", tokens)}

        wrong_secret = refused(front, {**config, "sasl.oauthbearer.client.secret": "wrong-one"})
        tokens.given_token = "somebody-elses"
        wrong_token = refused(front, config)

    assert "answered 401" in str(wrong_secret)
    assert "wrong-one" not in str(wrong_secret)
    assert "invalid_token" in str(wrong_token)
    assert isinstance(wrong_token, LoginFailed)


def test_a_token_is_kept_for_other_connections(open_front: OpenFront) -> None:
    with TokenEndpoint() as tokens:
        front = open_front(Wanted(mechanisms=("OAUTHBEARER",), tokens=tokens))
        config = {"security.protocol": "sasl_plaintext", **login("OAUTHBEARER", tokens)}
        brokers = Brokers(Settings(front.bootstrap, config=config))
        for _ in range(3):
            brokers.metadata(())
            brokers.close()

    assert front.wanted.logins == ["OAUTHBEARER"] * 3
    assert tokens.asked == ["grant_type=client_credentials&scope=kafka"]


def test_a_broker_that_does_not_know_the_password_is_not_believed(open_front: OpenFront) -> None:
    front = open_front(Wanted(mechanisms=SCRAM, is_impostor=True))

    refusal = refused(front, {"security.protocol": "sasl_plaintext", **login("SCRAM-SHA-512")})

    assert "it is not the broker it claims to be" in str(refusal)


@pytest.mark.parametrize("iterations", [1, 4095, 1_000_001])
def test_iterations_beyond_reason_are_refused(open_front: OpenFront, iterations: int) -> None:
    front = open_front(Wanted(mechanisms=SCRAM, iterations=iterations))

    refusal = refused(front, {"security.protocol": "sasl_plaintext", **login("SCRAM-SHA-256")})

    assert f"it asks for {iterations} iterations" in str(refusal)


def test_a_mechanism_that_is_not_offered_is_said(open_front: OpenFront) -> None:
    front = open_front(Wanted(mechanisms=SCRAM))

    refusal = refused(front, {"security.protocol": "sasl_plaintext", **login("PLAIN")})

    assert "does not accept logins by PLAIN: it offers SCRAM-SHA-256, SCRAM-SHA-512" in str(refusal)


def test_a_broker_that_is_not_trusted_is_said(
    open_front: OpenFront, certificates: Certificates, tmp_path: Path
) -> None:
    front = open_front(Wanted(certificates.server("127.0.0.1")))
    others = Certificates(tmp_path)
    trusting = {"security.protocol": "ssl", "ssl.ca.location": certificates.root_file}

    wrong_root = refused(front, {"security.protocol": "ssl", "ssl.ca.location": others.root_file})
    no_root = refused(front, {"security.protocol": "ssl"})
    wrong_name = refused(front, trusting, f"localhost:{front.nodes[1].port}")

    assert all(isinstance(each, TlsFailed) for each in (wrong_root, no_root, wrong_name))
    assert "is not trusted: unable to get local issuer certificate" in str(wrong_root)
    assert "is not trusted: " in str(no_root)
    assert "certificate is not valid for 'localhost'" in str(wrong_name)


@pytest.mark.parametrize(
    "lenient",
    [
        {"enable.ssl.certificate.verification": "false"},
        {"ssl.endpoint.identification.algorithm": "none"},
    ],
)
def test_who_a_broker_is_need_not_be_looked_at(
    open_front: OpenFront, certificates: Certificates, topic: str, lenient: dict[str, str]
) -> None:
    front = open_front(Wanted(certificates.server("elsewhere.example")))

    assert topic in ask(front, {"security.protocol": "ssl", "ssl.ca.location": certificates.root_file, **lenient})


def test_tls_on_one_side_only_is_said(
    open_front: OpenFront, broker: EmbeddedBroker, certificates: Certificates
) -> None:
    secured = open_front(Wanted(certificates.server("127.0.0.1")))
    tls = {"security.protocol": "ssl", "ssl.ca.location": certificates.root_file}

    assert "uses TLS: security.protocol should be ssl" in str(refused(secured, {}))
    assert "does not use TLS: security.protocol should be plaintext" in str(refused(secured, tls, broker.bootstrap))


def test_a_login_on_one_side_only_is_said(open_front: OpenFront, broker: EmbeddedBroker) -> None:
    secured = open_front(Wanted(mechanisms=SCRAM))
    config = {"security.protocol": "sasl_plaintext", **login("PLAIN")}

    assert "does not use SASL: security.protocol should be plaintext" in str(refused(secured, config, broker.bootstrap))
    with pytest.raises(Unreachable, match="does it require a login"):
        ask(secured, {})


def test_a_session_that_runs_out_is_replaced(open_front: OpenFront, topic: str) -> None:
    front = open_front(Wanted(mechanisms=SCRAM, lifetime_ms=100))
    brokers = Brokers(Settings(front.bootstrap, config={"security.protocol": "sasl_plaintext", **login(SCRAM[0])}))
    deadline = time.monotonic() + 20

    while len(front.wanted.logins) < 3:
        assert topic in brokers.metadata(None).topics
        assert time.monotonic() < deadline
    brokers.close()


def test_what_is_secret_is_not_shown(open_front: OpenFront, tokens: TokenEndpoint) -> None:
    def shown(config: dict[str, str]) -> Any:
        return repr(Brokers(Settings("127.0.0.1:1", config=config))._security)

    assert PASSWORD not in shown({"security.protocol": "sasl_plaintext", **login("PLAIN")})
    assert "a-secret" not in shown({"security.protocol": "sasl_plaintext", **login("OAUTHBEARER", tokens)})
