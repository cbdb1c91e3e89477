"""A connection whose client has to log in: SaslHandshake 0 and 1, SaslAuthenticate 0 to 2, and bare tokens.

Which request is expected when is decided in `core.access.login_flow`, who the client is by `services.authentication`.
Until it is known nothing else is served. A login that counts for a while only is repeated on the same connection
(KIP-368); after its time is over any other request closes it.

Differs from Kafka: between handshake and token any request but these two is not answered before the connection closes.
"""

import asyncio
from typing import Any, Final, Protocol

from barnabas.core.access.login_flow import LoginFlow, Verdict
from barnabas.core.errors import BarnabasError, IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from barnabas.edge.kafka.answering import carry_out, write
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import api_versions
from barnabas.edge.kafka.registry import SERVED, listeners_of, served_on
from barnabas.runtime.connections import Answer, Connection, Handler
from barnabas.runtime.request_counts import RequestCounts
from barnabas.services.authentication import Authentication, Exchange, Identity, Reply
from barnabas.services.authentication.authentication import REFUSED
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE, Api
from barnabas.wire.frame import LENGTH_SIZE, RequestHeader, read_request_header
from barnabas.wire.requests import read_request
from barnabas.wire.responses import Values

MIN_INTERVAL_S: Final = 1.0
"""A client logs in again at most once in this time."""


class Client(Handler, Protocol):
    """Serves a client that is known."""

    @property
    def session(self) -> Session:
        """The client."""
        ...

    def count(self, api: Api, size: int) -> None:
        """Count a request that is not handled there."""
        ...


