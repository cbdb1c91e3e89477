"""The answers of `/metrics`, `/healthz` and `/readyz`, whoever serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.edge.http.exposition import OPEN_METRICS, TEXT, Exposition, Form
from barnabas.edge.http.health import readiness_body, readiness_of
from barnabas.edge.http.plain import JSON, PlainAnswer, PlainRequest
from barnabas.services.broker import Broker

if TYPE_CHECKING:
    from barnabas.edge.http.metrics_access import MetricsAccess

TRUE = ("1", "true", "yes")


class Basics:
    """The three, of one node. Until it has a broker it is alive, and not ready."""

    def __init__(self) -> None:
        self.broker: Callable[[], Broker | None] = lambda: None
        self.exposition: Exposition | None = None
        self.metrics_access: MetricsAccess | None = None
        """Who may read the metrics; None: everybody."""
        self.has_partitions = False
        self.is_api_coming = False
        """Whether the API will be served here in a moment: until then its paths are not there yet, rather than not
        found, which a client would take for a topic that does not exist."""

    async def answer(self, asked: PlainRequest) -> PlainAnswer:
        """The answer for a path."""
        path = asked.path
        if path == "/healthz":
            return PlainAnswer(200, JSON, b'{"alive":true}')
        if path == "/readyz":
            found = readiness_of(self.broker())
            return PlainAnswer(200 if found.is_ready else 503, JSON, readiness_body(found))
        if path == "/metrics":
            if self.exposition is None:
                return PlainAnswer(503, JSON, b'{"message":"the node is starting"}')
            refusal = None if self.metrics_access is None else await self.metrics_access.refuse(asked)
            return refusal or await self._metrics(self.exposition, asked)
        if path.startswith("/api/") and self.is_api_coming:
            return PlainAnswer(503, JSON, b'{"message":"the node is starting: try again in a moment"}')
        words = b'{"message":"there is nothing here; see /metrics, /healthz, /readyz, and /api/v1 where it is on"}'
        return PlainAnswer(404, JSON, words)

    async def _metrics(self, exposition: Exposition, asked: PlainRequest) -> PlainAnswer:
        wanted = asked.query.get("partitions", ())
        has_partitions = wanted[0].lower() in TRUE if wanted else self.has_partitions
        form = Form(has_partitions=has_partitions, is_open="application/openmetrics-text" in asked.accept)
        return PlainAnswer(200, OPEN_METRICS if form.is_open else TEXT, await exposition.text(form))
