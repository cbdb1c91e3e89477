"""Stock clients over TLS and by every mechanism of SASL: they send and read; a wrong password is refused."""

import contextlib
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.conformance.security.conftest import CLIENTS, MECHANISMS, PROTOCOLS, TIMEOUT_S, Secured, librdkafka_settings

WAYS = [("SSL", ""), *((protocol, mechanism) for protocol in PROTOCOLS for mechanism in MECHANISMS)]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
@pytest.mark.filterwarnings("ignore:.*<socket.socket:pytest.PytestUnraisableExceptionWarning")
def test_a_client_logs_in_and_reads_what_it_has_sent(
    secured: Secured, client: str, protocol: str, mechanism: str
) -> None:
    value = f"{client} {protocol} {mechanism}".encode()
    assert CLIENTS[client](secured, protocol, mechanism, value) == value


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("who", [{"sasl.password": "wrong"}, {"sasl.username": "nobody"}])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(
    secured: Secured, mechanism: str, who: dict[str, str]
) -> None:
    refusal = _refusal(librdkafka_settings(secured, "SASL_PLAINTEXT", mechanism) | who)
    assert "invalid credentials" in refusal.str()


@pytest.mark.parametrize("claims", [{"iss": "https://other.example"}, {"scope": "other"}, {"exp": 1}, {"sub": ""}])
def test_a_token_that_is_not_for_this_cluster_is_refused(secured: Secured, claims: dict[str, object]) -> None:
    settings = librdkafka_settings(secured, "SASL_PLAINTEXT", "OAUTHBEARER")
    token = secured.token(**claims)
    _refusal({**settings, "oauth_cb": lambda _: (token, 4e9)})


def _refusal(settings: dict[str, Any]) -> KafkaError:
    """What a client says whose login is refused."""
    errors: list[KafkaError] = []
    made: Any = {**settings, "error_cb": errors.append}
    admin = AdminClient(made)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):
            admin.list_topics(timeout=0.2)
        admin.poll(0)
        for error in errors:
            if error.code() == KafkaError._AUTHENTICATION:
                return error
    raise AssertionError(f"the login was not refused: {errors}")
