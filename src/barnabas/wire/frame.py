"""Frames and headers: a request is its length, a header and a body, and so is an answer.

Request header: API key, version, correlation id, client id; flexible versions add tagged fields. The answer's header
is the correlation id, and tagged fields too when the version is flexible, except for ApiVersions, whose answer must be
readable by a client that asked for a version it only guessed.
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, cast

from barnabas.core.records.batch import Buffer
from barnabas.wire.apis import API_VERSIONS, APIS, Api
from barnabas.wire.errors import MalformedRequest, UnsupportedVersion

LENGTH_SIZE: Final = 4
MAX_TAGGED_FIELDS: Final = 64  # of one part of a request: no client sends more than a few
MAX_STRING_BYTES: Final = 2**15 - 1  # of a string with a length of two bytes
_FIXED: Final = struct.Struct(">hhih")
_SHORT: Final = struct.Struct(">hhi")
_FIXED_SIZE: Final = _FIXED.size
_unpack_fixed: Final = _FIXED.unpack_from
_ANSWER: Final = struct.Struct(">ii")
_FLEXIBLE_ANSWER: Final = struct.Struct(">iib")


class RequestHeader(NamedTuple):
    """The header of a request, and where its body begins."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int


# Made for every request: without the call that a named tuple is made by.
_new_header: Final = cast(
    "Callable[[type[RequestHeader], tuple[Api, int, int, str | None, int]], RequestHeader]", tuple.__new__
)


def read_request_header(data: memoryview, position: int, end: int) -> RequestHeader:
    """The header at `position` of a request that ends at `end`.

    An ApiVersions request of an unknown version is let through: its answer says which versions there are.
    """
    if end - position < _FIXED_SIZE:
        raise MalformedRequest(f"a request of {end - position} bytes has no header")
    key, version, correlation_id, client_id_size = _unpack_fixed(data, position)
    api = APIS.get(key)
    if api is None:
        raise UnsupportedVersion(f"API {key} is not served")
    if not api.min_version <= version <= api.max_version:
        if key == API_VERSIONS.key:
            return RequestHeader(api, version, correlation_id, None, end)
        raise UnsupportedVersion(
            f"version {version} of {api.name} is not served; {api.min_version} to {api.max_version} are"
        )
    position += _FIXED_SIZE
    client_id = None
    if client_id_size >= 0:
        if position + client_id_size > end:
            raise MalformedRequest(f"a client id of {client_id_size} bytes does not fit in its request")
        try:
            client_id = str(data[position : position + client_id_size], "utf-8")
        except UnicodeDecodeError:
            raise MalformedRequest("a client id is not UTF-8") from None
        position += client_id_size
    if version >= api.flexible_from:
        position = skip_tagged_fields(data, position, end)
    return _new_header(RequestHeader, (api, version, correlation_id, client_id, position))


def skip_tagged_fields(data: Buffer, position: int, end: int) -> int:
    """Where tagged fields, which nobody here asks for, end."""
    if position < end and data[position] == 0:
        return position + 1
    count, position = read_uvarint(data, position, end)
    if count > MAX_TAGGED_FIELDS:
        raise MalformedRequest(f"{count} tagged fields are more than the {MAX_TAGGED_FIELDS} that are taken")
    for _ in range(count):
        _, position = read_uvarint(data, position, end)
        size, position = read_uvarint(data, position, end)
        position += size
        if position > end:
            raise MalformedRequest("a tagged field does not fit in its request")
    return position


def read_uvarint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and where it ends."""
    value = shift = 0
    while position < end and shift <= 28:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**32:
                break
            return value, position
        shift += 7
    raise MalformedRequest("a varint is cut off or too long")


def write_uvarint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:
        return value.to_bytes(1, "big")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def cut_string(text: str) -> bytes:
    """The bytes of a text, cut to what a string with a length of two bytes holds: a message may quote a long name."""
    data = text.encode()
    if len(data) <= MAX_STRING_BYTES:
        return data
    return data[:MAX_STRING_BYTES].decode(errors="ignore").encode()


def answer_head(header: RequestHeader, body_size: int) -> bytes:
    """Length and header of the answer to a request whose body has `body_size` bytes."""
    if header.version >= header.api.flexible_from and header.api is not API_VERSIONS:
        return _FLEXIBLE_ANSWER.pack(body_size + 5, header.correlation_id, 0)
    return _ANSWER.pack(body_size + 4, header.correlation_id)
