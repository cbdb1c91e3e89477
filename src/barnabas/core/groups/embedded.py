"""The embedded protocol of classic consumers inside JoinGroup and SyncGroup: subscriptions and assignments.

Owns the encoding of both, versions 0 to 3; a newer version begins like 3. The bytes come from clients and are
untrusted: an invalid message is `MalformedEmbedded`.
"""

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

Partitions: TypeAlias = Mapping[str, tuple[int, ...]]

NO_PARTITIONS: Final[Partitions] = MappingProxyType({})

_OWNED_FROM: Final = 1
_GENERATION_FROM: Final = 2
_RACK_FROM: Final = 3


MAX_BYTES: Final = 128 * 1024
"""The longest message, which is decoded in one step: enough for 30,000 partitions."""


class MalformedEmbedded(ValueError):
    """Bytes that are not a message of the embedded consumer protocol."""


class Subscription(NamedTuple):
    """The topics that a member subscribes to, and the partitions it had at that time."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: Partitions = NO_PARTITIONS
    generation: int = -1
    rack: str | None = None


class EmbeddedAssignment(NamedTuple):
    """The partitions assigned to a member."""

    version: int
    partitions: Partitions
    user_data: bytes | None = None


def parse_version(data: bytes) -> int:
    """The version of a message."""
    return _Reader(data).version


def parse_subscription(data: bytes) -> Subscription:
    """A member's metadata for any assignor of consumers."""
    reader = _Reader(data)
    version = reader.version
    topics = tuple(reader.string() for _ in range(reader.count()))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= _OWNED_FROM else {}
    generation = reader.int32() if version >= _GENERATION_FROM else -1
    rack = reader.nullable_string() if version >= _RACK_FROM else None
    return Subscription(version, topics, user_data, owned, generation, rack)


def parse_assignment(data: bytes) -> EmbeddedAssignment:
    """What a leader assigned to a member."""
    reader = _Reader(data)
    return EmbeddedAssignment(reader.version, reader.partitions(), reader.nullable_bytes())


def build_subscription(subscription: Subscription) -> bytes:
    """The message in the version that it names."""
    version = subscription.version
    parts = [struct.pack(">hi", version, len(subscription.topics)), *map(_string, subscription.topics)]
    parts.append(_bytes(subscription.user_data))
    if version >= _OWNED_FROM:
        parts.append(_partitions(subscription.owned))
    if version >= _GENERATION_FROM:
        parts.append(struct.pack(">i", subscription.generation))
    if version >= _RACK_FROM:
        parts.append(struct.pack(">h", -1) if subscription.rack is None else _string(subscription.rack))
    return b"".join(parts)


def build_assignment(assignment: EmbeddedAssignment) -> bytes:
    """The message in the version that it names; all versions look the same."""
    return struct.pack(">h", assignment.version) + _partitions(assignment.partitions) + _bytes(assignment.user_data)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _partitions(partitions: Partitions) -> bytes:
    parts = [struct.pack(">i", len(partitions))]
    for topic in sorted(partitions):
        numbers = partitions[topic]
        parts.append(_string(topic))
        parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)


class _Reader:
    """Reads a message from its beginning; each count is checked against what is left."""

    def __init__(self, data: bytes) -> None:
        if len(data) > MAX_BYTES:
            raise MalformedEmbedded(f"a message of {len(data)} bytes; the maximum is {MAX_BYTES}")
        self.data = data
        self.position = 0
        self.version = self.int16()
        if self.version < 0:
            raise MalformedEmbedded(f"version {self.version}")

    def _take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise MalformedEmbedded(f"{size} bytes at {self.position} of {len(self.data)}")
        data = self.data[self.position : end]
        self.position = end
        return data

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int32s(self) -> tuple[int, ...]:
        """A list of numbers."""
        count = self.count()
        return struct.unpack(f">{count}i", self._take(4 * count))

    def count(self) -> int:
        """The length of a list, whose elements take at least two bytes each."""
        count = self.int32()
        if not 0 <= count <= (len(self.data) - self.position) // 2:
            raise MalformedEmbedded(f"a list of {count} with {len(self.data) - self.position} bytes left")
        return count

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedEmbedded("a name is missing")
        return text

    def nullable_string(self) -> str | None:
        size = self.int16()
        if size < 0:
            return None
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise MalformedEmbedded("a name is not UTF-8") from None

    def nullable_bytes(self) -> bytes | None:
        # Some clients end their message here, without the length of no bytes.
        if self.position == len(self.data):
            return None
        size = self.int32()
        return None if size < 0 else self._take(size)

    def partitions(self) -> dict[str, tuple[int, ...]]:
        partitions: dict[str, list[int]] = {}
        for _ in range(self.count()):
            topic = self.string()
            partitions.setdefault(topic, []).extend(self.int32s())
        return {topic: tuple(numbers) for topic, numbers in partitions.items()}
