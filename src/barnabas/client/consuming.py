"""Reading records from partitions that the reader assigns itself, from given offsets.

Owns where reading starts, when it ends, and reading one record by its offset. Reading in a group is in `group_reading`.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from barnabas.client.closing import READER_S, close_within
from barnabas.client.errors import RecordNotFound, Unreachable, reading_refusal, translate
from barnabas.client.intact import OF_NO_GROUP, Intake, Stalls, find_damage
from barnabas.client.message import Message, from_kafka
from barnabas.client.settings import READ_COMMITTED, Isolation, Settings
from barnabas.client.topics import EARLIEST, LATEST, Topics
from barnabas.core.errors import OffsetOutOfRange, UnknownTopicOrPartition
from barnabas.core.model import TopicPartition

Start: TypeAlias = Literal["earliest", "latest"] | int | Mapping[int, int]

_POLL_S: Final = 0.1  # how soon an interrupt or a timeout is noticed
_CHUNK: Final = 500
_AT_ONCE_S: Final = 1.0
# Where a marker is the last thing in a partition, the end is only heard of when a fetch has waited in vain.
UP_TO_END: Final = {"fetch.wait.max.ms": "50"}
_GET_SETTINGS: Final = {
    "queued.min.messages": "1",
    "fetch.message.max.bytes": "65536",
    "fetch.wait.max.ms": "10",
    "fetch.queue.backoff.ms": "1",
}


def pick_partitions(topics: Topics, names: Sequence[str], wanted: Sequence[int] | None) -> list[TopicPartition]:
    """The partitions to read: all of these topics, or the ones given, which must exist."""
    picked = []
    for name in names:
        ids = topics.partition_ids(name)
        missing = sorted(set(wanted or ()) - set(ids))
        if missing:
            raise UnknownTopicOrPartition(f"topic {name!r} has partitions 0..{len(ids) - 1}, not {missing[0]}")
        picked += [TopicPartition(name, id_) for id_ in (ids if wanted is None else sorted(set(wanted)))]
    return picked


def resolve_start(
    topics: Topics,
    partitions: Sequence[TopicPartition],
    offset: Start,
    timestamp_ms: int | None,
    *,
    committed: bool = True,
) -> dict[TopicPartition, int]:
    """The offset to start at in each partition: always a number, since librdkafka is far quicker with one."""
    if timestamp_ms is not None:
        found = topics.offsets_of(partitions, timestamp_ms, committed=committed)
        late = [key for key, at in found.items() if at < 0]  # nothing that new yet: wait for what comes
        return found | topics.offsets_of(late, LATEST, committed=committed)
    if offset == "earliest":
        return topics.offsets_of(partitions, EARLIEST)
    if offset == "latest":
        return topics.offsets_of(partitions, LATEST, committed=committed)
    if isinstance(offset, Mapping):
        rest = topics.offsets_of([key for key in partitions if key.partition not in offset], EARLIEST)
        return {key: _checked(key, offset.get(key.partition, rest.get(key, 0))) for key in partitions}
    if isinstance(offset, int):
        return {key: _checked(key, offset) for key in partitions}
    raise ValueError(f"offset is {offset!r}; it may be 'earliest', 'latest', a number or {{partition: number}}")


def _checked(key: TopicPartition, offset: int) -> int:
    if offset < 0:
        raise OffsetOutOfRange(f"offset {offset} of {key} is below 0")
    return offset


class AssignedReader:
    """A consumer of given partitions that knows which of them have reached their end."""

    def __init__(
        self,
        settings: Settings,
        starts: Mapping[TopicPartition, int],
        defaults: Mapping[str, str],
        isolation: Isolation = READ_COMMITTED,
    ) -> None:
        self._consumer: Consumer = settings.reader(defaults, isolation)
        self._consumer.assign([confluent_kafka.TopicPartition(*key, at) for key, at in starts.items()])
        self._intake = Intake(self._consumer, settings, isolation, OF_NO_GROUP)
        self._stalls = Stalls(settings, isolation)
        self._paused: set[TopicPartition] = set()
        self._partitions = tuple(starts)
        for key, at in starts.items():
            self._intake.expect(key, at)

    @property
    def at_end(self) -> set[TopicPartition]:
        """The partitions that have reached their end."""
        return self._intake.at_end

    def finished(self, ends: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """The partitions that have reached these ends. A replica that is behind the leader ends before them, and for a
        moment so does a new leader.
        """
        return {key for key in self.at_end if self._intake.ended_at[key] >= ends[key]}

    def poll(self, max_count: int, timeout_s: float) -> list[Message]:
        """Some records; raises `DamagedBatch` after the records before the damage."""
        self._intake.check()
        try:
            # Wait for the first and take what else is there: a chunk alone would be waited for until it is full.
            first = self._consumer.poll(timeout_s)
            found = [] if first is None else [first, *self._consumer.consume(max(max_count - 1, 1), 0)]
        except KafkaException as failure:
            raise translate(failure, "read") from None
        records = self._intake.take(found)
        if records:
            self._stalls.start_over()
            return records
        self._intake.check()
        if self._stalls.is_due:
            read = [key for key in self._partitions if key not in self._paused and key not in self.at_end]
            self._stalls.check({key: self._intake.next_offset(key) for key in read})
        return records

    def pause(self, key: TopicPartition) -> None:
        self._paused.add(key)
        self._consumer.pause([confluent_kafka.TopicPartition(*key)])

    def resume(self, key: TopicPartition) -> None:
        self._paused.discard(key)
        self._consumer.resume([confluent_kafka.TopicPartition(*key)])

    def close(self) -> None:
        close_within(self._consumer, READER_S)


class Deadline:
    """How long to wait for the next record; None: forever."""

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self.start_over()

    def start_over(self) -> None:
        self._at = None if self._timeout_s is None else time.monotonic() + self._timeout_s

    def wait_s(self) -> float:
        return _POLL_S if self._at is None else min(max(self._at - time.monotonic(), 0), _POLL_S)

    def has_passed(self) -> bool:
        return self._at is not None and time.monotonic() >= self._at


class AssignedRecords:
    """The records of given partitions, in chunks; up to `ends` if given, up to `max_records`, until none arrives for
    `timeout_s`.
    """

    def __init__(
        self,
        settings: Settings,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None,
        *,
        max_records: int | None,
        timeout_s: float | None,
        isolation: Isolation = READ_COMMITTED,
    ) -> None:
        self._ends = ends
        self._left = max_records
        self._unfinished = _unfinished(starts, ends)
        self._reader = AssignedReader(settings, starts, {} if ends is None else UP_TO_END, isolation)
        self._deadline = Deadline(timeout_s)
        self.close = self._reader.close

    def next_chunk(self) -> list[Message] | None:
        """The next records, perhaps none yet; None when there will be no more."""
        if not self._unfinished or self._left == 0 or self._deadline.has_passed():
            return None
        records = self._reader.poll(_CHUNK if self._left is None else min(self._left, _CHUNK), self._deadline.wait_s())
        if not records and self._ends is None:
            return records
        if records:
            self._deadline.start_over()
        if self._ends is not None:
            records = self._cut(records, self._ends)
            self._unfinished -= self._reader.finished(self._ends)
        self._left = None if self._left is None else self._left - len(records)
        return records

    def _cut(self, records: list[Message], ends: Mapping[TopicPartition, int]) -> list[Message]:
        """Those before the end; partitions whose last one is among them are finished."""
        kept = []
        for record in records:
            key = TopicPartition(record.topic, record.partition)
            if record.offset + 1 >= ends[key]:
                self._unfinished.discard(key)
            if record.offset < ends[key]:
                kept.append(record)
        return kept


def _unfinished(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int] | None) -> set[TopicPartition]:
    return {key for key, start in starts.items() if ends is None or start < ends[key]}


class RecordGetter:
    """Single records by their offset, over one consumer kept per isolation level; one caller at a time."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        self._settings = settings
        self._topics = topics
        self._consumers: dict[Isolation, Consumer] = {}
        self._lock = threading.Lock()

    def get(
        self, topic: str, partition: int, offset: int, timeout_s: float, isolation: Isolation = READ_COMMITTED
    ) -> Message:
        if offset < 0:
            raise RecordNotFound(f"no record has offset {offset}: offsets start at 0")
        key = TopicPartition(topic, partition)
        found = self._poll_at(topic, partition, offset, min(timeout_s, _AT_ONCE_S), isolation)
        if found is None:
            # librdkafka says nothing of an offset that is in an open transaction, behind what is stable.
            end = self._topics.offsets_of([key], LATEST, committed=isolation == READ_COMMITTED)[key]
            if offset >= end:
                raise RecordNotFound(f"{key} has no record at offset {offset}, or it is in an open transaction")
            find_damage(self._settings, key, (offset, offset + 1), isolation)
            found = self._poll_at(topic, partition, offset, timeout_s, isolation)
        _check_found(found, key, offset)
        return from_kafka(found, self._settings)

    def _poll_at(self, topic: str, partition: int, offset: int, timeout_s: float, isolation: Isolation) -> Any:
        with self._lock:
            if isolation not in self._consumers:
                self._consumers[isolation] = self._settings.reader(_GET_SETTINGS, isolation)
            consumer = self._consumers[isolation]
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            try:
                return _poll(consumer, timeout_s)
            finally:
                consumer.unassign()

    def close(self) -> None:
        with self._lock:
            for consumer in self._consumers.values():
                close_within(consumer, READER_S)
            self._consumers.clear()


def _poll(consumer: Consumer, timeout_s: float) -> Any:
    """The next message of a reader, but for what it hears of the group that it does not have."""
    until = time.monotonic() + timeout_s
    while True:
        found = consumer.poll(max(until - time.monotonic(), 0))
        error = None if found is None else found.error()
        if error is None or error.code() not in OF_NO_GROUP:
            return found


def _check_found(found: Any, key: TopicPartition, offset: int) -> None:
    """Refuse what was polled if it is not the requested record."""
    if found is None:
        raise Unreachable(f"no answer in time for {key} at offset {offset}")
    error = found.error()
    if error is not None:
        if error.code() in (KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise RecordNotFound(f"{key} has no record at offset {offset}: it is beyond the end or was deleted")
        raise reading_refusal(error, *key, found.offset())
    if found.offset() != offset:
        raise RecordNotFound(f"{key} has no record at offset {offset}; the next one is at {found.offset()}")
