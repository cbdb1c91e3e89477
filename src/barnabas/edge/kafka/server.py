"""The Kafka edge: takes frames from connections, finds the handler, and puts the answer in a frame.

Produce and Fetch, which carry the data, have their own path; everything else goes through its schema, and so does the
Fetch of a listener for controllers, which is one of the quorum. A long request is
read, and a long answer written, in turns with everything else.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from barnabas.edge.kafka.answering import LONG_REQUEST_BYTES, MAX_REQUEST_BYTES, carry_out, write
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.fetching import Fetching
from barnabas.edge.kafka.forwarding import Forwarding
from barnabas.edge.kafka.handlers import api_versions
from barnabas.edge.kafka.producing import Producing
from barnabas.edge.kafka.registry import SERVED, listeners_of, served_on
from barnabas.edge.kafka.reporting import count_refusals, report_requests
from barnabas.runtime.connections import Answer, Connection
from barnabas.runtime.histogram import Histogram
from barnabas.runtime.letting_go import let_go
from barnabas.runtime.metrics import Metrics
from barnabas.runtime.request_counts import RequestCounts
from barnabas.runtime.turns import finish
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import API_VERSIONS, ENVELOPE, FETCH, PRODUCE, Api
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.frame import HeaderReader, RequestHeader
from barnabas.wire.requests import read_request, read_request_in_steps
from barnabas.wire.responses import Values

if TYPE_CHECKING:
    from barnabas.edge.kafka.authenticating import KafkaLogin

ENVELOPE_ROOM: Final = 64 * 1024
"""How much longer an envelope may be than the longest request that fits in it: the caller and the client id."""


class KafkaServer:
    """Serves all Kafka connections of a node."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.producing = Producing(broker)
        self.fetching = Fetching(broker)
        self.forwarding = Forwarding(broker)
        self.counts = [RequestCounts() for _ in range(max(SERVED) + 1)]
        """What is counted of the requests of each API, by key."""

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        report_requests(metrics, self._counts_by_name, self.broker.refusals)

    def _counts_by_name(self) -> dict[str, RequestCounts]:
        return {served.api.name: self.counts[key] for key, served in sorted(SERVED.items())}

    def times(self) -> dict[str, Histogram]:
        """How long produces and fetches take."""
        return {api.name: self.counts[api.key].seconds for api in (PRODUCE, FETCH)}

    def accept(self, connection: Connection) -> KafkaClient | KafkaLogin:
        """See `runtime.connections.Edge`."""
        session = Session(
            listener=connection.listener,
            peer=connection.peer,
            local=connection.local,
            is_for_controllers=self.broker.config.is_for_controllers(connection.listener),
        )
        authentication = self.broker.authentication
        if authentication is None:
            return KafkaClient(self, connection, session)
        from barnabas.edge.kafka.authenticating import KafkaLogin  # noqa: PLC0415 - few nodes ask who their clients are
        from barnabas.runtime.tls import subject_of  # noqa: PLC0415

        if authentication.requires_login(connection.listener):
            client = KafkaClient(self, connection, session)
            return KafkaLogin(self.broker, authentication, connection, client)
        session.principal = authentication.identify(connection.listener, subject_of(connection.tls))
        return KafkaClient(self, connection, session)