class KafkaLogin:
    """Handles the frames of one connection until its client is known; then `client` does."""

    def __init__(
        self,
        broker: Broker,
        authentication: Authentication,
        connection: Connection,
        client: Client,
        *,
        again_by: str | None = None,
    ) -> None:
        self._broker = broker
        self._authentication = authentication
        self._connection = connection
        self._client = client
        self._is_again = again_by is not None
        self._listener = connection.listener
        self._flow = LoginFlow(authentication.mechanisms(self._listener), again_by=again_by)
        self._exchange: Exchange | None = None
        self._served = served_on(listeners_of(client.session))
        if again_by is None:
            connection.begin_authentication(authentication.settings(self._listener).sasl_server_max_receive_size)

    def may_overlap(self, frame: memoryview) -> bool:  # noqa: ARG002
        """Nothing may: one message of a login follows another."""
        return False

    def handle(self, frame: memoryview) -> Any:
        """See `runtime.connections.Handler`."""
        if self._flow.is_bare:
            return self._take_token(bytes(frame), None)
        header = read_request_header(frame, 0, len(frame), self._served)
        self._client.count(header.api, len(frame))
        verdict = self._flow.judge(header.api.key)
        if verdict is Verdict.HANG_UP or (verdict is Verdict.REFUSE and header.api not in _SHORT):
            raise IllegalSaslState(f"{header.api.name} came before the client was authenticated")
        if header.api is API_VERSIONS and header.version not in SERVED[API_VERSIONS.key].versions:
            return api_versions.answer_unknown_version(header, listeners_of(self._client.session))
        request = read_request(header, frame, len(frame))
        if verdict is Verdict.REFUSE:
            return self._end(header, request, {"error_code": IllegalSaslState.kafka_code})
        if header.api is API_VERSIONS:
            return self._tell_versions(header, request)
        if header.api is SASL_HANDSHAKE:
            return self._take_handshake(header, request)
        return self._take_token(request.auth_bytes, header)

    async def _tell_versions(self, header: RequestHeader, request: Any) -> Answer:
        values = await carry_out(self._broker, header, request, Asked(header.version, self._client.session))
        if not values.get("error_code"):
            self._flow.note_versions()
        return [*await write(header, request, values)]

    async def _take_handshake(self, header: RequestHeader, request: Any) -> Answer:
        mechanisms = list(self._authentication.mechanisms(self._listener))
        if not self._flow.choose(request.mechanism, version=header.version):
            values = {"error_code": UnsupportedSaslMechanism.kafka_code, "mechanisms": mechanisms}
            return await self._end(header, request, values)
        self._exchange = self._authentication.begin(
            self._listener, self._flow.mechanism, address=self._connection.peer[0]
        )
        return [*await write(header, request, {"error_code": 0, "mechanisms": mechanisms})]

    async def _take_token(self, token: bytes, header: RequestHeader | None) -> Answer:
        """The answer to a token; one without a header is answered by one."""
        assert self._exchange is not None, "the mechanism was chosen"
        try:
            if not self._flow.is_same_mechanism:
                raise SaslAuthenticationFailed("a client that logs in again must use the same mechanism")
            reply = await self._exchange.take(token)
            if reply.identity is not None:
                self._check_same(reply.identity)
        except SaslAuthenticationFailed as refusal:
            return await self._fail(refusal, header)
        lifetime_ms = None if reply.identity is None else self._let_in(reply.identity)
        if header is None:
            return [len(reply.message).to_bytes(LENGTH_SIZE, "big") + reply.message]
        return [*await write(header, None, _accepted(reply, lifetime_ms))]

    def _check_same(self, identity: Identity) -> None:
        if self._is_again and identity.principal != self._client.session.principal:
            raise SaslAuthenticationFailed("a client that logs in again must be the same user")

    def _let_in(self, identity: Identity) -> int | None:
        """From now on the client is served; returns for how long, if not for good."""
        self._flow.finish()
        self._authentication.note_success()
        self._client.session.principal = identity.principal
        self._client.session.is_node = identity.is_node
        lifetime_ms = self._authentication.lifetime_ms(self._listener, self._flow.mechanism, identity)
        client: Handler = self._client
        if lifetime_ms is not None:
            client = _ExpiringClient(self, lifetime_ms / 1000)
        self._connection.end_authentication(client)
        return lifetime_ms

    async def _fail(self, refusal: SaslAuthenticationFailed, header: RequestHeader | None) -> Answer:
        self._flow.fail()
        is_told = await self._authentication.hold_back(refusal, listener=self._listener, peer=self._connection.peer)
        if header is None or not is_told:
            self._connection.close()
            return []
        values = {"error_code": SaslAuthenticationFailed.kafka_code, "error_message": REFUSED, "auth_bytes": b""}
        return await self._end(header, None, values)

    async def _end(self, header: RequestHeader, request: Any, values: Values) -> Answer:
        """Answer, and close the connection behind it."""
        answer: Answer = [*await write(header, request, values)]
        self._connection.close()
        return answer

    def again(self) -> "KafkaLogin":
        """The next login on the same connection."""
        return KafkaLogin(
            self._broker, self._authentication, self._connection, self._client, again_by=self._flow.mechanism
        )

    @property
    def session(self) -> Session:
        """The client, who is not known yet."""
        return self._client.session

    @property
    def counts(self) -> RequestCounts:
        """See `runtime.connections.Handler`."""
        return self._client.counts

    @property
    def client(self) -> Client:
        return self._client

    @property
    def connection(self) -> Connection:
        return self._connection


class _ExpiringClient:
    """Handles the frames of a client whose login counts for a while."""

    def __init__(self, login: KafkaLogin, lifetime_s: float) -> None:
        now = asyncio.get_running_loop().time()
        self._login = login
        self._client = login.client
        self._expires_at = now + lifetime_s
        self._again_from = now + MIN_INTERVAL_S
        self.may_overlap = login.client.may_overlap

    @property
    def counts(self) -> RequestCounts:
        """See `runtime.connections.Handler`."""
        return self._login.counts

    def handle(self, frame: memoryview) -> Any:
        """See `runtime.connections.Handler`."""
        now = asyncio.get_running_loop().time()
        if frame[:2] == _HANDSHAKE and now >= self._again_from:
            login = self._login.again()
            self._login.connection.end_authentication(login)
            return login.handle(frame)
        if now >= self._expires_at:
            raise SessionExpired("its login has expired, and it has not logged in again")
        return self._client.handle(frame)


class SessionExpired(BarnabasError):
    """A request of a client whose login no longer counts."""


def _accepted(reply: Reply, lifetime_ms: int | None) -> Values:
    return {
        "error_code": 0,
        "error_message": None,
        "auth_bytes": reply.message,
        "session_lifetime": lifetime_ms or 0,
    }


_SHORT: Final = (SASL_HANDSHAKE, SASL_AUTHENTICATE)
_HANDSHAKE: Final = SASL_HANDSHAKE.key.to_bytes(2, "big")
