"""Where a reader of a mirrored topic continues in the mirror: offsets differ, the header mirror.offset maps them.

Source offsets grow with the mirror's own in every partition, so each is found by halving, a few reads each. What was
read is cached: a later request, a little further on, needs fewer reads.

Only what is committed counts, and only up to the last stable offset: records of an open transaction come behind it,
so nobody who starts at an end that is told here misses them.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import confluent_kafka
from confluent_kafka import KafkaError

from barnabas.client.closing import READER_S, close_within
from barnabas.client.errors import translate as translate_error
from barnabas.client.message import headers_of
from barnabas.client.settings import Settings
from barnabas.client.topics import EARLIEST, LATEST, Topics
from barnabas.core.errors import InvalidRequest, RequestTimedOut
from barnabas.spark.pipelines.jobs import MIRROR_OFFSET_HEADER

_READ_S: Final = 10.0
_REMEMBERED: Final = 64
_ONE_RECORD: Final = {
    "queued.min.messages": "1",
    "fetch.message.max.bytes": "65536",
    "fetch.wait.max.ms": "10",
    "fetch.queue.backoff.ms": "1",
}


class Point(NamedTuple):
    """A record of the mirror: where it is, and where it was in the source."""

    offset: int
    source_offset: int


def find_crossing(first_at: Callable[[int], Point | None], wanted: int, low: int, high: int) -> int:
    """The first offset from `low` on where what follows, up to `high`, was at or after `wanted` in the source; else
    `high`. `first_at` gives the first record at or after an offset, None if there is none.

    The record before the answer, if there is one, was before `wanted`: also where a source was mirrored twice, one
    copy behind the other, nothing that is wanted is left out.
    """
    end = found = high
    while low < high:
        middle = (low + high) // 2
        point = first_at(middle)
        if point is not None and point.offset < high and point.source_offset < wanted:
            low = point.offset + 1
            continue
        high = middle
        if point is not None and point.offset < end:
            found = min(found, point.offset)
    return found


def translate(
    bootstrap: str, topic: str, offsets: Mapping[int, int], *, config: Mapping[str, str] | None = None
) -> dict[int, int]:
    """By partition, the offset in the mirror of the first record at or after an offset of the source.

    The end of the partition if the mirror has none yet: a reader that starts there misses nothing that comes later.
    """
    mirrored = MirroredTopic(Settings(bootstrap, "barnabas-mirror", dict(config or {})), topic)
    try:
        missing = sorted(set(offsets) - set(mirrored.partition_ids()))
        if missing:
            raise InvalidRequest(f"topic {topic!r} has no partition {missing[0]}")
        return mirrored.translate(offsets)
    finally:
        mirrored.close()


class MirroredTopic:
    """A topic that was mirrored, in the cluster that it was mirrored into. For one thread."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._topic = topic
        self._topics = Topics(settings.admin())
        self._consumer = settings.reader(_ONE_RECORD)
        self._points: dict[int, list[Point]] = {}

    def partition_ids(self) -> list[int]:
        return self._topics.partition_ids(self._topic)

    def translate(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """As `translate` above; all partitions must be there."""
        bounds = self._bounds(offsets)
        return {partition: self._find(partition, wanted, *bounds[partition]) for partition, wanted in offsets.items()}

    def close(self) -> None:
        close_within(self._consumer, READER_S)

    def _bounds(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        chosen = list(partitions)
        starts = self._topics.offsets(self._topic, chosen, EARLIEST)
        ends = self._topics.offsets(self._topic, chosen, LATEST, committed=True)
        return {partition: (starts[partition], ends[partition]) for partition in chosen}

    def _find(self, partition: int, wanted: int, start: int, end: int) -> int:
        known = [point for point in self._points.get(partition, ()) if start <= point.offset < end]
        low = max((point.offset + 1 for point in known if point.source_offset < wanted), default=start)
        high = min((point.offset for point in known if point.source_offset >= wanted), default=end)
        if low > high:  # mirrored twice: what is known of the one copy says nothing of the other
            low, high = start, end
        seen: list[Point] = []

        def first_at(offset: int) -> Point | None:
            point = self._first_at(partition, offset)
            if point is not None:
                seen.append(point)
            return point

        found = find_crossing(first_at, wanted, low, high)
        self._points[partition] = list(dict.fromkeys([*known, *seen]))[-_REMEMBERED:]
        return found

    def _first_at(self, partition: int, offset: int) -> Point | None:
        """The first committed record at or after an offset; None at the end. A timeout is raised."""
        deadline = time.monotonic() + _READ_S
        self._consumer.assign([confluent_kafka.TopicPartition(self._topic, partition, offset)])
        try:
            while time.monotonic() < deadline:
                message = self._consumer.poll(0.1)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    return Point(int(message.offset() or 0), self._source_offset(message))
                if error.code() == KafkaError._PARTITION_EOF:
                    return None
                raise translate_error(error, f"read {self._topic}-{partition} at offset {offset}")
        finally:
            self._consumer.unassign()
        raise RequestTimedOut(f"no answer within {_READ_S:.0f} s for {self._topic}-{partition} at offset {offset}")

    def _source_offset(self, message: Any) -> int:
        try:
            value = dict(headers_of(message) or ()).get(MIRROR_OFFSET_HEADER)
        except (SystemError, UnicodeDecodeError):  # a header whose name is not UTF-8 is none that a mirror writes
            value = None
        if value is None or not value.isdigit():
            raise InvalidRequest(
                f"record {message.partition()}:{message.offset()} of {self._topic} has no header {MIRROR_OFFSET_HEADER}"
            )
        return int(value)
