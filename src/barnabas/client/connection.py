"""One connection to a broker: requests out, answers in, in the newest version both sides know.

Owns framing, correlation, versions, and TLS and the login at the beginning. Only for what librdkafka does not do:
reading and writing at Arrow speed, where it would make an object of every record, and the administration of
transactions. Answers are bounded, and a broker that goes silent is given up on.

A connection that may be made later is `Unreachable`. A login that was refused, a broker that is not trusted and TLS
on one side only are said at once: nobody is to wait for what will not change.
"""

import dataclasses
import datetime
import io
import socket
import ssl
import struct
import time
from collections.abc import Sequence
from typing import Any, Final

from kio.index import load_payload_module, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32

from barnabas.client.errors import Refused, Unreachable, words_of
from barnabas.client.scram import LoginFailed
from barnabas.client.security import Login, Security, TlsFailed, tls_words
from barnabas.core.errors import BarnabasError, CorruptRecord
from barnabas.core.records.batch import Buffer

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
FIND_COORDINATOR: Final = 10
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
INIT_PRODUCER_ID: Final = 22
ADD_PARTITIONS_TO_TXN: Final = 24
ADD_OFFSETS_TO_TXN: Final = 25
END_TXN: Final = 26
WRITE_TXN_MARKERS: Final = 27
TXN_OFFSET_COMMIT: Final = 28
SASL_AUTHENTICATE: Final = 36
DESCRIBE_PRODUCERS: Final = 61
DESCRIBE_TRANSACTIONS: Final = 65
LIST_TRANSACTIONS: Final = 66

# What is spoken here: from kio's oldest up to the last version that names topics, not their ids.
_SPOKEN: Final = {
    PRODUCE: (3, 8),  # written by hand, before compact strings
    FETCH: (4, 12),
    LIST_OFFSETS: (1, 5),  # likewise
    METADATA: (1, 12),  # from 10 on with the ids of topics
    OFFSET_COMMIT: (2, 8),
    OFFSET_FETCH: (7, 7),  # the first that waits for transactions, the last for one group
    FIND_COORDINATOR: (1, 3),  # later ones ask for many at once
    SASL_HANDSHAKE: (1, 1),
    API_VERSIONS: (0, 0),
    INIT_PRODUCER_ID: (0, 4),
    ADD_PARTITIONS_TO_TXN: (0, 3),
    ADD_OFFSETS_TO_TXN: (0, 3),
    END_TXN: (0, 3),
    TXN_OFFSET_COMMIT: (0, 3),
    WRITE_TXN_MARKERS: (1, 2),
    SASL_AUTHENTICATE: (0, 2),
    DESCRIBE_PRODUCERS: (0, 0),
    DESCRIBE_TRANSACTIONS: (0, 0),
    LIST_TRANSACTIONS: (0, 2),
}
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 30.0
_SESSION_SHARE: Final = 0.85  # of a login's lifetime, as Kafka's own clients take it
_NO_LOGIN_HERE: Final = 34  # ILLEGAL_SASL_STATE
_OTHER_MECHANISMS: Final = 33
_MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
_FOREVER: Final = datetime.timedelta()
_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">hhih")  # of a request: API, version, correlation, length of the client's name
_JOINED_BYTES: Final = 64 * 1024  # a small request is one packet


