"""Requests by their kio schemas, both ways: a broker reads them, a client or another node writes them.

A handler is written once for all versions: it takes the request's kio entity, whatever its version; see `reading`. To
write one, plain values are enough; see `writing`.
"""

from collections.abc import Generator
from datetime import timedelta
from functools import cache
from typing import Any, Final

from barnabas.core.records.batch import Buffer
from barnabas.wire.errors import Malformed, MalformedRequest
from barnabas.wire.frame import RequestHeader, request_head
from barnabas.wire.reading import read_struct, read_struct_in_steps
from barnabas.wire.reading_values import Body
from barnabas.wire.schemas import request_schema
from barnabas.wire.writing import Manner, Values, Write, struct_steps_writer, struct_writer

MAX_ELEMENTS: Final = 100_000  # of all arrays of a request together: far more than a client asks for at once
_MILLISECOND: Final = timedelta(milliseconds=1)


def read_request(header: RequestHeader, data: Buffer, end: int) -> Any:
    """The kio entity of a request."""
    try:
        entity, _ = read_struct(request_schema(header.api.key, header.version), _body(header, data, end))
    except Malformed as error:
        raise _malformed(header, error) from None
    return entity


def read_request_in_steps(header: RequestHeader, data: Buffer, end: int) -> Generator[None, None, Any]:
    """The same for a long request. The data is copied at once; the first step is to ask for the next."""
    return _read_in_steps(header, _body(header, data, end))


def _read_in_steps(header: RequestHeader, body: Body) -> Generator[None, None, Any]:
    yield
    try:
        entity, _ = yield from read_struct_in_steps(request_schema(header.api.key, header.version), body)
    except Malformed as error:
        raise _malformed(header, error) from None
    return entity


def _body(header: RequestHeader, data: Buffer, end: int) -> Body:
    return Body(bytes(data[header.body_at : end]), max_elements=MAX_ELEMENTS)


def _malformed(header: RequestHeader, error: Malformed) -> MalformedRequest:
    return MalformedRequest(f"{header.api.name} version {header.version}: {error}")


def to_ms(duration: timedelta) -> int:
    """The value of a field of milliseconds, as an integer."""
    return duration // _MILLISECOND


def write_request(api_key: int, version: int, values: Values) -> bytearray:
    """The body of a request. Raises `InvalidRequest` for values that do not fit."""
    out = bytearray()
    _writer(api_key, version)(out, values)
    return out


def write_request_in_steps(api_key: int, version: int, values: Values) -> Generator[None, None, bytearray]:
    """The same in steps."""
    return struct_steps_writer(request_schema(api_key, version), Manner.REQUEST)(values)


def frame_request(api_key: int, version: int, values: Values, *, correlation_id: int, client_id: str | None) -> bytes:
    """A whole request, its length included."""
    body = write_request(api_key, version, values)
    name = None if client_id is None else client_id.encode()
    head = request_head(api_key, version, correlation_id, name, len(body), is_flexible=is_flexible(api_key, version))
    return head + body


@cache
def is_flexible(api_key: int, version: int) -> bool:
    """Whether a version has compact strings and tagged fields."""
    return bool(request_schema(api_key, version).__flexible__)


@cache
def _writer(api_key: int, version: int) -> Write:
    return struct_writer(request_schema(api_key, version), Manner.REQUEST)
