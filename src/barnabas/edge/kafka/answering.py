"""From the bytes of a request to those of its answer: what all APIs but Produce and Fetch have in common.

A long request is read, and a long answer written, in turns with everything else.
"""

from typing import Any, Final

from barnabas.core.records.batch import Buffer
from barnabas.edge.kafka.asked import Asked, Handle
from barnabas.edge.kafka.registry import handler_of
from barnabas.runtime.letting_go import let_go
from barnabas.runtime.turns import finish
from barnabas.services.broker import Broker
from barnabas.wire.frame import RequestHeader, answer_head
from barnabas.wire.requests import read_request, read_request_in_steps
from barnabas.wire.responses import Values, write_response_in_steps

LONG_REQUEST_BYTES: Final = 2048
"""A longer request is not read before others had their turn."""

MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024
"""The longest request without records. It is copied before it is read."""


async def read(header: RequestHeader, frame: Buffer) -> Any:
    """The request in a frame that nobody changes meanwhile."""
    if len(frame) > LONG_REQUEST_BYTES:
        return await finish(read_request_in_steps(header, frame, len(frame)))
    return read_request(header, frame, len(frame))


async def carry_out(
    broker: Broker, header: RequestHeader, request: Any, asked: Asked, handle: Handle | None = None
) -> Values:
    """What the handler of a request answers: that of its API, unless another is given."""
    values = await (handle or handler_of(header.api.key))(broker, request, asked)
    return {**values, "throttle_time": asked.session.throttle_ms}  # written where the schema has the field


async def write(header: RequestHeader, request: Any, values: Values) -> list[bytes | bytearray]:
    """The frame of an answer, its length included."""
    body = await finish(write_response_in_steps(header.api.key, header.version, values))
    head = answer_head(header, len(body))
    if len(body) <= LONG_REQUEST_BYTES:
        return [head + body]  # one piece, which can leave together with other answers
    let_go(request, values)
    return [head, body]
