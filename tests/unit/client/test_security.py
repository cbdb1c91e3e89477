"""Settings of TLS and logins: what is taken, and what is refused with the setting's name."""

import ssl
from pathlib import Path

import pytest

from barnabas.client.security import Security
from barnabas.core.errors import InvalidConfig
from tests.support.secured import Certificates

SASL = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
OAUTH = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "c",
    "sasl.oauthbearer.client.secret": "s",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
}
TLS = {"security.protocol": "ssl"}


def test_plaintext_is_the_default_and_looks_at_nothing_else() -> None:
    assert Security.of({"ssl.ca.location": "/nowhere", "sasl.mechanism": "GSSAPI"}) == Security()


def test_brokers_are_looked_at_unless_told_otherwise() -> None:
    strict = Security.of(TLS).tls
    of_any_name = Security.of({**TLS, "ssl.endpoint.identification.algorithm": "NONE"}).tls
    of_anybody = Security.of({**TLS, "enable.ssl.certificate.verification": "false"}).tls
    assert strict is not None
    assert of_any_name is not None
    assert of_anybody is not None

    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert strict.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert (of_any_name.verify_mode, of_any_name.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert (of_anybody.verify_mode, of_anybody.check_hostname) == (ssl.CERT_NONE, False)


def test_a_mechanism_may_be_named_either_way() -> None:
    login = Security.of({**SASL, "sasl.mechanism": "", "sasl.mechanisms": "scram-sha-512"}).login
    assert login is not None
    assert login.mechanism == "SCRAM-SHA-512"


def test_extensions_go_with_a_token() -> None:
    login = Security.of({**OAUTH, "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, pool=p=2"}).login
    assert login is not None
    assert login.extensions == {"logicalCluster": "lkc-1", "pool": "p=2"}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"security.protocol": "tls"}, "security.protocol is 'tls'; it may be plaintext, ssl"),
        ({"security.protocol": "sasl_ssl"}, "its default, GSSAPI, is not supported here"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "'GSSAPI' is not supported here: PLAIN, SCRAM-SHA-256"),
        ({**SASL, "sasl.mechanism": "AWS_MSK_IAM"}, "'AWS_MSK_IAM' is not supported here"),
        ({**SASL, "sasl.mechanisms": "OAUTHBEARER"}, "contradict each other"),
        ({**SASL, "sasl.password": ""}, "sasl.password is missing"),
        ({**SASL, "sasl.username": "a\0b"}, "contains a NUL character"),
        ({**SASL, "sasl.jaas.config": "x"}, "'sasl.jaas.config' is not supported.*set sasl.username"),
        ({**OAUTH, "sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method=oidc"),
        ({**OAUTH, "sasl.oauthbearer.grant.type": "jwt"}, "grant.type=client_credentials"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, "not an http or https address"),
        ({**OAUTH, "sasl.oauthbearer.client.secret": ""}, "client.secret is missing"),
        ({**OAUTH, "sasl.oauthbearer.extensions": "auth=x"}, "it is a list such as"),
        ({**OAUTH, "https.ca.location": "/nowhere"}, "https.ca.location '/nowhere' cannot be read: No such file"),
        ({**TLS, "ssl.truststore.location": "t.jks"}, "set ssl.ca.location"),
        ({**TLS, "ssl.keystore.location": "k.p12"}, "set ssl.certificate.location and ssl.key.location"),
        ({**TLS, "ssl.engine.location": "x"}, "'ssl.engine.location' is not supported"),
        ({**TLS, "ssl.ca.location": "/nowhere"}, "ssl.ca.location '/nowhere' cannot be read: No such file"),
        ({**TLS, "ssl.ca.pem": "nonsense"}, "ssl.ca.pem cannot be"),
        ({**TLS, "ssl.certificate.location": "/nowhere"}, "ssl.certificate.location '/nowhere' cannot be read"),
        ({**TLS, "ssl.certificate.pem": "nonsense", "ssl.key.pem": "nonsense"}, "ssl.certificate.* and ssl.key"),
        ({**TLS, "ssl.key.pem": "nonsense"}, "without a certificate"),
        ({**TLS, "ssl.key.pem": "a", "ssl.key.location": "b"}, "contradict each other"),
        ({**TLS, "ssl.cipher.suites": "nonsense"}, "ssl.cipher.suites 'nonsense' cannot be used"),
        ({**TLS, "ssl.crl.location": "/nowhere"}, "ssl.crl.location '/nowhere' cannot be read"),
        ({**TLS, "enable.ssl.certificate.verification": "maybe"}, "it may be true or false"),
        ({**TLS, "ssl.endpoint.identification.algorithm": "ldap"}, "it may be https or none"),
    ],
)
def test_what_makes_no_sense_is_refused(config: dict[str, str], expected: str) -> None:
    with pytest.raises(InvalidConfig, match=expected) as refusal:
        Security.of(config)
    assert "\n" not in str(refusal.value)


def test_a_key_with_a_password_wants_it_and_nobody_is_asked(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - trustme brings it

    certificate, plain_key = Certificates(tmp_path).client()
    key = serialization.load_pem_private_key(plain_key.encode(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"open"),
    )
    config = {**TLS, "ssl.certificate.pem": certificate, "ssl.key.pem": locked.decode()}

    assert Security.of({**config, "ssl.key.password": "open"}).tls is not None
    for wrong in ({}, {"ssl.key.password": "sesame"}):
        with pytest.raises(InvalidConfig, match="cannot be"):
            Security.of({**config, **wrong})
