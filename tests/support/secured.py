"""A front that wants TLS, a login or both, and does the broker's side of them; and an endpoint that gives tokens.

Written apart from the client, from the RFCs; librdkafka, which logs in here as well, is what says it is right.
"""

import base64
import dataclasses
import datetime
import hashlib
import hmac
import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import trustme
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64Timedelta

from tests.support.fronts import API_VERSIONS, Asked, Front, Hangup, Node

USER: Final = "ann,e=x"  # with both characters that SCRAM has to escape
PASSWORD: Final = "péss w0rd"
CLIENT_ID: Final = "a-client"
CLIENT_SECRET: Final = "a-secret"
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
_DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

# What a mechanism answers to each message, and whether the client is in.
_Server = Generator[tuple[bytes, bool], bytes, None]


class _Refused(Exception):
    pass


@dataclass(slots=True)
class Session:
    is_in: bool = False
    mechanism: str = ""
    server: _Server | None = None
    until: float = float("inf")


@dataclass(slots=True)
class Wanted:
    """What the front asks of its clients."""

    tls: ssl.SSLContext | None = None
    mechanisms: tuple[str, ...] = ()
    tokens: "TokenEndpoint | None" = None
    iterations: int = 4096
    lifetime_ms: int = 0
    is_impostor: bool = False  # knows nobody's password, and lets everybody in
    logins: list[str] = field(default_factory=list)


class SecuredFront(Front):
    """One node that clients come to over TLS, with a login, or both."""

    def __init__(self, backend: str, wanted: Wanted) -> None:
        self.wanted = wanted
        super().__init__(backend)

    def greet(self, client: socket.socket) -> socket.socket:
        return client if self.wanted.tls is None else self.wanted.tls.wrap_socket(client, server_side=True)

    def new_session(self) -> Session:
        return Session(is_in=not self.wanted.mechanisms)

    def offered(self, answer: Any) -> Any:
        lowered = super().offered(answer)
        if not self.wanted.mechanisms:
            return lowered
        kind = type(lowered.api_keys[0])
        more = [kind(api_key=key, min_version=0, max_version=newest) for key, newest in ((17, 1), (36, 2))]
        return dataclasses.replace(lowered, api_keys=(*lowered.api_keys, *more))

    def answer(self, node: Node, session: Session, asked: Asked, broker: socket.socket) -> bytes:
        if asked.api_key == SASL_HANDSHAKE:
            return asked.written_answer(self._handshake(session, asked))
        if asked.api_key == SASL_AUTHENTICATE:
            return asked.written_answer(self._authenticate(session, asked))
        if asked.api_key != API_VERSIONS and (not session.is_in or time.monotonic() > session.until):
            raise Hangup
        return super().answer(node, session, asked, broker)

    def _handshake(self, session: Session, asked: Asked) -> Any:
        classes, mechanism = asked.response_classes(), asked.message.mechanism
        is_known = mechanism in self.wanted.mechanisms
        session.mechanism, session.server = mechanism, self._server(mechanism) if is_known else None
        if session.server is not None:
            next(session.server)
        code = ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism
        return classes.SaslHandshakeResponse(error_code=code, mechanisms=self.wanted.mechanisms)

    def _authenticate(self, session: Session, asked: Asked) -> Any:
        kind = asked.response_classes().SaslAuthenticateResponse
        assert session.server is not None
        fields: dict[str, Any] = {"error_code": ErrorCode.none, "error_message": None, "auth_bytes": b""}
        try:
            fields["auth_bytes"], session.is_in = session.server.send(asked.message.auth_bytes)
        except _Refused as error:
            fields |= {"error_code": ErrorCode.sasl_authentication_failed, "error_message": str(error)}
        lifetime_ms = self.wanted.lifetime_ms if session.is_in else 0
        if session.is_in:
            self.wanted.logins.append(session.mechanism)
        if lifetime_ms:
            session.until = time.monotonic() + lifetime_ms / 1000
        if asked.version >= 1:
            fields["session_lifetime"] = i64Timedelta.parse(datetime.timedelta(milliseconds=lifetime_ms))
        return kind(**fields)

    def _server(self, mechanism: str) -> _Server:
        if mechanism == "PLAIN":
            return _plain()
        if mechanism == "OAUTHBEARER":
            assert self.wanted.tokens is not None
            return _oauth_bearer(self.wanted.tokens)
        return _scram(_DIGESTS[mechanism], self.wanted)


