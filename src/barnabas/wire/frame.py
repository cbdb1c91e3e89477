"""Frames and headers: a request is its length, a header and a body, and so is an answer.

Request header: API key, version, correlation id, client id; flexible versions add tagged fields. The answer's header is
the correlation id, and tagged fields too when the version is flexible, except for ApiVersions, whose answer must be
readable by a client that only guessed the version.
"""

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from barnabas.core.records.batch import Buffer
from barnabas.wire.apis import API_VERSIONS, Api, Served
from barnabas.wire.errors import MalformedAnswer, MalformedRequest, UnservedVersion

LENGTH_SIZE: Final = 4
MAX_TAGGED_FIELDS: Final = 64  # of one part of a request: no client sends more than a few
MAX_STRING_BYTES: Final = 2**15 - 1  # of a string with a length of two bytes
_FIXED: Final = struct.Struct(">hhih")
_FIXED_SIZE: Final = _FIXED.size
_unpack_fixed: Final = _FIXED.unpack_from
_unpack_id: Final = struct.Struct(">i").unpack_from
_REQUEST: Final = struct.Struct(">ihhih")
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


def read_request_header(data: memoryview, position: int, end: int, served: Mapping[int, Served]) -> RequestHeader:
    """The header at `position` of a request that ends at `end`, of one of the APIs that are served, by their keys.

    An ApiVersions request of an unknown version is accepted: its answer lists the versions.
    """
    if end - position < _FIXED_SIZE:
        raise MalformedRequest(f"a request of {end - position} bytes has no header")
    key, version, correlation_id, client_id_size = _unpack_fixed(data, position)
    found = served.get(key)
    if found is None:
        raise UnservedVersion(f"API {key} is not served")
    api, lowest, highest, _ = found
    if not lowest <= version <= highest:
        if key == API_VERSIONS.key:
            return RequestHeader(api, version, correlation_id, None, end)
        raise UnservedVersion(f"version {version} of {api.name} is not served; {lowest} to {highest} are")
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


class HeaderReader:
    """Reads the headers of one connection: its attributes are those of the request that was read last.

    Most requests begin as the one before them did, but for the correlation id: of those nothing else is read, and
    nothing is made.
    """

    __slots__ = (
        "_client",
        "_kind",
        "_served",
        "_size",
        "_unpack",
        "api",
        "body_at",
        "client_id",
        "correlation_id",
        "version",
    )

    def __init__(self, served: Mapping[int, Served]) -> None:
        self._served = served  # by their keys
        self._size = _NEVER  # of the header that is known
        self._unpack: Callable[[memoryview], tuple[Any, ...]] = _unpack_fixed
        self._kind = self._client = b""  # its bytes before the correlation id, and those after it
        self.api = API_VERSIONS  # until something is read
        self.version = self.correlation_id = self.body_at = 0
        self.client_id: str | None = None

    def read(self, frame: memoryview, end: int) -> bool:
        """Read the header of a request that ends at `end`: see `read_request_header`. False if it is as the last one,
        but for the correlation id.
        """
        if end >= self._size:
            kind, correlation_id, client = self._unpack(frame)
            if kind == self._kind and client == self._client:
                self.correlation_id = correlation_id
                return False
        header = read_request_header(frame, 0, end, self._served)
        api, version, self.correlation_id, self.client_id, size = header
        self._size = _NEVER
        # Known from the second of a kind on: of a client whose requests take turns none would be met again. Of
        # ApiVersions some are not read to the end.
        if api is self.api and version == self.version and size <= _LONGEST_KNOWN and api is not API_VERSIONS:
            self._size, self._unpack = size, _around_id(size - _BEFORE_CLIENT).unpack_from
            self._kind, _, self._client = self._unpack(frame)
        self.api, self.version, self.body_at = api, version, size
        return True

    def header(self) -> RequestHeader:
        """The header that was read last, to be kept."""
        return _new_header(RequestHeader, (self.api, self.version, self.correlation_id, self.client_id, self.body_at))


_NEVER: Final = 2**31
_BEFORE_CLIENT: Final = 8  # key, version and correlation id
_LONGEST_KNOWN: Final = 256


@lru_cache(maxsize=_LONGEST_KNOWN)
def _around_id(client_size: int) -> struct.Struct:
    """Key and version, the correlation id, and what is behind it: the client id and tagged fields."""
    return struct.Struct(f">4si{client_size}s")


def skip_tagged_fields(data: Buffer, position: int, end: int) -> int:
    """Where tagged fields end that are not needed here."""
    if position < end and data[position] == 0:
        return position + 1
    count, position = read_uvarint(data, position, end)
    if count > MAX_TAGGED_FIELDS:
        raise MalformedRequest(f"{count} tagged fields; the maximum is {MAX_TAGGED_FIELDS}")
    for _ in range(count):
        _, position = read_uvarint(data, position, end)
        size, position = read_uvarint(data, position, end)
        position += size
        if position > end:
            raise MalformedRequest("a tagged field does not fit in its request")
    return position


def read_uvarint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits, and where it ends."""
    if position < end and (value := data[position]) < 0x80:  # as most are
        return value, position + 1
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
    raise MalformedRequest("a varint is truncated or too long")


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
    """The bytes of a text, truncated to the longest that a two-byte length allows: a message may quote a long name."""
    data = text.encode()
    if len(data) <= MAX_STRING_BYTES:
        return data
    return data[:MAX_STRING_BYTES].decode(errors="ignore").encode()


def answer_head(header: RequestHeader, body_size: int) -> bytes:
    """Length and header of the answer to a request whose body has `body_size` bytes."""
    api, version, correlation_id, _, _ = header
    if version >= api.flexible_from and api is not API_VERSIONS:
        return _FLEXIBLE_ANSWER.pack(body_size + 5, correlation_id, 0)
    return _ANSWER.pack(body_size + 4, correlation_id)


def request_head(
    api_key: int, version: int, correlation_id: int, client_id: bytes | None, body_size: int, *, is_flexible: bool
) -> bytes:
    """Length and header of a request whose body has `body_size` bytes."""
    name = client_id or b""
    tags = b"\x00" if is_flexible else b""  # of which there are none
    size = _FIXED_SIZE + len(name) + len(tags) + body_size
    name_size = -1 if client_id is None else len(name)
    return _REQUEST.pack(size, api_key, version, correlation_id, name_size) + name + tags


def read_answer_head(frame: Buffer, *, has_tags: bool) -> tuple[int, int]:
    """The correlation id of an answer, a frame without its length, and where its body begins."""
    if len(frame) < 4:
        raise MalformedAnswer(f"an answer of {len(frame)} bytes has no header")
    (correlation_id,) = _unpack_id(frame)
    return correlation_id, skip_tagged_fields(frame, 4, len(frame)) if has_tags else 4
