"""Responses by their kio schemas, both ways: a broker writes them, a client or another node reads them.

A handler returns plain values, whatever the version of the request; see `writing`. What is read is the kio entity of
the version; see `reading`. Records in it are views of the data, which must not change as long as they are in use.
"""

from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final

from barnabas.core.records.batch import Buffer
from barnabas.wire.errors import Malformed, MalformedAnswer
from barnabas.wire.frame import read_answer_head
from barnabas.wire.reading import read_struct, read_struct_in_steps
from barnabas.wire.reading_values import Body
from barnabas.wire.schemas import response_schema
from barnabas.wire.writing import Manner, Values, Write, struct_steps_writer, struct_writer

__all__ = ["MAX_ELEMENTS", "Values", "read_response", "read_response_in_steps", "response_writer", "write_response"]

# Of all arrays of a response together: the partitions of a large cluster, each with its replicas, are in one.
MAX_ELEMENTS: Final = 2_000_000


def write_response(api_key: int, version: int, values: Values) -> bytearray:
    """The body of a response."""
    out = bytearray()
    response_writer(api_key, version)(out, values)
    return out


def write_response_in_steps(api_key: int, version: int, values: Values) -> Generator[None, None, bytearray]:
    """The same in steps."""
    return _steps_writer(api_key, version)(values)


@cache
def _steps_writer(api_key: int, version: int) -> Callable[[Values], Generator[None, None, bytearray]]:
    return struct_steps_writer(response_schema(api_key, version), Manner.RESPONSE)


@cache
def response_writer(api_key: int, version: int) -> Write:
    return struct_writer(response_schema(api_key, version), Manner.RESPONSE)


def read_response(api_key: int, version: int, frame: Buffer) -> Any:
    """The kio entity of a response, a frame without its length. Raises `MalformedAnswer` alone."""
    schema = response_schema(api_key, version)
    try:
        body = _body(schema, frame)
        return read_struct(schema, body)[0]  # what is behind it is passed over, as other clients do
    except Malformed as error:
        raise _malformed(schema, error) from None


def read_response_in_steps(api_key: int, version: int, frame: Buffer) -> Generator[None, None, Any]:
    """The same for a long response, which must not change meanwhile."""
    schema = response_schema(api_key, version)
    try:
        body = _body(schema, frame)
        entity, _ = yield from read_struct_in_steps(schema, body)
        return entity
    except Malformed as error:
        raise _malformed(schema, error) from None


def _body(schema: Any, frame: Buffer) -> Body:
    _, body_at = read_answer_head(frame, has_tags=schema.__header_schema__.__flexible__)
    return Body(memoryview(frame)[body_at:], max_elements=MAX_ELEMENTS)


def _malformed(schema: Any, error: Malformed) -> MalformedAnswer:
    return MalformedAnswer(f"{schema.__name__} version {schema.__version__}: {error}")
