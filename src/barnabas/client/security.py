"""How a connection is secured, from librdkafka's settings: TLS, a login by SASL, both or neither.

| setting | meaning | default |
|---|---|---|
| `security.protocol` | `plaintext`, `ssl`, `sasl_plaintext`, `sasl_ssl` | plaintext |
| `ssl.ca.location`, `ssl.ca.pem` | who is trusted: a file, a directory, or certificates | what the system trusts |
| `ssl.certificate.location`, `ssl.certificate.pem` | the client's certificate and those above it | none |
| `ssl.key.location`, `ssl.key.pem`, `ssl.key.password` | its key | |
| `ssl.crl.location` | revoked certificates | none |
| `ssl.cipher.suites` | for TLS 1.2, in OpenSSL's words | OpenSSL's |
| `enable.ssl.certificate.verification` | whether the broker must prove who it is | true |
| `ssl.endpoint.identification.algorithm` | `https`: its certificate must be for its address; or `none` | https |
| `sasl.mechanism` (`sasl.mechanisms`) | `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER` | required |
| `sasl.username`, `sasl.password` | the login of the first three | required |
| `sasl.oauthbearer.method` | how to get a token: `oidc` | required |
| `sasl.oauthbearer.token.endpoint.url`, `.client.id`, `.client.secret` | where, and for whom | required |
| `sasl.oauthbearer.scope`, `.extensions` | what the token is for; `name=value,...` for the broker | none |
| `https.ca.location`, `https.ca.pem` | who is trusted as the token endpoint | what the system trusts |

Settings that promise protection which is not implemented are refused, not ignored.
"""

import re
import secrets
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.client.scram import DIGESTS, Exchange, scram
from barnabas.core.errors import BarnabasError, InvalidConfig

if TYPE_CHECKING:
    from barnabas.client.oauth import TokenSource

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *DIGESTS, OAUTHBEARER)

_PROTOCOL: Final = "security.protocol"
_PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_MECHANISM: Final = "sasl.mechanism"
_MECHANISMS: Final = "sasl.mechanisms"
_OAUTH: Final = "sasl.oauthbearer"
_VERIFICATION: Final = "enable.ssl.certificate.verification"
_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
_KNOWN: Final = frozenset(
    {
        *(f"ssl.{what}.{how}" for what in ("ca", "certificate", "key") for how in ("location", "pem")),
        *("ssl.key.password", "ssl.crl.location", "ssl.cipher.suites", _VERIFICATION, _IDENTIFICATION),
        *(_MECHANISM, _MECHANISMS, "sasl.username", "sasl.password"),
        *(f"{_OAUTH}.{what}" for what in ("method", "grant.type", "scope", "extensions", "token.endpoint.url")),
        *(f"{_OAUTH}.client.id", f"{_OAUTH}.client.secret"),
    }
)
_OF_SECURITY: Final = ("ssl.", "sasl.", "enable.ssl.")
_WITHOUT_EFFECT: Final = ("sasl.kerberos.",)  # librdkafka's, and only for a mechanism that is refused
_INSTEAD: Final = {
    "ssl.truststore.": "ssl.ca.location, a file of certificates as PEM",
    "ssl.keystore.": "ssl.certificate.location and ssl.key.location, which are PEM",
    "sasl.jaas.config": "sasl.username and sasl.password",
    "sasl.login.": "sasl.oauthbearer.method",
}
_CHOICES: Final = {"true": True, "false": False}


