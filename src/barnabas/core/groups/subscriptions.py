"""The subscribed topics of a classic consumer: the beginning of its metadata, which is the same in all versions.

The metadata of a member is opaque to the coordinator except for this: the topics of a group of consumers are needed to
know which offsets are in use. The bytes come from a client and are untrusted: None if they cannot be read.
"""

from typing import Final

CONSUMER_PROTOCOL: Final = "consumer"  # the protocol type of groups whose members are consumers

_VERSION_BYTES: Final = 2
_COUNT_BYTES: Final = 4
_LENGTH_BYTES: Final = 2


def parse_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription; None if the bytes are not a subscription."""
    position = _VERSION_BYTES + _COUNT_BYTES
    if len(metadata) < position or _int(metadata[:_VERSION_BYTES]) < 0:
        return None
    count = _int(metadata[_VERSION_BYTES:position])
    if not 0 <= count <= (len(metadata) - position) // _LENGTH_BYTES:
        return None
    topics = []
    for _ in range(count):
        start = position + _LENGTH_BYTES
        end = start + _int(metadata[position:start])
        if not start <= end <= len(metadata):
            return None
        try:
            topics.append(metadata[start:end].decode())
        except UnicodeDecodeError:
            return None
        position = end
    return frozenset(topics)


def _int(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)