def _plain() -> _Server:
    message = yield b"", False
    _, user, password = message.decode().split("\0")
    if (user, password) != (USER, PASSWORD):
        raise _Refused("Authentication failed: Invalid username or password")
    yield b"", True


def _scram(digest: str, wanted: Wanted) -> _Server:
    """RFC 5802 from the side that knows the salt and the two stored keys, and no password."""
    salt = secrets.token_bytes(16)
    password = "another" if wanted.is_impostor else PASSWORD
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, wanted.iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key, server_key = hashlib.new(digest, client_key).digest(), hmac.digest(salted, b"Server Key", digest)

    opening = (yield b"", False).decode().removeprefix("n,,")
    name, _, nonce = opening.partition(",r=")
    known = USER.replace("=", "=3D").replace(",", "=2C")
    nonce += secrets.token_urlsafe(12)
    challenge = f"r={nonce},s={base64.b64encode(salt).decode()},i={wanted.iterations}"
    ending, _, proof = (yield challenge.encode(), False).decode().rpartition(",p=")
    transcript = f"{opening},{challenge},{ending}".encode()
    signature = hmac.digest(stored_key, transcript, digest)
    key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
    is_right = hashlib.new(digest, key).digest() == stored_key and name == f"n={known}"
    if not wanted.is_impostor and (not is_right or ending != f"c=biws,r={nonce}"):
        raise _Refused("Authentication failed during authentication due to invalid credentials with SASL mechanism")
    yield f"v={base64.b64encode(hmac.digest(server_key, transcript, digest)).decode()}".encode(), True


def _oauth_bearer(tokens: "TokenEndpoint") -> _Server:
    """RFC 7628: who is refused is told why, and hears of it once more."""
    message = (yield b"", False).decode()
    if f"\x01auth=Bearer {tokens.good_token}\x01" in message:
        yield b"", True
    assert (yield b'{"status":"invalid_token"}', False) == b"\x01"
    raise _Refused('{"status":"invalid_token"}')


class TokenEndpoint:
    """Gives a token to the one client it knows. Runs while its `with` block lasts."""

    def __init__(self) -> None:
        claims = {"sub": CLIENT_ID, "iat": round(time.time()), "exp": round(time.time()) + 3600}
        self.good_token = ".".join(_url64(part) for part in (b'{"alg":"none"}', json.dumps(claims).encode(), b"x"))
        self.given_token = self.good_token
        self.asked: list[str] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint.asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                is_known = login == f"{CLIENT_ID}:{CLIENT_SECRET}"
                token = {"access_token": endpoint.given_token, "token_type": "Bearer", "expires_in": 3600}
                self.send_response(200 if is_known else 401)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(token if is_known else {"error": "invalid_client"}).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def __enter__(self) -> "TokenEndpoint":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Certificates:
    """A root, what it says of servers and clients, and the files of both."""

    def __init__(self, directory: Path) -> None:
        self._root = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.root_file = str(directory / "root.pem")
        self._root.cert_pem.write_to_path(self.root_file)
        self.root_pem = self._root.cert_pem.bytes().decode()

    def server(self, *names: str, wants_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._root.issue_cert(*names, key_type=trustme.KeyType.ECDSA).configure_cert(context)
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            self._root.configure_trust(context)
        return context

    def client(self) -> tuple[str, str]:
        """A client's certificate and its key, as PEM."""
        issued = self._root.issue_cert("client@example.org", key_type=trustme.KeyType.ECDSA)
        return issued.cert_chain_pems[0].bytes().decode(), issued.private_key_pem.bytes().decode()


def login(mechanism: str, tokens: TokenEndpoint | None = None) -> dict[str, str]:
    """The settings of the user or client that the front lets in."""
    if tokens is None:
        return {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    return {
        "sasl.mechanism": mechanism,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": CLIENT_SECRET,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": tokens.url,
    }


def _url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
