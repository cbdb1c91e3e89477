"""The gRPC server of a node: starts after the Kafka port, stops before it.

Runs on the node's loop. Every limit is a setting (`grpc.*`); HTTP/2 pings are allowed every 30 s, which is what load
balancers and phones need, where gRPC itself would close the connection.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from barnabas.core.access.certificates import parse_mapping_rules
from barnabas.core.errors import AddressNotAvailable, InvalidConfig
from barnabas.edge.grpc.authenticating import CallerLogin
from barnabas.edge.grpc.calls import Authenticator, Calls
from barnabas.edge.grpc.consuming import Consumption
from barnabas.edge.grpc.producing import Producing
from barnabas.edge.grpc.routing import Routes
from barnabas.edge.grpc.single import Single
from barnabas.edge.grpc.topics import Administration, Requests
from barnabas.edge.grpc.watching import Watching
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.metrics import Metrics
from barnabas.services.broker import Broker
from barnabas.services.call_quotas import CallQuotas, Use
from barnabas.services.settings.catalogue.grpc_settings import GrpcSettings
from barnabas.v1 import bus_pb2

log = get_logger("barnabas.grpc")

SERVICE: Final = "barnabas.v1.BusService"
STOP_GRACE_S: Final = 1.0
PING_MS: Final = 30_000


class GrpcServer:
    """Serves `BusService`, its health and its reflection."""

    def __init__(self, broker: Broker, tasks: asyncio.TaskGroup, requests: Requests) -> None:
        """`tasks` has what streams that were cancelled leave to be done."""
        settings = broker.config.grpc
        self._settings = settings
        self._tasks = tasks
        self._closing: set[asyncio.Task[None]] = set()
        self._calls = Calls(
            broker.threads.compute,
            authenticator=_authenticator(broker),
            uses_certificates=settings.grpc_tls_client_ca_file is not None,
            max_streams=settings.grpc_max_streams,
            clock=broker.clock,
            quotas=CallQuotas(broker.quotas),
            rules=parse_mapping_rules(broker.config.security.ssl_principal_mapping_rules),
        )
        broker.metadata.subscribe(self._calls.apply)
        self._health = HealthServicer()
        self._server: Any = grpc.aio.server(options=_options(settings), maximum_concurrent_rpcs=settings.grpc_max_calls)
        self._add_service(Routes(broker), requests)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (SERVICE, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME), self._server
        )

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.gauge("grpc_streams", "Streams of gRPC that are open.", lambda: self._calls.streams)

    async def start(self) -> tuple[str, int]:
        """Listen; returns where."""
        address = self._settings.address
        assert address is not None
        host, port = address
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._settings.grpc_tls_certificate_file is None:
                bound = self._server.add_insecure_port(target)
            else:
                bound = self._server.add_secure_port(target, _credentials(self._settings))
        except RuntimeError as error:
            raise AddressNotAvailable(f"cannot serve gRPC on {target}; name another grpc.listener") from error
        await self._server.start()
        for service in ("", SERVICE):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        log.info("gRPC is served on %s:%d", host, bound)
        return host, bound

    async def stop(self) -> None:
        """Take no more calls; those in progress have a moment to end, and what they leave is done."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(STOP_GRACE_S)
        while self._closing:
            await asyncio.wait(list(self._closing))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _add_service(self, routes: Routes, requests: Requests) -> None:
        calls, producing, single = self._calls, Producing(routes), Single(routes)
        topics, watching = Administration(routes, requests), Watching(routes)
        consumption = Consumption(routes, self._spawn)
        unary = grpc.unary_unary_rpc_method_handler
        handlers: dict[str, Any] = {
            "Produce": unary(calls.unary(producing.produce, Use.PRODUCING)),
            "ProduceStream": grpc.stream_stream_rpc_method_handler(calls.streaming(producing.produce_stream)),
            "Consume": grpc.stream_stream_rpc_method_handler(calls.streaming(consumption.consume)),
            "Get": unary(calls.unary(single.get, Use.CONSUMING)),
            "Commit": unary(calls.unary(single.commit)),
            "CreateTopic": unary(calls.unary(topics.create)),
            "DeleteTopic": unary(calls.unary(topics.delete)),
            "ListTopics": unary(calls.unary(topics.list_topics)),
            "DescribeTopic": unary(calls.unary(topics.describe)),
            "Watch": grpc.unary_stream_rpc_method_handler(calls.watching(watching.watch)),
        }
        assert handlers.keys() == {each.name for each in bus_pb2.DESCRIPTOR.services_by_name["BusService"].methods}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))


def _authenticator(broker: Broker) -> Authenticator | None:
    callers = None if broker.authentication is None else broker.authentication.callers()
    return None if callers is None else CallerLogin(callers)


def _options(settings: GrpcSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.grpc_max_request_bytes),
        ("grpc.max_send_message_length", -1),  # a record is sent whole, however large
        ("grpc.so_reuseport", 0),  # or two nodes would share a port without a word
        ("grpc.http2.min_ping_interval_without_data_ms", PING_MS),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_MS),
        ("grpc.keepalive_time_ms", 4 * PING_MS),  # a client that is gone without a word is noticed
        ("grpc.keepalive_timeout_ms", PING_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.max_concurrent_streams", settings.grpc_max_calls),  # of one connection; any more wait for it
    ]


def _credentials(settings: GrpcSettings) -> Any:
    key, certificate, authority = (
        None if path is None else _read(name, path)
        for name, path in (
            ("grpc.tls.key.file", settings.grpc_tls_key_file),
            ("grpc.tls.certificate.file", settings.grpc_tls_certificate_file),
            ("grpc.tls.client.ca.file", settings.grpc_tls_client_ca_file),
        )
    )
    return grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=authority is not None)


def _read(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidConfig(f"{name}: {path} cannot be read ({error.strerror})") from None
