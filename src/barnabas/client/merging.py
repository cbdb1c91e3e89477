"""All partitions of a topic as one stream ordered by timestamp.

Owns the order (timestamp, then partition, then offset) and the bound on what is read ahead: a partition whose
buffer is full is paused and read on when it has drained, so that memory is bounded per partition however uneven
they are. Within a partition the log's order stands, whatever its timestamps say.

Over a snapshot of the ends the order is exact. A stream without end is exact only for what has arrived: a partition at
its end does not hold up the others.
"""

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final

from barnabas.client.consuming import UP_TO_END, AssignedReader, Deadline
from barnabas.client.message import Message
from barnabas.client.settings import READ_COMMITTED, Isolation, Settings
from barnabas.core.model import TopicPartition

MAX_BUFFERED_RECORDS: Final = 10_000
MAX_BUFFERED_BYTES: Final = 8 * 1024 * 1024
_CHUNK: Final = 500
_READER: Final = {
    "queued.min.messages": "10000",
    "queued.max.messages.kbytes": "16384",
}


class Merge:
    """Takes records partition by partition, returns them ordered by timestamp; does no reading itself."""

    def __init__(
        self,
        partitions: Iterable[TopicPartition],
        *,
        max_records: int = MAX_BUFFERED_RECORDS,
        max_bytes: int = MAX_BUFFERED_BYTES,
    ) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._buffers: dict[TopicPartition, deque[Message]] = {key: deque() for key in partitions}
        self._bytes = dict.fromkeys(self._buffers, 0)
        self._heads: list[tuple[int, int, str, int]] = []  # of every buffer that has records
        self._empty = set(self._buffers)

    def add(self, record: Message) -> None:
        key = TopicPartition(record.topic, record.partition)
        self._buffers[key].append(record)
        self._bytes[key] += _size(record)
        if key in self._empty:
            self._empty.discard(key)
            self._push(record)

    def take(self, may_be_empty: set[TopicPartition]) -> Iterator[Message]:
        """Records that are certainly next: every partition has one waiting, or is at its end."""
        while self._heads and self._empty <= may_be_empty:
            _, partition, topic, _ = heapq.heappop(self._heads)
            key = TopicPartition(topic, partition)
            record = self._buffers[key].popleft()
            self._bytes[key] -= _size(record)
            if self._buffers[key]:
                self._push(self._buffers[key][0])
            else:
                self._empty.add(key)
            yield record

    def is_full(self, key: TopicPartition) -> bool:
        return len(self._buffers[key]) >= self._max_records or self._bytes[key] >= self._max_bytes

    def has_drained(self, key: TopicPartition) -> bool:
        """Whether to fill a full buffer again; well below full, since each pause discards prefetched records."""
        return len(self._buffers[key]) <= self._max_records // 4 and self._bytes[key] <= self._max_bytes // 4

    def is_empty(self) -> bool:
        return not self._heads

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        return self._buffers.keys()

    def _push(self, record: Message) -> None:
        heapq.heappush(self._heads, (record.timestamp_ms, record.partition, record.topic, record.offset))


def _size(record: Message) -> int:
    return len(record.key or b"") + len(record.value or b"")


def merge_records(
    settings: Settings,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int] | None,
    *,
    timeout_s: float | None,
    isolation: Isolation = READ_COMMITTED,
    make_merge: Callable[[Iterable[TopicPartition]], Merge] = Merge,
) -> Generator[Message, None, None]:
    """The records of all partitions ordered by timestamp; up to `ends` if given, until none arrives for `timeout_s`."""
    finished = {key for key, start in starts.items() if ends is not None and start >= ends[key]}
    merge = make_merge(starts)
    reader = AssignedReader(settings, starts, _READER | ({} if ends is None else UP_TO_END), isolation)
    paused: set[TopicPartition] = set()
    deadline = Deadline(timeout_s)
    try:
        while not (len(finished) == len(starts) and merge.is_empty()) and not deadline.has_passed():
            records = reader.poll(_CHUNK, deadline.wait_s() if len(finished) < len(starts) else 0)
            _add_all(merge, records, ends, finished)
            if ends is not None:
                finished |= reader.finished(ends)
            yield from merge.take(finished if ends is not None else reader.at_end)
            _hold_back(reader, merge, paused, finished)
            if records:
                deadline.start_over()
        yield from merge.take(set(starts))  # what a timeout left
    finally:
        reader.close()


def _add_all(
    merge: Merge,
    records: Iterable[Message],
    ends: Mapping[TopicPartition, int] | None,
    finished: set[TopicPartition],
) -> None:
    for record in records:
        key = TopicPartition(record.topic, record.partition)
        if ends is None or record.offset < ends[key]:
            merge.add(record)
        if ends is not None and record.offset + 1 >= ends[key]:
            finished.add(key)


def _hold_back(
    reader: AssignedReader, merge: Merge, paused: set[TopicPartition], finished: set[TopicPartition]
) -> None:
    """Pause partitions that are full or done, resume those that have drained."""
    for key in sorted(finished - paused):
        reader.pause(key)
        paused.add(key)
    for key in merge.partitions:
        if key not in paused and merge.is_full(key):
            reader.pause(key)
            paused.add(key)
        elif key in paused and key not in finished and merge.has_drained(key):
            reader.resume(key)
            paused.discard(key)