class TlsFailed(BarnabasError):
    """A broker that is not trusted, does not trust the client, or uses TLS where the client does not, or vice versa."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in, and how; secrets are not shown."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    tokens: "TokenSource | None" = None
    extensions: Mapping[str, str] = field(default_factory=dict)

    def begin(self) -> Exchange:
        """The messages of one login."""
        if self.tokens is not None:
            from barnabas.client.oauth import oauth_bearer  # noqa: PLC0415 - urllib is for those who need it

            return oauth_bearer(self.tokens.token(), self.extensions)
        if self.mechanism == PLAIN:
            return _plain(self.username, self.password)
        return scram(self.mechanism, self.username, self.password, secrets.token_urlsafe(24))

    def __str__(self) -> str:
        who = self.username or (self.tokens.client_id if self.tokens else "")
        return f"the login of {who!r} by {self.mechanism}"


@dataclass(frozen=True, slots=True)
class Security:
    """The security settings of every connection to a cluster."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "Security":
        """Check the settings, and read the files they name."""
        protocol = config.get(_PROTOCOL, "plaintext").lower()
        if protocol not in _PROTOCOLS:
            raise InvalidConfig(f"{_PROTOCOL} is {config[_PROTOCOL]!r}; it may be {', '.join(_PROTOCOLS)}")
        if protocol == "plaintext":
            return cls()
        _check_names(config)
        login = _login(config) if protocol.startswith("sasl_") else None
        return cls(_tls(config) if protocol.endswith("ssl") else None, login)


