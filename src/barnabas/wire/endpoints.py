"""Where leaders are, at the end of an answer to Produce or Fetch (KIP-951): what its only tagged field says.

A client that came to the wrong node learns from the answer itself who leads, and how to get there.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.wire.frame import write_uvarint

_INT32: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\x00"


class NodeEndpoint(NamedTuple):
    """A node, as the client reaches it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def write_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields of an answer: the field of endpoints (tag 0), or none."""
    if not endpoints:
        return _NO_TAGS
    field = bytearray(write_uvarint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        field += _INT32.pack(node_id) + _text(host) + _INT32.pack(port)
        field += (b"\x00" if rack is None else _text(rack)) + _NO_TAGS
    return b"\x01\x00" + write_uvarint(len(field)) + bytes(field)


def _text(text: str) -> bytes:
    data = text.encode()
    return write_uvarint(len(data) + 1) + data
