"""TLS on real sockets: keystores of every kind, certificates of clients, versions, and certificates that change."""

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from barnabas.core.errors import InvalidConfig
from barnabas.node import security
from barnabas.runtime.tls import Tls, TlsConfig
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.testing import embedded
from barnabas.testing.embedded import EmbeddedBroker
from barnabas.wire.requests import frame_request

EC = trustme.KeyType.ECDSA


class Certificates:
    """A root, and the files of what it has signed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = trustme.CA(key_type=EC)
        self.root_file = self._write("root.pem", self.root.cert_pem.bytes())

    def _write(self, name: str, data: bytes) -> str:
        (self.directory / name).write_bytes(data)
        return str(self.directory / name)

    def node(self, name: str = "node.pem") -> str:
        leaf = self.root.issue_cert("127.0.0.1", key_type=EC)
        return self._write(name, leaf.private_key_and_cert_chain_pem.bytes())

    def client(self, name: str = "client.pem", common_name: str = "Ann") -> str:
        leaf = self.root.issue_cert("ann.example", common_name=common_name, key_type=EC)
        return self._write(name, leaf.private_key_and_cert_chain_pem.bytes())

    def pkcs12(self) -> str:
        leaf = self.root.issue_cert("127.0.0.1", key_type=EC)
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        chain = [x509.load_pem_x509_certificate(each.bytes()) for each in leaf.cert_chain_pems]
        data = pkcs12.serialize_key_and_certificates(
            b"node",
            key,  # type: ignore[arg-type]
            chain[0],
            chain[1:],
            BestAvailableEncryption(b"geheim"),
        )
        return self._write("node.p12", data)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture(autouse=True, params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS is another implementation on each loop."""
    if request.param == "asyncio":
        monkeypatch.setattr(embedded, "loop_factory", lambda: asyncio.new_event_loop)


@contextmanager
def running(**settings: str) -> Iterator[EmbeddedBroker]:
    given = {"listeners": "SSL://127.0.0.1:0", **{name.replace("_", "."): text for name, text in settings.items()}}
    with EmbeddedBroker(given) as broker:
        yield broker


