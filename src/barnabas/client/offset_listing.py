"""ListOffsets, by hand: readers of thousands of partitions ask where they end many times a second.

A request is written once and can be sent again and again; an answer is read into a dict without an object for any
partition. In versions before compact strings, 1 to 5, which every broker speaks.
"""

import struct
from collections.abc import Mapping
from typing import Final

from barnabas.client.connection import LIST_OFFSETS, Connection
from barnabas.client.errors import check
from barnabas.core.errors import CorruptRecord
from barnabas.core.model import NO_EPOCH, TopicPartition

_CONSUMER: Final = -1  # in the place of a replica's id
_ISOLATION_FROM: Final = 2
_EPOCHS_FROM: Final = 4

_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_ASKED: Final = struct.Struct(">iq")  # index, timestamp
_ASKED_WITH_EPOCH: Final = struct.Struct(">iiq")
# Index, error code, offset; a timestamp before the offset, an epoch after it.
_FOUND: Final = struct.Struct(">ih8xq")
_FOUND_WITH_EPOCH: Final = struct.Struct(">ih8xq4x")


class OffsetQuestion:
    """The offsets for times, or for EARLIEST or LATEST, of partitions that one broker leads."""

    def __init__(self, wanted: Mapping[TopicPartition, int], *, isolation: int) -> None:
        self._isolation = isolation
        self._times: dict[str, dict[int, int]] = {}
        for (topic, partition), timestamp in wanted.items():
            self._times.setdefault(topic, {})[partition] = timestamp
        self._keys = {topic: [TopicPartition(topic, each) for each in times] for topic, times in self._times.items()}
        self._written: dict[int, bytes] = {}  # by version

    def ask(self, connection: Connection) -> dict[TopicPartition, int]:
        """The offsets; -1 where there is none. What the broker refuses is raised."""
        version = connection.version(LIST_OFFSETS)
        if version not in self._written:
            self._written[version] = self._write(version)
        answer = connection.ask_written(LIST_OFFSETS, self._written[version])
        try:
            return self._read(answer, version)
        except (struct.error, ValueError) as error:
            raise CorruptRecord(f"an answer to ListOffsets cannot be read: {error}") from None

    def _write(self, version: int) -> bytes:
        parts = [_INT.pack(_CONSUMER)]
        if version >= _ISOLATION_FROM:
            parts.append(self._isolation.to_bytes(1, "big"))
        parts.append(_INT.pack(len(self._times)))
        for topic, times in self._times.items():
            name = topic.encode()
            parts += (_SHORT.pack(len(name)), name, _INT.pack(len(times)))
            if version >= _EPOCHS_FROM:
                parts += [_ASKED_WITH_EPOCH.pack(partition, NO_EPOCH, time) for partition, time in times.items()]
            else:
                parts += [_ASKED.pack(partition, time) for partition, time in times.items()]
        return b"".join(parts)

    def _read(self, answer: memoryview, version: int) -> dict[TopicPartition, int]:
        row = _FOUND_WITH_EPOCH if version >= _EPOCHS_FROM else _FOUND
        position = 4 if version >= _ISOLATION_FROM else 0  # behind the time it was throttled
        (count,) = _INT.unpack_from(answer, position)
        position += 4
        found: dict[TopicPartition, int] = {}
        for _ in range(count):
            (size,) = _SHORT.unpack_from(answer, position)
            topic = str(answer[position + 2 : position + 2 + size], "utf-8")
            position += 2 + size
            (rows,) = _INT.unpack_from(answer, position)
            stop = position + 4 + rows * row.size
            found |= self._of_topic(topic, list(row.iter_unpack(answer[position + 4 : stop])))
            position = stop
        return found

    def _of_topic(self, topic: str, rows: list[tuple[int, int, int]]) -> dict[TopicPartition, int]:
        for partition, error_code, _ in rows:
            if error_code:
                check(error_code, f"look up offsets of {TopicPartition(topic, partition)}")
        keys = self._keys.get(topic, [])
        if len(keys) != len(rows) or any(key[1] != each[0] for key, each in zip(keys, rows, strict=True)):
            keys = [TopicPartition(topic, each[0]) for each in rows]  # in an order of its own
        return {key: each[2] for key, each in zip(keys, rows, strict=True)}