class Connection:
    """A socket to one broker, with at most one request under way."""

    def __init__(self, host: str, port: int, client_id: str, security: Security | None = None) -> None:
        self._address = f"{host}:{port}"
        self._client_id = client_id
        self._security = security or Security()
        self._correlation_id = 0
        self._awaited: Any = None
        self._theirs: dict[int, tuple[int, int]] = {}
        self._good_until = float("inf")
        self._is_new = True
        self._socket = _connect(host, port)
        try:
            if self._security.tls is not None:
                self._start_tls(self._security.tls, host, port)
            self._theirs = self._ask_versions(host, port)
            if self._security.login is not None:
                self._log_in(self._security.login)
        except BaseException:
            self._socket.close()
            raise

    @property
    def is_over(self) -> bool:
        """Whether another connection is needed: this one broke, or its login runs out and the broker would end it."""
        return self._awaited is None and time.monotonic() > self._good_until

    @property
    def has_buffered(self) -> bool:
        """Whether there is something to read that no poll of the socket shows: TLS has taken it off already."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def messages(self, api_key: int) -> Any:
        """kio's module with the classes of a request, in the version this broker is spoken to."""
        return load_payload_module(api_key, self.version(api_key), EntityType.request)

    def version(self, api_key: int) -> int:
        """The newest version of an API that both sides know."""
        oldest, newest = _SPOKEN[api_key]
        their_oldest, their_newest = self._theirs.get(api_key, (0, -1))
        version = min(newest, their_newest)
        if version < max(oldest, their_oldest):
            raise Refused(f"{self._address} speaks no version of API {api_key} that this client does", 35)
        return version

    def call(self, request: Any, answer_kind: Any = None) -> Any:
        """The answer to a request; as kio knows it, or read as another kind."""
        self.send(request)
        if answer_kind is not None:
            self._awaited = answer_kind
        return self.receive()

    def send(self, request: Any) -> None:
        assert self._awaited is None, "one request at a time"
        kind = type(request)
        self._correlation_id += 1
        header_kind = kind.__header_schema__
        header = header_kind(
            request_api_key=kind.__api_key__,
            request_api_version=kind.__version__,
            correlation_id=i32(self._correlation_id),
            client_id=self._client_id,
        )
        out = io.BytesIO()
        entity_writer(header_kind)(out, header)
        entity_writer(kind)(out, request)
        try:
            self._socket.sendall(_LENGTH.pack(out.tell()) + out.getvalue())
        except OSError as error:
            raise self._lost(error) from None
        self._awaited = load_response_schema(kind.__api_key__, kind.__version__)

    def send_written(self, api_key: int, body: Sequence[Buffer]) -> None:
        """Send a request whose body is written already, in `version` and without compact strings; it is not copied."""
        assert self._awaited is None, "one request at a time"
        self._correlation_id += 1
        version, client_id = self.version(api_key), self._client_id.encode()
        header = _HEADER.pack(api_key, version, self._correlation_id, len(client_id)) + client_id
        size = len(header) + sum(len(part) for part in body)
        parts = [_LENGTH.pack(size) + header, *body]
        try:
            for part in [b"".join(parts)] if size <= _JOINED_BYTES else parts:
                self._socket.sendall(part)
        except OSError as error:
            raise self._lost(error) from None
        self._awaited = load_response_schema(api_key, version)

    def ask_written(self, api_key: int, body: Buffer) -> memoryview:
        """The body of the answer to such a request, as it came."""
        self.send_written(api_key, [body])
        self._awaited = None
        return self._receive_frame()[_LENGTH.size :]

    def receive(self) -> Any:
        kind, self._awaited = self._awaited, None
        frame = self._receive_frame()
        _, at = entity_reader(kind.__header_schema__)(frame, 0)
        answer, _ = entity_reader(kind)(frame, at)
        return answer

    def _receive_frame(self) -> memoryview:
        """An answer, from the number of its request on, which is that of ours."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if not 4 <= length <= _MAX_ANSWER_BYTES:
            raise self._corrupt(f"{self._address} announces an answer of {length} bytes")
        frame = self._read(length)
        (answered,) = _LENGTH.unpack_from(frame)
        if answered != self._correlation_id:
            raise self._corrupt(f"{self._address} answered {answered}, not {self._correlation_id}")
        self._is_new = False
        return frame

    def _read(self, count: int) -> memoryview:
        buffer = bytearray(count)
        view = memoryview(buffer)
        while view:
            try:
                read = self._socket.recv_into(view)
            except OSError as error:
                raise self._lost(error) from None
            if read == 0:
                raise self._lost("it closed the connection")
            view = view[read:]
        return memoryview(buffer).toreadonly()  # kio takes nothing that could change

    def _lost(self, why: object) -> BarnabasError:
        self._good_until = float("-inf")
        if self._is_new and isinstance(why, ssl.SSLError) and "alert" in tls_words(why):
            return TlsFailed(f"{self._address} refused TLS: {tls_words(why)}; does it want a certificate of ours?")
        hint = ""
        if self._is_new and self._theirs and self._security.login is None:
            hint = "; does it want a login (security.protocol sasl_plaintext or sasl_ssl)?"
        return Unreachable(f"lost the connection to {self._address}: {why}{hint}")

    def _corrupt(self, message: str) -> CorruptRecord:
        self._good_until = float("-inf")
        return CorruptRecord(message)

    def _start_tls(self, context: ssl.SSLContext, host: str, port: int) -> None:
        self._socket.settimeout(_CONNECT_S)
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message.rstrip(".")
            raise TlsFailed(f"{self._address} is not trusted: {why}; see ssl.ca.location") from None
        except TimeoutError as error:
            raise Unreachable(f"cannot speak TLS with {self._address}: {error}") from None
        except OSError as error:
            if _speaks_plaintext(host, port, self._client_id):
                raise TlsFailed(
                    f"{self._address} speaks no TLS: security.protocol should be plaintext or sasl_plaintext"
                ) from None
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                raise TlsFailed(f"cannot speak TLS with {self._address}: {tls_words(error)}") from None
            raise Unreachable(f"cannot speak TLS with {self._address}: {error}") from None
        self._socket.settimeout(_ANSWER_S)

    def _ask_versions(self, host: str, port: int) -> dict[int, tuple[int, int]]:
        try:
            answer = self.call(load_request_schema(API_VERSIONS, 0)())
        except (Unreachable, CorruptRecord):
            if self._security.tls is None and _speaks_tls(host, port):
                raise TlsFailed(f"{self._address} speaks TLS: security.protocol should be ssl or sasl_ssl") from None
            raise
        self._is_new = True
        return {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in answer.api_keys}

    def _log_in(self, login: Login) -> None:
        if SASL_HANDSHAKE not in self._theirs:
            raise self._needs_no_login()
        handshake = self.messages(SASL_HANDSHAKE).SaslHandshakeRequest(mechanism=login.mechanism)
        answer = self.call(handshake)
        if int(answer.error_code) == _NO_LOGIN_HERE:
            raise self._needs_no_login()
        if int(answer.error_code) == _OTHER_MECHANISMS:
            offered = ", ".join(answer.mechanisms) or "nothing"
            raise LoginFailed(f"{self._address} takes no login by {login.mechanism}: it offers {offered}")
        if int(answer.error_code) != 0:
            raise LoginFailed(f"{self._address} takes no login: {words_of(answer.error_code)}")
        exchange = login.begin()
        message = next(exchange)
        while True:
            answer = self._authenticate(message, login)
            try:
                message = exchange.send(answer.auth_bytes)
            except StopIteration:
                break
            except LoginFailed as error:
                raise LoginFailed(f"{self._address}: {error}") from None
        lifetime_s = getattr(answer, "session_lifetime", _FOREVER).total_seconds()
        if lifetime_s > 0:
            self._good_until = time.monotonic() + lifetime_s * _SESSION_SHARE

    def _authenticate(self, message: bytes, login: Login) -> Any:
        answer = self.call(self.messages(SASL_AUTHENTICATE).SaslAuthenticateRequest(auth_bytes=message))
        if int(answer.error_code) != 0:
            why = answer.error_message or words_of(answer.error_code)
            raise LoginFailed(f"{self._address} refused {login}: {' '.join(why.split())}")
        return answer

    def _needs_no_login(self) -> LoginFailed:
        wanted = "plaintext" if self._security.tls is None else "ssl"
        return LoginFailed(f"{self._address} takes no login: security.protocol should be {wanted}")


def _connect(host: str, port: int) -> socket.socket:
    try:
        connected = socket.create_connection((host, port), _CONNECT_S)
    except OSError as error:
        raise Unreachable(f"cannot connect to {host}:{port}: {error}") from None
    connected.settimeout(_ANSWER_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _speaks_plaintext(host: str, port: int, client_id: str) -> bool:
    """Whether a broker with which TLS failed answers without it."""
    try:
        Connection(host, port, client_id).close()
    except BarnabasError:
        return False
    return True


def _speaks_tls(host: str, port: int) -> bool:
    """Whether a broker that hung up on a plain request answers to TLS; who it is does not matter, nothing is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), _CONNECT_S) as plain:
            context.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLError as error:
        return "alert" in tls_words(error)
    except OSError:
        return False
    return True


def make(kind: type[Any], **fields: Any) -> Any:
    """A kio message from those of `fields` that this version of it has."""
    return kind(**{field.name: fields[field.name] for field in dataclasses.fields(kind) if field.name in fields})
