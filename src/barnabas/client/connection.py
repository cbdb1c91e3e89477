"""One connection to a broker: requests out, responses in, in the newest version both sides support.

Owns framing, correlation, versions, and TLS and the login at the beginning. Only for what librdkafka cannot do: reading
and writing at Arrow speed, where it would make an object of every record, and the administration of transactions.
Responses are bounded in size and in time.

A failure that may pass is `Unreachable`. A refused login, an untrusted broker and TLS on one side only are reported at
once, since retrying would not help.
"""

import socket
import ssl
import struct
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from barnabas.client.errors import Refused, Unreachable, words_of
from barnabas.client.scram import LoginFailed
from barnabas.client.security import Login, Security, TlsFailed, tls_words
from barnabas.core.errors import BarnabasError, CorruptRecord
from barnabas.core.records.batch import Buffer
from barnabas.wire import listed_offsets, produce_request
from barnabas.wire.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    TXN_OFFSET_COMMIT,
)
from barnabas.wire.errors import MalformedAnswer
from barnabas.wire.frame import request_head
from barnabas.wire.requests import is_flexible, write_request
from barnabas.wire.responses import read_response
from barnabas.wire.schemas import known_versions
from barnabas.wire.writing import Values

# Which versions are spoken here, where those are not all that `wire` knows: above all not those that name topics by
# their ids, and those in which a transaction's epochs are its coordinator's affair.
_SPOKEN_FROM: Final = {
    METADATA.key: 1,  # with internal topics
    OFFSET_FETCH.key: 7,  # that waits for transactions
    FIND_COORDINATOR.key: 1,  # of transactions, too
    SASL_HANDSHAKE.key: 1,
}
_SPOKEN_UP_TO: Final = {
    PRODUCE.key: produce_request.NEWEST,
    FETCH.key: 12,
    LIST_OFFSETS.key: listed_offsets.NEWEST,
    METADATA.key: 12,
    OFFSET_COMMIT.key: 8,
    OFFSET_FETCH.key: 7,  # later ones ask for many groups at once
    FIND_COORDINATOR.key: 3,  # likewise
    API_VERSIONS.key: 0,
    INIT_PRODUCER_ID.key: 4,
    ADD_PARTITIONS_TO_TXN.key: 3,
    ADD_OFFSETS_TO_TXN.key: 3,
    END_TXN.key: 3,
    TXN_OFFSET_COMMIT.key: 3,
}
_CONNECT_S: Final = 10.0
ANSWER_S: Final = 30.0
_SESSION_SHARE: Final = 0.85  # of a login's lifetime, as Kafka's own clients take it
_NO_LOGIN_HERE: Final = 34  # ILLEGAL_SASL_STATE
_OTHER_MECHANISMS: Final = 33
_MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
_FOREVER: Final = timedelta()
_FIRST: Final = (0, 0)  # versions of ApiVersions, before its answer says which there are
_LENGTH: Final = struct.Struct(">i")
_JOINED_BYTES: Final = 64 * 1024  # a small request is one packet


