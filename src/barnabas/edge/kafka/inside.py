"""Requests of another edge of this node, as if a client had sent them: the same handlers, checks and forwarding.

So what HTTP asks for is authorized, carried out and forwarded to the controller exactly as over the Kafka port. The
request goes through its bytes, which costs microseconds and keeps one path; records do not come this way.
"""

from typing import Any, Final

from barnabas.edge.kafka.answering import carry_out, read, write
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import SERVED
from barnabas.edge.kafka.server import KafkaServer
from barnabas.services.session import Session
from barnabas.wire.frame import LENGTH_SIZE, read_request_header
from barnabas.wire.requests import frame_request
from barnabas.wire.responses import read_response
from barnabas.wire.writing import Values

_CLIENT_ID: Final = "barnabas-http"


class Inside:
    """Calls the handlers of this node."""

    def __init__(self, server: KafkaServer) -> None:
        self._server = server

    async def call(self, session: Session, api_key: int, values: Values, *, max_version: int | None = None) -> Any:
        """The answer to a request of a client of this node, in the newest version that is served and allowed."""
        newest = SERVED[api_key].max_version
        version = newest if max_version is None else min(newest, max_version)
        framed = frame_request(api_key, version, values, correlation_id=0, client_id=session.client_id or _CLIENT_ID)
        frame = bytes(framed)[LENGTH_SIZE:]
        header = read_request_header(memoryview(frame), 0, len(frame), SERVED)
        asked = Asked(version, session)
        if self._server.forwarding.takes(api_key):
            answer = await self._server.forwarding.answer(header, frame, asked)
        else:
            request = await read(header, frame)
            result = await carry_out(self._server.broker, header, request, asked)
            answer = [*await write(header, request, result)]
        data = b"".join(bytes(piece) for piece in answer if not hasattr(piece, "take"))
        return read_response(api_key, version, data[LENGTH_SIZE:])