class KafkaClient:
    """Handles the frames of one connection."""

    __slots__ = (
        "_all_counts",
        "_asked",
        "_broker",
        "_connection",
        "_fetching",
        "_forwarding",
        "_headers",
        "_producing",
        "_quotas",
        "counts",
        "session",
    )

    def __init__(self, server: KafkaServer, connection: Connection, session: Session) -> None:
        self._broker = server.broker
        self._producing = server.producing
        self._fetching = server.fetching
        self._forwarding = server.forwarding
        self._quotas = server.broker.quotas
        self._all_counts = server.counts
        self.counts = self._asked = server.counts[API_VERSIONS.key]  # until there is a request
        self._connection = connection
        self.session = session
        session.mute = self._mute
        connection.on_lost = session.close
        self._headers = HeaderReader(served_on(listeners_of(self.session)))

    def count(self, api: Api, size: int) -> None:
        """Count a request of this connection that is not handled here."""
        counts = self.counts = self._all_counts[api.key]
        counts.requests += 1
        counts.request_bytes += size

    def may_overlap(self, frame: memoryview) -> bool:
        """Produces may: they are appended without waiting for each other's acknowledgement."""
        return len(frame) >= 2 and frame[0] == 0 and frame[1] == PRODUCE.key

    def handle(self, frame: memoryview) -> Any:
        """See `runtime.connections.Handler`."""
        size, headers, session = len(frame), self._headers, self.session
        if headers.read(frame, size):
            session.client_id = headers.client_id
            session.request = headers.api.name
            self._asked = self._all_counts[headers.api.key]
        counts = self.counts = self._asked
        counts.requests += 1
        counts.request_bytes += size
        if self._quotas.is_on:
            return self._handle_within_quotas(headers.header(), frame, size)
        if headers.api is PRODUCE:
            return self._producing.handle(headers, frame, session)
        return self._dispatch(headers.header(), frame, size)

    def _handle_within_quotas(self, header: RequestHeader, frame: memoryview, size: int) -> Any:
        """The same for clients that may have quotas: count what they use, and hold those over one."""
        session, quotas, headers = self.session, self._quotas, self._headers
        quotas.begin(session)
        if header.api is PRODUCE:
            quotas.produce(session, size)
            return quotas.measure(session, lambda: self._producing.handle(headers, frame, session))
        return quotas.measure(session, lambda: self._dispatch(header, frame, size))

    def _mute(self, seconds: float) -> None:
        self._connection.mute(seconds, self._end_throttle)

    def _end_throttle(self) -> None:
        self.session.throttle_ms = 0

    def _dispatch(self, header: RequestHeader, frame: memoryview, size: int) -> Any:
        """Handle anything but a Produce."""
        api, version, _, _, _ = header
        session = self.session
        if size > MAX_REQUEST_BYTES:
            _check_size(api, size)
        if api is FETCH and not session.is_for_controllers:
            return self._fetching.handle(header, frame, self._connection, session)
        if api is API_VERSIONS and version not in SERVED[API_VERSIONS.key].versions:
            return api_versions.answer_unknown_version(header, listeners_of(session))
        asked = Asked(version, session)
        if self._forwarding.takes(api.key):
            return self._forwarding.answer(header, bytes(frame), asked)
        if size > LONG_REQUEST_BYTES:
            return self._answer_long(header, read_request_in_steps(header, frame, size), asked)
        return self._answer(header, read_request(header, frame, size), asked)

    async def _answer_long(self, header: RequestHeader, steps: Generator[None, None, Any], asked: Asked) -> Answer:
        request = await finish(steps)
        try:
            return await self._answer(header, request, asked)
        finally:
            let_go(request)

    async def _answer(self, header: RequestHeader, request: Any, asked: Asked) -> Answer:
        # A fetch for clients has its own path; here it is of the metadata log, for the nodes of the quorum.
        values = await carry_out(self._broker, header, request, asked, _fetch_metadata if header.api is FETCH else None)
        count_refusals(self._broker.refusals, header.api, header.version, values)
        return [*await write(header, request, values)]


async def _fetch_metadata(broker: Broker, request: Any, asked: Asked) -> Values:
    from barnabas.edge.kafka.handlers.quorum_requests import fetch_metadata  # noqa: PLC0415 - not for a node alone

    return await fetch_metadata(broker, request, asked)


def _check_size(api: Api, size: int) -> None:
    """Refuse a request that is larger than any of its API may be."""
    most = MAX_REQUEST_BYTES + ENVELOPE_ROOM if api is ENVELOPE else MAX_REQUEST_BYTES
    if size > most:
        raise MalformedRequest(f"{api.name} has {size} bytes; the maximum is {most}")
