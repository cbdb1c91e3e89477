"""HTTP of one node: its address, the plain server while it starts, and the API once clients of Kafka are let in.

The socket is bound with the other listeners and answers probes at once, so that a long recovery looks alive. What is
only there for HTTP (statistics, the lag of groups, Starlette) is made and loaded after the Kafka port is up, and not at
all where HTTP is off.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.errors import AddressNotAvailable, InvalidConfig
from barnabas.edge.http.basics import Basics
from barnabas.edge.http.exposition import Exposition
from barnabas.edge.http.hosts import HostCheck
from barnabas.edge.http.plain import PlainServer
from barnabas.runtime.connections import Connections
from barnabas.runtime.log_lines import get_logger
from barnabas.services.broker import Broker
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.http_settings import is_loopback, parse_http_listener, requires_metrics_login

if TYPE_CHECKING:
    from ssl import SSLContext

    from barnabas.edge.http.context import Context
    from barnabas.edge.http.tokens import Login, Tokens
    from barnabas.edge.kafka.server import KafkaServer
    from barnabas.node.http_counting import Counted

log = get_logger("barnabas.http", is_limited=False)

BACKLOG: Final = 128
CLOSE_S: Final = 3.0
MIN_TOKEN: Final = 16


class NodeHttp:
    """What a node serves over HTTP: `bind`, `begin`, `serve` once there is a broker, `close`."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._wanted = parse_http_listener(config.http.http_listener)
        self._socket: socket.socket | None = None
        self.address: tuple[str, int] | None = None
        self._basics = Basics()
        self._hosts = HostCheck(
            [*config.http.http_allowed_hosts, self._wanted[0] if self._wanted else "", socket.gethostname()],
            config.http.http_allowed_origins,
        )
        self._plain = PlainServer(self._basics.answer, self._hosts)
        self._broker: Broker | None = None
        self._work: list[asyncio.Task[None]] = []
        self._server: Any = None  # of the API, once it is loaded
        self._serving: asyncio.Task[None] | None = None
        self._context: Context | None = None
        self._tls = _tls_of(config)
        self._metrics_token = _metrics_token_of(config)
        self._tokens: Tokens | None = None  # of those who have logged in, once somebody may
        self.login: Login | None = None  # who checks credentials; None: there is no authentication

    async def begin(self) -> None:
        """Bind the address, if there is one, and answer probes. One that nobody asked for may be taken already."""
        if self._wanted is None:
            return
        host, port = self._wanted
        try:
            self._socket = _bound(host, port)
        except OSError as error:
            if self._config.http.is_given_by_default:
                log.info("HTTP is not served: %s:%d is taken", host, port)
                return
            words = os.strerror(error.errno) if error.errno else str(error)
            raise AddressNotAvailable(
                f"cannot serve HTTP on {host}:{port} ({words}); name another address with http.listener"
            ) from error
        found = self._socket.getsockname()
        self.address = (found[0], found[1])
        self._basics.broker = lambda: self._broker
        self._basics.is_api_coming = self._config.http.http_api_enable
        await self._plain.start(self._socket.dup(), self._tls)

    async def serve(
        self, broker: Broker, kafka: KafkaServer, connections: Connections, tasks: asyncio.TaskGroup
    ) -> None:
        """Serve everything: clients of Kafka are let in."""
        if self._socket is None:
            return
        from barnabas.node.http_counting import Counted  # noqa: PLC0415 - not needed where HTTP is not served

        counted = Counted.of(broker)
        if broker.authentication is not None:
            self.login = broker.authentication.callers()
        settings = self._config.http
        is_local = self._wanted is not None and is_loopback(self._wanted[0])
        if requires_metrics_login(settings, is_local=is_local, allows_anonymous=self._config.security.allow_anonymous):
            self._guard_metrics(broker, is_private=is_local or self._tls is not None)
        self._basics.has_partitions = settings.metrics_partitions_enable
        self._basics.exposition = Exposition(broker.metrics, max_series=settings.metrics_max_series)
        self._broker = broker
        self._work = [tasks.create_task(each.run()) for each in (counted.stats, counted.watch, counted.lags)]
        if settings.http_api_enable:
            self._serving = tasks.create_task(self._serve_api(broker, kafka, connections, counted, tasks))
            self._work.append(self._serving)

    def _guard_metrics(self, broker: Broker, *, is_private: bool) -> None:
        from barnabas.edge.http.metrics_access import MetricsAccess  # noqa: PLC0415 - few ask for a login there
        from barnabas.node.http_context import tokens_of  # noqa: PLC0415

        self._tokens = tokens_of(broker)
        self._basics.metrics_access = MetricsAccess(
            broker.access, token=self._metrics_token, login=self.login, tokens=self._tokens, is_private=is_private
        )

    async def _serve_api(
        self,
        broker: Broker,
        kafka: KafkaServer,
        connections: Connections,
        counted: Counted,
        tasks: asyncio.TaskGroup,
    ) -> None:
        """Load what the API is made of, on a thread, and serve it in the place of the plain server."""
        try:
            app, context_of = await broker.threads.background.run(_load_api)
        except ImportError as error:
            log.info("the API is not served: %s; pip install 'barnabas[http]'", error)
            self._basics.is_api_coming = False
            return
        if self._socket is None:
            return
        is_local = self._wanted is not None and is_loopback(self._wanted[0])
        context = self._context = context_of(
            broker,
            kafka,
            connections,
            counted=counted,
            tokens=self._tokens,
            login=self.login,
            is_local=is_local,
            is_private=is_local or self._tls is not None,
        )
        self._work.append(tasks.create_task(context.history.run()))
        api = app.Api(context, self._basics, self._hosts)
        self._server = app.server_of(api.app, self._tls)
        listening = self._socket.dup()
        self._plain.close()  # who comes now waits for the other
        await self._server.run_on(listening)

    def stop(self) -> None:
        """The node begins to stop: it is not ready any more."""
        self._broker = None

    async def close(self) -> None:
        """End all of it."""
        self.stop()
        if self._context is not None:
            self._context.is_stopping.set()
        if self._server is not None and self._serving is not None:
            self._server.stop()  # not cancelled: it has sockets to close
            await asyncio.wait([self._serving], timeout=CLOSE_S)
        for task in self._work:
            task.cancel()
        self._plain.close()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _load_api() -> tuple[ModuleType, Callable[..., Context]]:
    from barnabas.edge.http import app  # noqa: PLC0415 - Starlette, which a node without the API does not load
    from barnabas.node.http_context import context_of  # noqa: PLC0415

    return app, context_of


def _tls_of(config: BrokerConfig) -> SSLContext | None:
    certificate, key = config.http.http_tls_certificate_file, config.http.http_tls_key_file
    if certificate is None or key is None:
        return None
    import ssl  # noqa: PLC0415 - few serve HTTP with TLS

    from barnabas.runtime.tls import CIPHERS  # noqa: PLC0415

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(CIPHERS)
    try:
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except OSError as error:  # of which those of TLS are
        raise InvalidConfig(
            f"http.tls.certificate.file and http.tls.key.file cannot be used: {error.strerror or error}"
        ) from None
    return context


def _metrics_token_of(config: BrokerConfig) -> str | None:
    path = config.http.metrics_token_file
    if path is None:
        return None
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"metrics.token.file: {path} cannot be read ({error})") from None
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise InvalidConfig(
            f"metrics.token.file: {path} needs a token of at least {MIN_TOKEN} letters: openssl rand -hex 32"
        )
    return token


def _bound(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found