def ask(broker: EmbeddedBroker, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A connection over which the broker has answered."""
    host, _, port = broker.bootstrap_of("SSL").rpartition(":")
    plain = socket.create_connection((host, int(port)), 10)
    try:
        secured = context.wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise
    try:
        secured.sendall(frame_request(18, 0, {}, correlation_id=1, client_id="x"))
        if not secured.recv(8):
            raise ConnectionResetError("the broker hung up")
    except OSError:
        secured.close()
        raise
    return secured


def context_of(certificates: Certificates, certificate: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.root_file)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def test_a_keystore_is_pem(certificates: Certificates) -> None:
    with running(ssl_keystore_location=certificates.node()) as broker:
        ask(broker, context_of(certificates)).close()


def test_a_keystore_is_pkcs12(certificates: Certificates) -> None:
    with running(ssl_keystore_location=certificates.pkcs12(), ssl_keystore_password="geheim") as broker:
        ask(broker, context_of(certificates)).close()


def test_a_keystore_is_in_the_settings_themselves(certificates: Certificates) -> None:
    leaf = certificates.root.issue_cert("127.0.0.1", key_type=EC)
    chain = "".join(each.bytes().decode() for each in leaf.cert_chain_pems)
    key = leaf.private_key_pem.bytes().decode()
    with running(ssl_keystore_certificate_chain=chain, ssl_keystore_key=key) as broker:
        ask(broker, context_of(certificates)).close()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "a listener with TLS needs a certificate"),
        ({"ssl_keystore_location": "/nowhere.pem"}, "cannot read /nowhere.pem"),
        ({"ssl_client_auth": "required"}, "nothing says whose certificates are trusted"),
        ({"ssl_cipher_suites": "NONSENSE"}, "ssl.cipher.suites cannot be used"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(
    certificates: Certificates, settings: dict[str, str], problem: str
) -> None:
    given = {"ssl_keystore_location": certificates.node(), **settings} if settings else {}
    with pytest.raises(InvalidConfig, match=problem), running(**given):
        pass


def test_a_client_shows_a_certificate_that_is_trusted_and_has_a_rule(
    certificates: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    strangers = Certificates(tmp_path / "other")
    settings = {
        "ssl_keystore_location": certificates.node(),
        "ssl_truststore_location": certificates.root_file,
        "ssl_client_auth": "required",
        "ssl_principal_mapping_rules": "RULE:^CN=(Ann),.*$/$1/",
    }
    with running(**settings) as broker:
        ask(broker, context_of(certificates, certificates.client())).close()
        for certificate in (None, strangers.client(), certificates.client("bob.pem", "Bob")):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                ask(broker, context_of(certificates, certificate))


def test_a_client_whose_handshake_is_refused_is_told_why(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """By an alert. Java's clients fail upon one; where there is none they believe in the network, and try again."""
    settings = {
        "ssl_keystore_location": certificates.node(),
        "ssl_truststore_location": certificates.root_file,
        "ssl_client_auth": "required",
    }
    without_certificate, old_suite = context_of(certificates), context_of(certificates, certificates.client())
    old_suite.maximum_version = ssl.TLSVersion.TLSv1_2
    old_suite.set_ciphers("ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
    with running(**settings) as broker:
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate[_ ]required"):
            ask(broker, without_certificate)
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake[_ ]failure"):
            ask(broker, old_suite)
        ask(broker, context_of(certificates, certificates.client())).close()
    assert "its TLS handshake failed: PEER_DID_NOT_RETURN_A_CERTIFICATE" in caplog.text
    assert "its TLS handshake failed: NO_SHARED_CIPHER" in caplog.text


def test_a_client_that_stays_after_it_was_refused_is_closed_when_its_time_is_over(certificates: Certificates) -> None:
    settings = {"ssl_keystore_location": certificates.node(), "ssl_handshake_timeout_ms": "300"}
    with running(**settings) as broker:
        host, _, port = broker.bootstrap_of("SSL").rpartition(":")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = context_of(certificates)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
        with pytest.raises(ssl.SSLWantReadError):
            context.wrap_bio(incoming, outgoing, server_hostname=host).do_handshake()
        with socket.create_connection((host, int(port)), 10) as plain:
            plain.sendall(outgoing.read())
            assert plain.recv(100)[:1] == b"\x15"  # an alert
            with suppress(ConnectionResetError):
                assert plain.recv(100) == b""


def test_a_certificate_that_is_only_requested_may_be_missing(certificates: Certificates) -> None:
    settings = {
        "ssl_keystore_location": certificates.node(),
        "ssl_truststore_location": certificates.root_file,
        "ssl_client_auth": "requested",
    }
    with running(**settings) as broker:
        ask(broker, context_of(certificates)).close()
        ask(broker, context_of(certificates, certificates.client())).close()


def test_certificates_that_change_are_read_again(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "LOOK_S", 0.05)
    node_file = certificates.node()
    with running(ssl_keystore_location=node_file) as broker:
        first = ask(broker, context_of(certificates))
        before = first.getpeercert(binary_form=True)
        replacement = certificates.node("new.pem")
        os.replace(replacement, node_file)
        deadline = time.monotonic() + 20
        while True:
            with ask(broker, context_of(certificates)) as later:
                if later.getpeercert(binary_form=True) != before:
                    break
            assert time.monotonic() < deadline
        first.sendall(frame_request(18, 0, {}, correlation_id=2, client_id="x"))
        assert first.recv(8)  # a connection of before goes on
        first.close()


def test_a_file_that_cannot_be_used_changes_nothing(certificates: Certificates) -> None:
    node_file = certificates.node()
    tls = Tls(TlsConfig(keystore_file=node_file))
    used = tls.server
    Path(node_file).write_text("nonsense")
    tls.look()
    assert tls.server is used
    Path(node_file).unlink()
    tls.look()
    assert tls.server is used
    certificates.node()
    tls.look()
    assert tls.server is not used


def test_a_client_that_never_shakes_hands_is_closed_and_only_so_many_may(certificates: Certificates) -> None:
    settings = {
        "ssl_keystore_location": certificates.node(),
        "ssl_handshake_timeout_ms": "300",
        "max_connections_authenticating": "2",
    }
    with running(**settings) as broker:
        host, _, port = broker.bootstrap_of("SSL").rpartition(":")
        silent = [socket.create_connection((host, int(port)), 10) for _ in range(3)]
        for each in reversed(silent):
            each.settimeout(10)
            with suppress(ConnectionResetError):
                assert each.recv(1) == b""
            each.close()
        ask(broker, context_of(certificates)).close()


def test_whoever_never_shakes_hands_keeps_nobody_out(certificates: Certificates) -> None:
    settings = {"ssl_keystore_location": certificates.node(), "max_connections_authenticating": "2"}
    with running(**settings) as broker:
        host, _, port = broker.bootstrap_of("SSL").rpartition(":")
        silent = [socket.create_connection((host, int(port)), 10) for _ in range(10)]
        ask(broker, context_of(certificates)).close()
        for each in silent:
            each.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_openssl_finds_nothing_below_tls_1_2(certificates: Certificates) -> None:
    with running(ssl_keystore_location=certificates.node()) as broker:
        address = broker.bootstrap_of("SSL")

        def offers(*options: str) -> bool:
            command = [
                "openssl",
                "s_client",
                "-connect",
                address,
                "-CAfile",
                certificates.root_file,
                "-brief",
                *options,
            ]
            done = subprocess.run(command, input=b"", capture_output=True, timeout=30, check=False)
            return b"CONNECTION ESTABLISHED" in done.stdout + done.stderr

        assert offers("-tls1_3")
        assert offers("-tls1_2")
        assert not offers("-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0")
        assert not offers("-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0")


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        ({"listeners": "PLAINTEXT://:0"}, True),
        ({"listeners": "PLAINTEXT://0.0.0.0:0"}, True),
        ({"listeners": "SSL://0.0.0.0:0", "ssl.keystore.location": "x"}, True),
        ({"listeners": "SSL://0.0.0.0:0", "ssl.client.auth": "required"}, False),
        ({"listeners": "SASL_PLAINTEXT://0.0.0.0:0"}, False),
        ({"listeners": "PLAINTEXT://0.0.0.0:0", "allow.anonymous": "true"}, False),
        ({"listeners": "PLAINTEXT://localhost:0"}, False),
        ({"listeners": "PLAINTEXT://[::1]:0"}, False),
    ],
)
def test_a_node_that_others_can_reach_asks_who_they_are(settings: dict[str, str], is_refused: bool) -> None:
    config = BrokerConfig.from_properties(settings)
    if is_refused:
        with pytest.raises(InvalidConfig, match=r"allow\.anonymous=true"):
            security.check_protected(config)
    else:
        security.check_protected(config)