class BrokerConnection:
    """A socket to one broker, with at most one request in flight."""

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        security: Security | None = None,
        *,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._answer_s = answer_s
        self._address = f"{host}:{port}"
        self._client_id = client_id.encode()
        self._security = security or Security()
        self._correlation_id = 0
        self._awaited: tuple[int, int] | None = None  # the API and version of the request under way
        self._theirs: dict[int, tuple[int, int]] = {}
        self._good_until = float("inf")
        self._is_new = True
        self._socket = _connect(host, port, answer_s)
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
        """Whether a new connection is needed: this one is broken, or its login expires soon."""
        return self._awaited is None and time.monotonic() > self._good_until

    @property
    def has_buffered(self) -> bool:
        """Whether there is data to read that no poll of the socket shows, because TLS has read it already."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def version(self, api_key: int, up_to: int | None = None) -> int:
        """The newest version of an API that both sides support; `up_to` in the place of the newest that this client
        speaks otherwise.
        """
        oldest, newest = known_versions(api_key)
        oldest, newest = _SPOKEN_FROM.get(api_key, oldest), up_to or _SPOKEN_UP_TO.get(api_key, newest)
        their_oldest, their_newest = self._theirs.get(api_key, _FIRST if api_key == API_VERSIONS.key else (0, -1))
        version = min(newest, their_newest)
        if version < max(oldest, their_oldest):
            raise Refused(f"{self._address} supports no version of API {api_key} that this client does", 35)
        return version

    def serves(self, api_key: int) -> bool:
        """Whether the broker has an API at all."""
        return api_key in self._theirs

    def call(self, api_key: int, values: Values, *, timeout_s: float | None = None, up_to: int | None = None) -> Any:
        """The response to a request, as kio's class for the version used with this broker (`version`)."""
        self._socket.settimeout(self._answer_s if timeout_s is None else timeout_s)
        self.send(api_key, values, up_to=up_to)
        return self.receive()

    def send(self, api_key: int, values: Values, *, up_to: int | None = None) -> None:
        """Send a request of plain values; fields that the version does not have are left out."""
        self.send_written(api_key, [write_request(api_key, self.version(api_key, up_to), values)], up_to=up_to)

    def send_written(self, api_key: int, body: Sequence[Buffer], *, up_to: int | None = None) -> None:
        """Send a request whose body is already encoded in `version`; it is not copied."""
        assert self._awaited is None, "one request at a time"
        self._correlation_id += 1
        version = self.version(api_key, up_to)
        size = sum(len(part) for part in body)
        head = request_head(
            api_key, version, self._correlation_id, self._client_id, size, is_flexible=is_flexible(api_key, version)
        )
        parts = [head, *body]
        try:
            for part in [b"".join(parts)] if size <= _JOINED_BYTES else parts:
                self._socket.sendall(part)
        except OSError as error:
            raise self._lost(error) from None
        self._awaited = api_key, version

    def ask_written(self, api_key: int, body: Buffer) -> memoryview:
        """The undecoded body of the response to such a request, in a version without tagged fields."""
        self.send_written(api_key, [body])
        self._awaited = None
        return self._receive_frame()[_LENGTH.size :]

    def receive(self) -> Any:
        assert self._awaited is not None, "no request was sent"
        (api_key, version), self._awaited = self._awaited, None
        frame = self._receive_frame()
        try:
            return read_response(api_key, version, frame)
        except MalformedAnswer as error:
            raise self._corrupt(f"{self._address} sent a response that cannot be read: {error}") from None

    def _receive_frame(self) -> memoryview:
        """A response from its correlation id on, which has been checked."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if not 4 <= length <= _MAX_ANSWER_BYTES:
            raise self._corrupt(f"{self._address} announces a response of {length} bytes")
        frame = self._read(length)
        (answered,) = _LENGTH.unpack_from(frame)
        if answered != self._correlation_id:
            raise self._corrupt(f"{self._address} answered with correlation id {answered}, not {self._correlation_id}")
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
        return memoryview(buffer).toreadonly()

    def _lost(self, why: object) -> BarnabasError:
        self._good_until = float("-inf")
        if self._is_new and isinstance(why, ssl.SSLError) and "alert" in tls_words(why):
            return TlsFailed(f"{self._address} refused TLS: {tls_words(why)}; does it require a client certificate?")
        hint = ""
        if self._is_new and self._theirs and self._security.login is None:
            hint = "; does it require a login (security.protocol sasl_plaintext or sasl_ssl)?"
        return Unreachable(f"lost the connection to {self._address}: {why}{hint}")

    def _corrupt(self, message: str) -> CorruptRecord:
        self._good_until = float("-inf")
        return CorruptRecord(message)

    def _start_tls(self, context: ssl.SSLContext, host: str, port: int) -> None:
        self._socket.settimeout(min(_CONNECT_S, self._answer_s))
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message.rstrip(".")
            raise TlsFailed(f"{self._address} is not trusted: {why}; see ssl.ca.location") from None
        except TimeoutError as error:
            raise Unreachable(f"TLS failed with {self._address}: {error}") from None
        except OSError as error:
            if _speaks_plaintext(host, port, self._client_id.decode()):
                raise TlsFailed(
                    f"{self._address} does not use TLS: security.protocol should be plaintext or sasl_plaintext"
                ) from None
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                raise TlsFailed(f"TLS failed with {self._address}: {tls_words(error)}") from None
            raise Unreachable(f"TLS failed with {self._address}: {error}") from None
        self._socket.settimeout(self._answer_s)

    def _ask_versions(self, host: str, port: int) -> dict[int, tuple[int, int]]:
        try:
            answer = self.call(API_VERSIONS.key, {})
        except (Unreachable, CorruptRecord):
            if self._security.tls is None and _speaks_tls(host, port):
                raise TlsFailed(f"{self._address} uses TLS: security.protocol should be ssl or sasl_ssl") from None
            raise
        self._is_new = True
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _log_in(self, login: Login) -> None:
        if SASL_HANDSHAKE.key not in self._theirs:
            raise self._needs_no_login()
        answer = self.call(SASL_HANDSHAKE.key, {"mechanism": login.mechanism})
        if int(answer.error_code) == _NO_LOGIN_HERE:
            raise self._needs_no_login()
        if int(answer.error_code) == _OTHER_MECHANISMS:
            offered = ", ".join(answer.mechanisms) or "nothing"
            raise LoginFailed(f"{self._address} does not accept logins by {login.mechanism}: it offers {offered}")
        if int(answer.error_code) != 0:
            raise LoginFailed(f"{self._address} refused the login: {words_of(answer.error_code)}")
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
        answer = self.call(SASL_AUTHENTICATE.key, {"auth_bytes": message})
        if int(answer.error_code) != 0:
            why = answer.error_message or words_of(answer.error_code)
            raise LoginFailed(f"{self._address} refused {login}: {' '.join(why.split())}")
        return answer

    def _needs_no_login(self) -> LoginFailed:
        wanted = "plaintext" if self._security.tls is None else "ssl"
        return LoginFailed(f"{self._address} does not use SASL: security.protocol should be {wanted}")


def _connect(host: str, port: int, answer_s: float) -> socket.socket:
    try:
        connected = socket.create_connection((host, port), min(_CONNECT_S, answer_s))
    except OSError as error:
        raise Unreachable(f"cannot connect to {host}:{port}: {error}") from None
    connected.settimeout(answer_s)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _speaks_plaintext(host: str, port: int, client_id: str) -> bool:
    """Whether a broker with which TLS failed answers without TLS."""
    try:
        BrokerConnection(host, port, client_id).close()
    except BarnabasError:
        return False
    return True


def _speaks_tls(host: str, port: int) -> bool:
    """Whether a broker that closed a plaintext connection speaks TLS; its certificate is not checked."""
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