def tls_words(error: ssl.SSLError) -> str:
    """OpenSSL's reason, or the error itself if it has none."""
    return (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()


def _plain(username: str, password: str) -> Exchange:
    yield f"\0{username}\0{password}".encode()


def _check_names(config: Mapping[str, str]) -> None:
    for name in sorted(config):
        if name in _KNOWN or not name.startswith(_OF_SECURITY) or name.startswith(_WITHOUT_EFFECT):
            continue
        instead = next((words for start, words in _INSTEAD.items() if name.startswith(start)), None)
        hint = f": set {instead}" if instead else ""
        raise InvalidConfig(f"setting {name!r} is not supported{hint}")


def _login(config: Mapping[str, str]) -> Login:
    mechanism = _mechanism(config)
    if mechanism == OAUTHBEARER:
        return Login(mechanism, tokens=_token_source(config), extensions=_extensions(config))
    username, password = _required(config, "sasl.username"), _required(config, "sasl.password")
    if "\0" in username + password:
        raise InvalidConfig("sasl.username or sasl.password contains a NUL character, which no mechanism can send")
    return Login(mechanism, username, password)


def _mechanism(config: Mapping[str, str]) -> str:
    given = {config[name] for name in (_MECHANISM, _MECHANISMS) if config.get(name)}
    if len(given) > 1:
        raise InvalidConfig(f"{_MECHANISM} and {_MECHANISMS} contradict each other: give one of them")
    spoken = ", ".join(MECHANISMS)
    if not given:
        raise InvalidConfig(f"{_MECHANISM} is missing, and its default, GSSAPI, is not supported here: set {spoken}")
    (mechanism,) = given
    if mechanism.upper() not in MECHANISMS:
        raise InvalidConfig(f"{_MECHANISM} {mechanism!r} is not supported here: {spoken} are")
    return mechanism.upper()


def _token_source(config: Mapping[str, str]) -> "TokenSource":
    from barnabas.client.oauth import TokenSource  # noqa: PLC0415

    for name, known in ((f"{_OAUTH}.method", "oidc"), (f"{_OAUTH}.grant.type", "client_credentials")):
        if config.get(name, known if name.endswith("type") else "default").lower() != known:
            raise InvalidConfig(f"{_MECHANISM} {OAUTHBEARER} needs {name}={known}: no other is supported here")
    url = _required(config, f"{_OAUTH}.token.endpoint.url")
    if not re.match(r"https?://[^/\s]+", url):
        raise InvalidConfig(f"{_OAUTH}.token.endpoint.url is {url!r}, which is not an http or https address")
    tls = None
    if url.startswith("https:"):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(tls, config, "https.ca")
    return TokenSource(
        url,
        _required(config, f"{_OAUTH}.client.id"),
        _required(config, f"{_OAUTH}.client.secret"),
        config.get(f"{_OAUTH}.scope") or None,
        tls,
    )


def _extensions(config: Mapping[str, str]) -> dict[str, str]:
    name = f"{_OAUTH}.extensions"
    pairs = [part.strip().partition("=") for part in config.get(name, "").split(",") if part.strip()]
    for key, equals, value in pairs:
        if not re.fullmatch("[A-Za-z]+", key) or key == "auth" or not equals or not value.isprintable():
            raise InvalidConfig(f"{name} is {config[name]!r}; it is a list such as 'name=value,other=value'")
    return {key: value for key, _, value in pairs}


def _required(config: Mapping[str, str], name: str) -> str:
    value = config.get(name, "")
    if not value:
        raise InvalidConfig(f"{_PROTOCOL} is {config[_PROTOCOL]!r}, and {name} is missing")
    return value


def _tls(config: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    identification = config.get(_IDENTIFICATION, "https").lower()
    if identification not in ("https", "none", ""):
        raise InvalidConfig(f"{_IDENTIFICATION} is {identification!r}; it may be https or none")
    verification = _CHOICES.get(config.get(_VERIFICATION, "true").lower())
    if verification is None:
        raise InvalidConfig(f"{_VERIFICATION} is {config[_VERIFICATION]!r}; it may be true or false")
    context.check_hostname = verification and identification == "https"
    context.verify_mode = ssl.CERT_REQUIRED if verification else ssl.CERT_NONE
    _trust(context, config, "ssl.ca")
    if revoked := config.get("ssl.crl.location"):
        with _naming("ssl.crl.location", revoked):
            context.load_verify_locations(cafile=revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if suites := config.get("ssl.cipher.suites"):
        with _naming("ssl.cipher.suites", suites):
            context.set_ciphers(suites)
    _identify(context, config)
    return context


def _trust(context: ssl.SSLContext, config: Mapping[str, str], prefix: str) -> None:
    location, pem = config.get(f"{prefix}.location"), config.get(f"{prefix}.pem")
    if pem:
        with _naming(f"{prefix}.pem"):
            context.load_verify_locations(cadata=pem)
    if location and location != "probe":
        with _naming(f"{prefix}.location", location):
            is_directory = Path(location).is_dir()
            context.load_verify_locations(**{"capath" if is_directory else "cafile": location})
    elif not pem:
        context.load_default_certs()


def _identify(context: ssl.SSLContext, config: Mapping[str, str]) -> None:
    """Load the client's own certificate into a context, if there is one."""
    parts = {}
    for what in ("certificate", "key"):
        location, pem = config.get(f"ssl.{what}.location"), config.get(f"ssl.{what}.pem")
        if location and pem:
            raise InvalidConfig(f"ssl.{what}.location and ssl.{what}.pem contradict each other: give one of them")
        if location:
            with _naming(f"ssl.{what}.location", location):
                pem = Path(location).read_text()
        parts[what] = pem
    if not parts["certificate"] and not parts["key"]:
        return
    if not parts["certificate"]:
        raise InvalidConfig("ssl.key.* is set without a certificate: set ssl.certificate.location or .pem")
    # A password is always given, if only an empty one: OpenSSL would ask for it at the terminal.
    password = config.get("ssl.key.password", "")
    # OpenSSL reads them from a file only, which nobody else can read and which is gone at once.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as both, _naming("ssl.certificate.* and ssl.key.*"):
        both.write(f"{parts['key'] or ''}\n{parts['certificate']}\n")
        both.flush()
        context.load_cert_chain(both.name, password=lambda: password)


@contextmanager
def _naming(setting: str, value: str | None = None) -> Iterator[None]:
    """Name the setting in errors raised in this block."""
    named = setting if value is None else f"{setting} {value!r}"
    try:
        yield
    except ssl.SSLError as error:
        raise InvalidConfig(f"{named} cannot be used: {tls_words(error)}") from None
    except (OSError, ValueError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise InvalidConfig(f"{named} cannot be read: {why}") from None
