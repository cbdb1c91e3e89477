"""The Kafka edge: takes frames from connections, finds the handler, and puts the answer in a frame.

Produce and Fetch, which carry the data, have their own ways; everything else goes through its schema. A long request is
read, and a long answer written, in turns with everything else.
"""

from collections.abc import Generator
from typing import Any, Final

from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.fetching import Fetching
from barnabas.edge.kafka.handlers import HANDLERS, api_versions
from barnabas.edge.kafka.producing import Producing
from barnabas.runtime.connections import Answer, Connection
from barnabas.runtime.turns import finish
from barnabas.services.broker import Broker
from barnabas.wire.apis import API_VERSIONS, FETCH, PRODUCE
from barnabas.wire.errors import MalformedRequest
from barnabas.wire.frame import RequestHeader, answer_head, read_request_header
from barnabas.wire.requests import read_request, read_request_in_steps
from barnabas.wire.responses import write_response_in_steps

LONG_REQUEST_BYTES: Final = 2048
"""A longer one is not read before others had their turn."""

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
"""Of a request that has no records. It is copied before it is read, in one go."""


class KafkaServer:
    """Handles the frames of all Kafka connections of a node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._producing = Producing(broker)
        self._fetching = Fetching(broker)

    def may_overlap(self, frame: memoryview) -> bool:
        """Produces may: they are appended without waiting for each other's acknowledgement."""
        return len(frame) >= 2 and frame[0] == 0 and frame[1] == PRODUCE.key

    def handle(self, frame: memoryview, connection: Connection) -> Any:
        """See `runtime.connections.Handler`."""
        header = read_request_header(frame, 0, len(frame))
        if header.api is PRODUCE:
            return self._producing.handle(header, frame)
        if len(frame) > MAX_REQUEST_BYTES:
            raise MalformedRequest(f"{header.api.name} has {len(frame)} bytes; at most {MAX_REQUEST_BYTES} are taken")
        if header.api is API_VERSIONS and not API_VERSIONS.serves(header.version):
            return api_versions.answer_unknown_version(header)
        if header.api is FETCH:
            return self._fetching.handle(header, frame, connection)
        asked = Asked(header.version, header.client_id, connection.peer, connection.local)
        if len(frame) > LONG_REQUEST_BYTES:
            return self._answer_long(header, read_request_in_steps(header, frame, len(frame)), asked)
        return self._answer(header, read_request(header, frame, len(frame)), asked)

    async def _answer_long(self, header: RequestHeader, steps: Generator[None, None, Any], asked: Asked) -> Answer:
        return await self._answer(header, await finish(steps), asked)

    async def _answer(self, header: RequestHeader, request: Any, asked: Asked) -> Answer:
        values = await HANDLERS[header.api](self._broker, request, asked)
        body = await finish(write_response_in_steps(header.api.key, header.version, values))
        return [answer_head(header, len(body)), body]
