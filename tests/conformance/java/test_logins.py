"""Java's producer, consumer and admin client over TLS: by every mechanism, with certificates, and refused."""

import pytest

from tests.conformance.java.conftest import ADMIN_PASSWORD, MECHANISMS, STORE_PASSWORD, Secured
from tests.conformance.java.tools import ACLS, TOPICS


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_somebody_who_logs_in_makes_a_topic_sends_and_reads(secured: Secured, mechanism: str) -> None:
    tools = secured.user(mechanism, "admin", ADMIN_PASSWORD)
    topic = f"logged-in-by-{mechanism}"
    assert f"Created topic {topic}" in tools.run(TOPICS, "--create", "--topic", topic, "--partitions", "2").out
    tools.produce(topic, "one", "two", "three")
    assert sorted(tools.consume(topic, 3).lines) == ["one", "three", "two"]
    next_generation = tools.consume(
        topic, 3, "--group", f"new-{mechanism}", "--command-property", "group.protocol=consumer"
    )
    assert sorted(next_generation.lines) == ["one", "three", "two"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_at_once(secured: Secured, mechanism: str) -> None:
    said = secured.user(mechanism, "admin", "wrong").run(TOPICS, "--list", may_fail=True)
    assert said.code == 1
    assert "SaslAuthenticationException: Authentication failed: invalid credentials" in said.text


def test_a_certificate_says_who_a_client_is(secured: Secured) -> None:
    grants = ["--producer", "--consumer", "--topic", "certified", "--group", "*"]
    secured.admin.run(ACLS, "--add", "--allow-principal", "User:carol", *grants)
    pem = secured.certified(keystore_type="PEM", keystore_location=str(secured.directory / "carol.pem"))
    pem.run(TOPICS, "--create", "--topic", "certified")
    pem.produce("certified", "one", "two")
    store = secured.certified(
        keystore_type="PKCS12",
        keystore_location=str(secured.directory / "carol.p12"),
        keystore_password=STORE_PASSWORD,
        enabled_protocols="TLSv1.2",
    )
    assert store.consume("certified", 2).lines == ["one", "two"]


def test_without_a_certificate_the_handshake_is_refused_at_once(secured: Secured) -> None:
    said = secured.certified().run(TOPICS, "--list", may_fail=True)
    assert said.code == 1
    assert "SslAuthenticationException" in said.text
    assert "certificate_required" in said.text
