"""ListOffsets for readers of thousands of partitions, which look up their ends many times a second.

A request is encoded once and sent repeatedly; a response is read without an object per partition.
"""

from collections.abc import Mapping
from typing import Final

from barnabas.client.connection import BrokerConnection
from barnabas.client.errors import check
from barnabas.core.errors import CorruptRecord
from barnabas.core.model import NO_EPOCH, TopicPartition
from barnabas.wire.apis import LIST_OFFSETS
from barnabas.wire.errors import MalformedAnswer
from barnabas.wire.listed_offsets import FoundOffset, read_listed_offsets
from barnabas.wire.requests import write_request

_CONSUMER: Final = -1  # in the place of a replica's id


class OffsetQuestion:
    """The offsets for times, or for EARLIEST or LATEST, of partitions that one broker leads."""

    def __init__(self, wanted: Mapping[TopicPartition, int], *, isolation: int) -> None:
        self._isolation = isolation
        self._times: dict[str, dict[int, int]] = {}
        for (topic, partition), timestamp in wanted.items():
            self._times.setdefault(topic, {})[partition] = timestamp
        self._keys = {topic: [TopicPartition(topic, each) for each in times] for topic, times in self._times.items()}
        self._written: dict[int, bytes] = {}  # by version

    def ask(self, connection: BrokerConnection) -> dict[TopicPartition, int]:
        """The offsets; -1 where there is none. Raises the errors of the broker."""
        version = connection.version(LIST_OFFSETS.key)
        if version not in self._written:
            self._written[version] = self._write(version)
        answer = connection.ask_written(LIST_OFFSETS.key, self._written[version])
        found: dict[TopicPartition, int] = {}
        try:
            for topic, rows in read_listed_offsets(answer, version):
                found |= self._of_topic(topic, rows)
        except MalformedAnswer as error:
            raise CorruptRecord(f"a response cannot be read: {error}") from None
        return found

    def _write(self, version: int) -> bytes:
        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": each, "current_leader_epoch": NO_EPOCH, "timestamp": time}
                    for each, time in times.items()
                ],
            }
            for topic, times in self._times.items()
        ]
        values = {"replica_id": _CONSUMER, "isolation_level": self._isolation, "topics": topics}
        return bytes(write_request(LIST_OFFSETS.key, version, values))

    def _of_topic(self, topic: str, rows: list[FoundOffset]) -> dict[TopicPartition, int]:
        for partition, error_code, _ in rows:
            if error_code:
                check(error_code, f"look up offsets of {TopicPartition(topic, partition)}")
        keys = self._keys.get(topic, [])
        if len(keys) != len(rows) or any(key[1] != each[0] for key, each in zip(keys, rows, strict=True)):
            keys = [TopicPartition(topic, each[0]) for each in rows]  # in an order of its own
        return {key: each[2] for key, each in zip(keys, rows, strict=True)}
