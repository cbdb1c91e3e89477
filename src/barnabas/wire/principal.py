"""A principal as one node tells it to another: Kafka's DefaultPrincipalData, behind two bytes with its version.

Must not know: what a principal may do.
"""

from typing import Final, NamedTuple

from barnabas.wire.errors import MalformedRequest
from barnabas.wire.frame import cut_string, read_uvarint, skip_tagged_fields, write_uvarint

_VERSION: Final = 0
_VERSION_SIZE: Final = 2


class PrincipalData(NamedTuple):
    """The fields of DefaultPrincipalData."""

    kind: str
    name: str
    is_token_authenticated: bool = False


def write_principal(principal: PrincipalData) -> bytes:
    """The bytes of a principal."""
    return b"".join(
        [
            _VERSION.to_bytes(_VERSION_SIZE, "big"),
            _text(principal.kind),
            _text(principal.name),
            b"\x01" if principal.is_token_authenticated else b"\x00",
            b"\x00",  # no tagged fields
        ]
    )


def read_principal(data: bytes) -> PrincipalData:
    """The principal that the bytes are; `MalformedRequest` if they are none."""
    version = int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)
    if len(data) < _VERSION_SIZE or version < _VERSION:
        raise MalformedRequest("a principal has no version")
    kind, position = _read_text(data, _VERSION_SIZE)
    name, position = _read_text(data, position)
    if position >= len(data):
        raise MalformedRequest("a principal is truncated")
    skip_tagged_fields(data, position + 1, len(data))
    return PrincipalData(kind, name, data[position] != 0)


def _text(text: str) -> bytes:
    data = cut_string(text)
    return write_uvarint(len(data) + 1) + data


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    size, position = read_uvarint(data, position, len(data))
    end = position + size - 1
    if size == 0 or end > len(data):
        raise MalformedRequest("a principal is truncated")
    try:
        return data[position:end].decode(), end
    except UnicodeDecodeError:
        raise MalformedRequest("a principal is not UTF-8") from None
