"""What every call goes through: who calls, what it sends, what a refusal becomes.

Messages come and leave as bytes, so that a large one is read or written on a thread: nobody holds the loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError, Message

from barnabas.core.access.certificates import MappingRule, user_of
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.metadata.records import MetadataRecord, RemoveScramCredentialRecord, ScramCredentialRecord
from barnabas.edge.grpc.statuses import (
    TooManyCalls,
    Unauthenticated,
    message_of,
    status_of,
    trailing_of,
)
from barnabas.runtime.clock import Clock
from barnabas.runtime.offload import Offload
from barnabas.services.authentication import Identity
from barnabas.services.call_quotas import CallQuotas, Use, client_id_of
from barnabas.services.session import Principal, Session

LISTENER: Final = "GRPC"
MAX_CERTIFICATES: Final = 1000
LARGE_BYTES: Final = 64 * 1024
"""A larger message is read, or written, on a thread."""
M = TypeVar("M", bound=Message)

T = TypeVar("T")

Unary = Callable[["Call", bytes], Awaitable[Message]]
Streaming = Callable[["Call"], Coroutine[Any, Any, None]]
CLIENT_ID_KEY: Final = "barnabas-client-id"
_OF_LOGINS: Final = (RemoveScramCredentialRecord, ScramCredentialRecord)


class Authenticator(Protocol):
    """Says who a caller is, by what is in its metadata."""

    async def authenticate(self, scheme: str, credentials: str, *, peer: tuple[str, int]) -> Identity:
        """The caller of ``authorization: <scheme> <credentials>``, the scheme in small letters; `Unauthenticated` if
        they are not valid.
        """
        ...

    def still_counts(self, identity: Identity) -> bool:
        """Whether somebody who has logged in would be let in again by the same."""
        ...


class Call:
    """One call: its client, and how to read from it and write to it."""

    def __init__(self, context: Any, session: Session, offload: Offload, quotas: CallQuotas) -> None:
        self._context = context
        self._offload = offload
        self.session = session
        self.quotas = quotas

    @property
    def time_left_s(self) -> float | None:
        """Until the client's deadline; None: it has none."""
        left: float | None = self._context.time_remaining()
        return left

    def timeout_ms(self, asked_ms: int, *, default_ms: int) -> int:
        """How long to wait, by what the request says and the deadline of the call."""
        if asked_ms < 0:
            raise InvalidRequest(f"timeout_ms is {asked_ms}; it must not be negative")
        wait_ms = asked_ms or default_ms
        left_s = self.time_left_s
        return wait_ms if left_s is None else max(min(wait_ms, int(left_s * 1000)), 1)

    async def parse(self, kind: type[M], data: bytes) -> M:
        """A message of this kind."""
        try:
            if len(data) <= LARGE_BYTES:
                return _parse(kind, data)
            return await self._offload.run(lambda: _parse(kind, data))
        except DecodeError:
            raise InvalidRequest(f"the message is no {kind.__name__}") from None

    async def read(self, kind: type[M]) -> M | None:
        """The next message of the client; None when it sends no more."""
        data = await self._context.read()
        return None if data is grpc.aio.EOF else await self.parse(kind, data)

    async def pace(self, use: Use, size: int = 0) -> None:
        """Count bytes of a stream, and hold it while its caller is over a quota."""
        self.quotas.count(self.session, use, size)
        await self.quotas.wait_admitted(self.session, use)

    async def measured(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Work of a stream in a task of its own, whose processor time counts for the caller's quota."""
        return await self.quotas.measure_long(self.session, work)

    async def write(self, message: Message, *, is_large: bool = False) -> None:
        """Send a message; waits while the client does not read. `is_large`: worth a thread."""
        if is_large:
            await self._context.write(await self._offload.run(message.SerializeToString))
        else:
            await self._context.write(message.SerializeToString())


class Calls:
    """Wraps the methods of the service."""

    def __init__(
        self,
        offload: Offload,
        *,
        authenticator: Authenticator | None,
        uses_certificates: bool,
        max_streams: int,
        clock: Clock,
        quotas: CallQuotas,
        rules: Sequence[MappingRule] = (),
    ) -> None:
        self._offload = offload
        self._authenticator = authenticator
        self._uses_certificates = uses_certificates
        self._max_streams = max_streams
        self._clock = clock
        self._quotas = quotas
        self._rules = rules
        self._open: dict[Session, asyncio.Timeout] = {}
        self.streams = 0

    def unary(self, method: Unary, use: Use = Use.TIME) -> Callable[[bytes, Any], Awaitable[bytes]]:
        """A method with one request and one response."""
        quotas = self._quotas

        async def handle(data: bytes, context: Any) -> bytes:
            session: Session | None = None
            try:
                session = await self._session(context)
                quotas.admit(session, use)
                if use is Use.PRODUCING:
                    quotas.count(session, use, len(data))
                call = Call(context, session, self._offload, quotas)
                response = await quotas.measure(session, lambda: method(call, data))
                size = response.ByteSize()
                if use is Use.CONSUMING:
                    quotas.count(session, use, size)
                if size <= LARGE_BYTES:
                    return bytes(response.SerializeToString())
                return bytes(await self._offload.run(response.SerializeToString))
            except BarnabasError as error:
                await _abort(context, error, session)
                raise AssertionError("abort raises") from error

        return handle

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Follow the metadata: end the streams of users who are gone, or have another password."""
        if self._open and any(isinstance(each, _OF_LOGINS) for each in records):
            for session, limit in list(self._open.items()):
                try:
                    session.check_login()
                except Unauthenticated:
                    limit.reschedule(asyncio.get_running_loop().time())

    def streaming(self, method: Streaming) -> Callable[[Any, Any], Awaitable[None]]:
        """A method with a stream in each direction, or of responses alone: then `read` has the one request."""

        async def handle(_: Any, context: Any) -> None:
            if self.streams >= self._max_streams:
                busy = TooManyCalls(f"this node serves {self._max_streams} streams already (grpc.max.streams)")
                await _abort(context, busy)
            self.streams += 1
            try:
                session = await self._session(context)
                await self._run(method, Call(context, session, self._offload, self._quotas))
            except BarnabasError as error:
                await _abort(context, error)
            except BaseExceptionGroup as group:
                refusal = first_refusal(group)
                if refusal is None:
                    raise
                await _abort(context, refusal)
            finally:
                self.streams -= 1

        return handle

    async def _run(self, method: Streaming, call: Call) -> None:
        """A stream, which ends with the login that it was opened by."""
        session = call.session
        ends_at_ms = session.expires_at_ms
        left_s = None if ends_at_ms is None else max((ends_at_ms - self._clock.now_ms()) / 1000, 0)
        limit = asyncio.timeout(left_s)
        try:
            async with limit:
                self._open[session] = limit
                await call.measured(lambda: method(call))
        except TimeoutError:
            if not limit.expired():
                raise
            session.check_login()
            raise Unauthenticated("the token has expired; open the stream again with another") from None
        finally:
            self._open.pop(session, None)

    def watching(self, method: Callable[[Call, bytes], Awaitable[None]]) -> Callable[[bytes, Any], Awaitable[None]]:
        """A method with one request and a stream of responses."""

        async def handle(data: bytes, context: Any) -> None:
            async def run(call: Call) -> None:
                await method(call, data)

            await self.streaming(run)(None, context)

        return handle

    async def _session(self, context: Any) -> Session:
        session = Session(listener=LISTENER, peer=_peer(context.peer()), local=("", 0))
        given = dict(context.invocation_metadata() or ())
        session.client_id = client_id_of(given.get(CLIENT_ID_KEY), given.get("user-agent"))
        authorization = given.get("authorization")
        if authorization is not None:
            identity = await self._authenticate(str(authorization), session.peer)
            session.principal, session.expires_at_ms = identity.principal, identity.expires_at_ms
            session.check_login = partial(self._check_login, identity)
        elif self._uses_certificates:
            session.principal = self._certified(context.auth_context())
        elif self._authenticator is not None:
            raise Unauthenticated("send the metadata 'authorization: Basic ...' or 'authorization: Bearer ...'")
        return session

    def _check_login(self, identity: Identity) -> None:
        assert self._authenticator is not None
        if not self._authenticator.still_counts(identity):
            raise Unauthenticated("the user was deleted, or its password changed; open the stream again")

    def _certified(self, context: Mapping[str, Sequence[bytes]]) -> Principal:
        certificates = context.get("x509_pem_cert") or ()
        subject = _subject_of(certificates[0]) if certificates else ""
        if not subject:
            raise Unauthenticated("the client has no certificate, or it names nobody")
        return Principal("User", user_of(subject, self._rules))

    async def _authenticate(self, authorization: str, peer: tuple[str, int]) -> Identity:
        scheme, _, credentials = authorization.partition(" ")
        if self._authenticator is None:
            raise Unauthenticated("this node checks no passwords or tokens: leave out the metadata 'authorization'")
        if not credentials.strip():
            raise Unauthenticated("the metadata 'authorization' has no credentials: 'Basic ...' or 'Bearer ...'")
        return await self._authenticator.authenticate(scheme.lower(), credentials.strip(), peer=peer)


def _parse(kind: type[M], data: bytes) -> M:
    message: M = kind.FromString(data)
    return message


def _peer(text: str) -> tuple[str, int]:
    """The address in gRPC's words for it, as in ``ipv4:127.0.0.1:4711``."""
    _, _, address = unquote(text).partition(":")
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if port.isdecimal() else 0


@lru_cache(maxsize=MAX_CERTIFICATES)
def _subject_of(pem: bytes) -> str:
    """The distinguished name of a certificate, which gRPC has checked."""
    from cryptography import x509  # noqa: PLC0415 - few need it, and it takes long to import

    return x509.load_pem_x509_certificate(pem).subject.rfc4514_string()


def first_refusal(group: BaseExceptionGroup[BaseException]) -> BarnabasError | None:
    """The refusal among the errors of a stream's tasks; None if something else went wrong."""
    refusals, rest = group.split(BarnabasError)
    if refusals is None or rest is not None:
        return None
    error: BaseException = refusals
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, BarnabasError)
    return error


async def _abort(context: Any, error: BarnabasError, session: Session | None = None) -> None:
    retry_ms = 0 if session is None else session.throttle_ms
    await context.abort(status_of(error), message_of(error), trailing_metadata=trailing_of(error, retry_ms=retry_ms))


async def pause(seconds: float) -> None:
    """Wait before trying again."""
    await asyncio.sleep(seconds)
