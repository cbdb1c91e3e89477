"""Consumer groups of both protocols that read the numbered records and commit how far they are.

What a group has read and committed is noted in one place for all its members: no record is left out, and no committed
offset goes back.
"""

import threading
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.system.chaos.load import RECORD_PARTITIONS, RECORDS, Client

PROTOCOLS: Final = ("classic", "consumer")
_BATCH: Final = 500
_CALL_S: Final = 30.0


class Group:
    """What the members of one group know together."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.name = f"chaos-{protocol}"
        self.bugs: list[str] = []
        self._lock = threading.Lock()
        self._read_to = [0] * RECORD_PARTITIONS
        self._committed = [0] * RECORD_PARTITIONS

    def note_read(self, member: str, partition: int, offset: int) -> None:
        with self._lock:
            if offset > self._read_to[partition]:
                self.bugs.append(
                    f"{member} was given offset {offset} of partition {partition} where {self._read_to[partition]} "
                    "is the next that the group has not read"
                )
            self._read_to[partition] = max(self._read_to[partition], offset + 1)

    def note_committed(self, partition: int, offset: int) -> None:
        """A commit was acknowledged."""
        with self._lock:
            self._committed[partition] = max(self._committed[partition], offset)

    def note_told(self, partition: int, offset: int, before: int | None = None) -> None:
        """Somebody who asked was told this offset, when `before` was known to be committed."""
        highest = self.committed()[partition] if before is None else before
        if offset < highest:
            self.bugs.append(
                f"the offset of group {self.name} for partition {partition} went back from {highest} to {offset}"
            )
        self.note_committed(partition, offset)

    def committed(self) -> list[int]:
        """The highest offsets whose commit was acknowledged or that somebody was told of."""
        with self._lock:
            return list(self._committed)

    def read_to(self) -> list[int]:
        with self._lock:
            return list(self._read_to)

    def check(self, bootstrap: str) -> None:
        """Ask for the committed offsets: none may be below what was acknowledged before."""
        before = self.committed()
        asker = Consumer({"bootstrap.servers": bootstrap, "group.id": self.name, "log_level": 0})
        try:
            asked = [TopicPartition(RECORDS, each) for each in range(RECORD_PARTITIONS)]
            found = asker.committed(asked, _CALL_S)
        finally:
            asker.close()
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
            self.note_told(each.partition, max(each.offset, 0), before[each.partition])


class Member(Client):
    """One member of a group: reads, and commits what it has read."""

    def __init__(self, bootstrap: str, name: str, group: Group) -> None:
        super().__init__(bootstrap, name)
        self.group = group
        self._consumer = Consumer(
            {
                **self.settings,
                "group.id": group.name,
                "group.protocol": group.protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([RECORDS])

    def work(self) -> None:
        batch: list[Any] = self._consumer.consume(_BATCH, 0.5)
        ends: dict[int, int] = {}
        for each in batch:
            if each.error() is not None:
                self.troubles[each.error().name()] += 1
                continue
            self.group.note_read(self.name, each.partition(), each.offset())
            ends[each.partition()] = each.offset() + 1
        if not ends:
            return
        offsets = [TopicPartition(RECORDS, partition, end) for partition, end in ends.items()]
        for placed in self._consumer.commit(offsets=offsets, asynchronous=False):
            if placed.error is not None:
                self.troubles[placed.error.name()] += 1
                continue
            self.group.note_committed(placed.partition, placed.offset)
            self.note_done(1)

    def finish(self) -> None:
        self._consumer.close()
