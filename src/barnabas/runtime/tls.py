"""TLS: the contexts of a listener and of connections to other nodes, made of certificates that may change.

Owns what is read of keystores and truststores. The files are looked at regularly (`look`), and where one has changed
new contexts take the place of the old ones, for connections from then on. One that cannot be used changes nothing, and
is said so. OpenSSL reads keys from files only: a key from elsewhere is in memory that has the name of a file.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.core.errors import InvalidConfig
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.tls_alerts import AlertingContext

log = get_logger("barnabas.tls", is_limited=False)

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2, where nothing else is set: forward secret, and authenticated encryption. Those of 1.3 all are."""
SHUTDOWN_TIMEOUT_S: Final = 2.0
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Where certificates are, and what is required of the other side."""

    keystore_file: str | None = None
    is_keystore_pkcs12: bool = False
    keystore_password: str | None = field(default=None, repr=False)
    certificate_chain: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    truststore_file: str | None = None
    is_truststore_pkcs12: bool = False
    truststore_password: str | None = field(default=None, repr=False)
    trusted: str | None = field(default=None, repr=False)
    client_auth: str = "none"
    protocols: Sequence[str] = ("TLSv1.2", "TLSv1.3")
    ciphers: Sequence[str] = ()
    checks_hosts: bool = True
    handshake_timeout_s: float = 10.0

    @property
    def files(self) -> list[str]:
        return [each for each in (self.keystore_file, self.truststore_file) if each]


class Tls:
    """The contexts that rule now. Making one reads files, and blocks."""

    def __init__(self, config: TlsConfig, *, is_server: bool = True) -> None:
        self.config = config
        self._is_server = is_server
        self._seen = _stamps(config.files)
        self.client = _client_context(config)
        self.server = _server_context(config) if is_server else self.client

    def look(self) -> None:
        """Take what is in the files now, if one of them has changed; blocks."""
        try:
            stamps = _stamps(self.config.files)
        except InvalidConfig as problem:
            log.error("%s; the certificates that were read before are used on", problem)
            return
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            client = _client_context(self.config)
            server = _server_context(self.config) if self._is_server else client
        except InvalidConfig as problem:
            log.error("%s; the certificates that were read before are used on", problem)
            return
        self.server, self.client = server, client
        log.warning("the certificates in %s were read again", " and ".join(self.config.files))


def subject_of(tls: ssl.SSLObject | None) -> str | None:
    """The distinguished name of the client's certificate, as RFC 2253 writes it; None without one."""
    data = None if tls is None else tls.getpeercert(binary_form=True)
    if data is None:
        return None
    from cryptography import x509  # noqa: PLC0415 - few need it, and it takes long to import

    return x509.load_der_x509_certificate(data).subject.rfc4514_string()


def own_subject(config: TlsConfig) -> str | None:
    """The distinguished name by which other nodes know this one; None if it shows them no certificate."""
    if config.certificate_chain:
        data = config.certificate_chain.encode()
    elif config.keystore_file:
        data = _read(config.keystore_file, "ssl.keystore.location")
        if config.is_keystore_pkcs12:
            data = _pem_of_keystore(data, config)
    else:
        return None
    from cryptography import x509  # noqa: PLC0415 - as above

    return x509.load_pem_x509_certificates(data)[0].subject.rfc4514_string()


def _stamps(files: Sequence[str]) -> list[tuple[int, int, int]]:
    found = []
    for file in files:
        try:
            status = Path(file).stat()
        except OSError as error:
            raise InvalidConfig(f"cannot read {file}: {error.strerror}") from None
        found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return found


def _server_context(config: TlsConfig) -> ssl.SSLContext:
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, config)
    if not config.keystore_file and not config.certificate_chain:
        raise InvalidConfig(
            "a listener with TLS needs a certificate: set ssl.keystore.location to a PEM file with it and its key"
        )
    if config.client_auth != "none" and not _trust(context, config):
        raise InvalidConfig(
            f"ssl.client.auth is {config.client_auth}, and nothing says whose certificates are trusted: set "
            "ssl.truststore.location"
        )
    context.verify_mode = _VERIFY[config.client_auth]
    return context


