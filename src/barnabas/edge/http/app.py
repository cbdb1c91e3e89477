"""The API as an application of Starlette, and the server that runs it. Imported only where the API is on.

Each request: Host and Origin are checked, then who asks (a token, or anybody where only this machine can ask and there
is no authentication), then its body is read within its limit, then its route is called. Every refusal is JSON with
Kafka's code and a sentence; anything else is a bug, told as one, and logged.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import ceil
from socket import socket
from ssl import SSLContext
from typing import Any, Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from barnabas.core.errors import BarnabasError
from barnabas.edge.http.basics import Basics
from barnabas.edge.http.calling import Call, Route
from barnabas.edge.http.context import Context
from barnabas.edge.http.hosts import HostCheck
from barnabas.edge.http.openapi import PREFIX, describe
from barnabas.edge.http.plain import PlainRequest
from barnabas.edge.http.problems import HttpRefusal, bad, problem_of, status_of
from barnabas.edge.http.routes import ALL
from barnabas.edge.http.routes.cluster import own_version
from barnabas.edge.http.tokens import NotAuthenticated
from barnabas.runtime.log_lines import get_logger
from barnabas.services.call_quotas import Use, client_id_of
from barnabas.services.session import Session

log = get_logger("barnabas.http")

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
MAX_PARAMETERS: Final = 200
MAX_CONCURRENT: Final = 500
GRACE_S: Final = 1
BODY_TIMEOUT_S: Final = 30.0
LISTENER: Final = "HTTP"
CLIENT_ID: Final = "barnabas-http"
CLIENT_ID_HEADER: Final = "barnabas-client-id"
TOO_MANY: Final = 429
SAFE: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


class Throttled:
    """How long the caller of a request has to wait, once it is known who it is."""

    def __init__(self) -> None:
        self.session: Session | None = None

    @property
    def retry_ms(self) -> int:
        return 0 if self.session is None else self.session.throttle_ms


class Api:
    """The application of one node."""

    def __init__(self, context: Context, basics: Basics, hosts: HostCheck) -> None:
        self._context = context
        self._basics = basics
        self._hosts = hosts
        self._description = msgspec.json.encode(describe(ALL, version=own_version()))
        routes = [StarletteRoute(PREFIX + each.path, self._endpoint(each), methods=[each.method]) for each in ALL]
        routes.append(StarletteRoute(f"{PREFIX}/openapi.json", self._openapi))
        routes += [StarletteRoute(path, self._basic) for path in ("/metrics", "/healthz", "/readyz")]
        self.app = Starlette(
            routes=routes,
            exception_handlers={HTTPException: self._not_found},
        )

    def _endpoint(self, route: Route) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            throttled = Throttled()
            try:
                self._check_hosts(request)
                session = throttled.session = self._session(request, is_open=route.is_open)
                query = _query(request)
                _check_known(request, route, query)
                answer = await self._carry_out(route, request, session, query)
            except (BarnabasError, HttpRefusal) as error:
                return refusal(error, retry_ms=throttled.retry_ms)
            except Exception:
                # A bug, and seen: but it ends this request only, and its text is not for strangers.
                log.exception("%s %s failed", request.method, request.url.path)
                return refusal(HttpRefusal(500, "the request failed on this node; its log says why", code=-1))
            return answer

        return endpoint

    async def _carry_out(
        self, route: Route, request: Request, session: Session, query: dict[str, list[str]]
    ) -> Response:
        quotas = self._context.quotas
        if not route.is_open:  # who has not logged in yet has no quota
            quotas.admit(session, route.use)
        body = None
        if route.takes is not None:
            data = await _body(request)
            if route.use is Use.PRODUCING:
                quotas.count(session, Use.PRODUCING, len(data))
            body = _decoded(data, route.takes)
        call = Call(session, request.path_params, query, request.headers, body, request.is_disconnected)
        found = await quotas.measure(session, lambda: route.handle(self._context, call))
        if isinstance(found, Response):
            return found
        answer = _json(found, route.status)
        if route.use is Use.CONSUMING:
            quotas.count(session, Use.CONSUMING, len(answer.body))
        return answer

    async def _openapi(self, request: Request) -> Response:
        try:
            self._check_hosts(request)
        except HttpRefusal as error:
            return refusal(error)
        return Response(self._description, media_type="application/json", headers=SAFE)

    async def _basic(self, request: Request) -> Response:
        try:
            self._check_hosts(request)
            query = _query(request)
        except HttpRefusal as error:
            return refusal(error)
        headers = request.headers
        found = await self._basics.answer(
            PlainRequest(
                request.url.path, query, headers.get("accept", ""), headers.get("authorization", ""), _peer_of(request)
            )
        )
        return Response(found.body, found.status, {**SAFE, **found.headers, "Content-Type": found.content_type})

    async def _not_found(self, _: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        words = (
            "this path takes other methods" if status == 405 else f"there is nothing here; see {PREFIX}/openapi.json"
        )
        return refusal(HttpRefusal(status, words))

    def _check_hosts(self, request: Request) -> None:
        reason = self._hosts.refuse(request.headers.get("host"), request.headers.get("origin"))
        if reason is not None:
            raise HttpRefusal(403, reason, code=31)

    def _session(self, request: Request, *, is_open: bool) -> Session:
        session = Session(listener=LISTENER, peer=_peer_of(request), local=("", 0))
        session.client_id = client_id_of(request.headers.get(CLIENT_ID_HEADER), CLIENT_ID)
        if self._context.login is not None and not self._context.is_private:
            raise HttpRefusal(
                403,
                "without TLS the API is for this machine alone, since what is sent could be read on the way: set "
                "http.tls.certificate.file and http.tls.key.file",
                code=31,
            )
        if is_open:
            return session
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if self._context.login is not None:
            if scheme.lower() != "bearer" or not token:
                raise NotAuthenticated(f"log in first: POST {PREFIX}/login")
            self._context.identify(self._context.login, session, token.strip())
        elif not self._context.is_local:
            raise HttpRefusal(
                403,
                "without authentication the API is for this machine alone: set http.listener to a loopback address",
                code=31,
            )
        return session


def _peer_of(request: Request) -> tuple[str, int]:
    client = request.client
    return ("", 0) if client is None else (client.host, client.port)


async def _body(request: Request) -> bytearray:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # what a form of another page can send without asking is none
        raise HttpRefusal(415, "the body must be application/json")
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for piece in request.stream():
                data += piece
                if len(data) > MAX_BODY_BYTES:
                    raise HttpRefusal(413, f"the body is over {MAX_BODY_BYTES} bytes", code=10)
    except (TimeoutError, ClientDisconnect):
        raise HttpRefusal(408, "the body did not come in time", code=7) from None
    return data


def _decoded(data: bytearray, takes: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=takes)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise bad(f"the body cannot be read: {error}") from None


def _check_known(request: Request, route: Route, query: dict[str, list[str]]) -> None:
    """Refuse what the route does not take: a dry run that is asked for in the wrong place must not be a real one."""
    known = [each.name for each in route.params]
    unknown = next((name for name in query if name not in known), None)
    if unknown is not None:
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        where = "; put it into the body" if route.takes is not None and unknown == "validate_only" else ""
        raise bad(f"there is no parameter {unknown!r} here: {takes}{where}")
    if route.takes is None and request.method != "GET" and _has_body(request):
        raise bad("there is no body here: parameters, as validate_only, go into the query")


def _has_body(request: Request) -> bool:
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"


def _query(request: Request) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    pairs = request.query_params.multi_items()
    if len(pairs) > MAX_PARAMETERS:
        raise bad(f"more than {MAX_PARAMETERS} parameters")
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _json(answer: Any, status: int) -> Response:
    return Response(msgspec.json.encode(answer), status, SAFE, "application/json")


def refusal(error: BarnabasError | HttpRefusal, *, retry_ms: int = 0) -> Response:
    """A refusal as an answer; `retry_ms`: how long the caller has to wait for a quota."""
    status = status_of(error)
    headers = {**SAFE, "WWW-Authenticate": "Bearer"} if status == 401 else SAFE
    if status == TOO_MANY and retry_ms > 0:
        headers = {**SAFE, "Retry-After": str(ceil(retry_ms / 1000))}
    return Response(msgspec.json.encode(problem_of(error)), status, headers, "application/json")


class Server(uvicorn.Server):
    """A server that leaves signals to the node, and ends when it is told to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are not ours."""
        yield

    async def main_loop(self) -> None:
        """Wait to be stopped: looking ten times a second whether it is time would keep an idle node awake."""
        await self._stopping.wait()

    def stop(self) -> None:
        """Take no more clients, and end soon."""
        self.should_exit = True
        self._stopping.set()

    async def run_on(self, listening: socket) -> None:
        """Serve the clients of a socket until `stop`."""
        try:
            await self.serve(sockets=[listening])
        finally:  # also of a node that falls: a loop does not close over sockets that are served
            for server in getattr(self, "servers", ()):
                server.close()
            listening.close()


def server_of(app: Any, tls: SSLContext | None = None) -> Server:
    """The server for an application."""
    config = uvicorn.Config(
        app,
        loop="none",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONCURRENT,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_S,
        h11_max_incomplete_event_size=64 * 1024,
    )
    config.load()
    config.ssl = tls
    return Server(config)