def _client_context(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.checks_hosts
    _set_up(context, config)
    if not _trust(context, config):
        context.load_default_certs()
    return context


def _set_up(context: ssl.SSLContext, config: TlsConfig) -> None:
    versions = sorted(_VERSIONS[each] for each in config.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    try:
        context.set_ciphers(":".join(config.ciphers) or CIPHERS)
    except ssl.SSLError as error:
        raise InvalidConfig(f"ssl.cipher.suites cannot be used: {_words(error)}") from None
    _identify(context, config)


def _identify(context: ssl.SSLContext, config: TlsConfig) -> None:
    """Load the certificate and the key of this node."""
    if config.certificate_chain:
        if not config.key:
            raise InvalidConfig("ssl.keystore.certificate.chain is set, and ssl.keystore.key is not")
        text = f"{config.certificate_chain}\n{config.key}\n"
        _load_chain(context, text.encode(), config.key_password, "ssl.keystore.certificate.chain")
    elif config.keystore_file:
        data = _read(config.keystore_file, "ssl.keystore.location")
        password = config.key_password or config.keystore_password
        if config.is_keystore_pkcs12:
            data, password = _pem_of_keystore(data, config), None
        _load_chain(context, data, password, f"ssl.keystore.location is {config.keystore_file}, which")


def _load_chain(context: ssl.SSLContext, pem: bytes, password: str | None, what: str) -> None:
    with _named(pem) as name:
        try:
            context.load_cert_chain(name, password=(password or "").encode())
        except (ssl.SSLError, OSError) as error:
            raise InvalidConfig(
                f"{what} has no certificate with its key, or not for this password: {_words(error)}"
            ) from None


def _pem_of_keystore(data: bytes, config: TlsConfig) -> bytes:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    try:
        store = pkcs12.load_pkcs12(data, _password(config.keystore_password))
    except ValueError as error:
        raise InvalidConfig(f"{config.keystore_file} cannot be read as PKCS12: {error}") from None
    if store.key is None or store.cert is None:
        raise InvalidConfig(f"{config.keystore_file} has no certificate with its key")
    certificates = [store.cert, *store.additional_certs]
    chain = [each.certificate.public_bytes(Encoding.PEM) for each in certificates]
    return b"".join([*chain, store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())])


def _trust(context: ssl.SSLContext, config: TlsConfig) -> bool:
    """Trust what the settings say; False if they say nothing."""
    if config.trusted:
        text, what = config.trusted, "ssl.truststore.certificates"
    elif config.truststore_file:
        what = f"ssl.truststore.location is {config.truststore_file}, which"
        data = _read(config.truststore_file, "ssl.truststore.location")
        text = (_pem_of_truststore(data, config) if config.is_truststore_pkcs12 else data).decode(errors="replace")
    else:
        return False
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidConfig(f"{what} has no certificates as PEM: {_words(error)}") from None
    return True


def _pem_of_truststore(data: bytes, config: TlsConfig) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415

    try:
        store = pkcs12.load_pkcs12(data, _password(config.truststore_password))
    except ValueError as error:
        raise InvalidConfig(f"{config.truststore_file} cannot be read as PKCS12: {error}") from None
    certificates = [*([store.cert] if store.cert else []), *store.additional_certs]
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in certificates)


def _password(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _read(file: str, setting: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidConfig(f"{setting} is {file}, which cannot be read: {error.strerror}") from None


@contextmanager
def _named(data: bytes) -> Iterator[str]:
    """A name under which these bytes can be read, which is gone afterwards; in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("barnabas", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # readable for its owner alone
        file.write(data)
        file.flush()
        yield file.name


def _words(error: Exception) -> str:
    return (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()
