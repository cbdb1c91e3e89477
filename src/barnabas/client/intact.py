"""Reading stops at damage: the records returned from a partition end before its first damaged batch.

Owns the detection of damaged batches. A checksum covers a batch but for its offset and its length, so these are
compared with what is around them: offsets of a partition only grow, and are below its high watermark. A batch whose
length is damaged is never whole, and one that its broker cannot read is refused with an error that may pass. librdkafka
retries both forever without an error: `Stalls` finds out why nothing arrives.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from barnabas.client.errors import DamagedBatch, Unreadable, reading_refusal
from barnabas.client.message import Message, from_kafka
from barnabas.client.settings import READ_COMMITTED, Isolation, Settings
from barnabas.core.errors import BarnabasError, CorruptRecord, UnsupportedRecordFormat
from barnabas.core.model import TopicPartition
from barnabas.core.records.batch import HEADER_SIZE, MAGIC_AT, Buffer, check_crc, check_magic, read_header

_STALL_S: Final = 5.0
_NEVER_READ: Final = -1
_OLD_FORMATS: Final = (0, 1)


OF_NO_GROUP: Final = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED})
"""What a reader without a group passes over: librdkafka looks for a coordinator all the same, and a user may read a
topic without a right to any group.
"""


class Intake:
    """The polled messages as records: of each partition those before its first damaged batch.

    `at_end` has the partitions that have reached their end. An error in a partition ends it, until `forget`.
    """

    def __init__(
        self, consumer: Consumer, settings: Settings, isolation: Isolation, passing: frozenset[int] = frozenset()
    ) -> None:
        self._consumer = consumer
        self._settings = settings
        self._isolation = isolation
        self._passing = passing
        self._nexts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._refused: dict[TopicPartition, BarnabasError] = {}
        self.at_end: set[TopicPartition] = set()
        self.ended_at: dict[TopicPartition, int] = {}  # where those were last found to end

    def take(self, polled: Iterable[Any]) -> list[Message]:
        """The records among these messages; errors are kept for `check`."""
        records: list[Message] = []
        topic, partition, next_offset = "", -1, _NEVER_READ
        for message in polled:
            if message.error() is not None:
                self._note(message)
                continue
            record = from_kafka(message, self._settings)
            if record.offset == next_offset and record.partition == partition and record.topic == topic:
                next_offset += 1  # the common case: nothing to look up
            else:
                self.expect(TopicPartition(topic, partition), next_offset)
                next_offset = _NEVER_READ
                if not self._is_in_order(TopicPartition(record.topic, record.partition), record.offset):
                    continue
                topic, partition, next_offset = record.topic, record.partition, record.offset + 1
            records.append(record)
        self.expect(TopicPartition(topic, partition), next_offset)
        return records

    def check(self) -> None:
        """Raise the error of a partition. Damage is raised every time, since librdkafka goes on after it."""
        for key, refusal in list(self._refused.items()):
            if not isinstance(refusal, (DamagedBatch, Unreadable)):
                del self._refused[key]
            raise refusal

    def expect(self, key: TopicPartition, offset: int) -> None:
        """Set the offset at which the next record of a partition is expected; negative: unknown."""
        if offset >= 0:
            self._nexts[key] = offset

    def next_offset(self, key: TopicPartition) -> int:
        """The offset at which the next record of a partition is expected; negative: unknown."""
        return self._nexts.get(key, _NEVER_READ)

    def forget(self, key: TopicPartition) -> None:
        """A partition is read from another offset, or no longer read."""
        self._nexts.pop(key, None)
        self._ends.pop(key, None)
        self._refused.pop(key, None)
        self.at_end.discard(key)

    def _is_in_order(self, key: TopicPartition, offset: int) -> bool:
        """Whether a record can be the next of its partition."""
        if key in self._refused:
            return False
        self.at_end.discard(key)
        expected = self._nexts.get(key, 0)
        if offset < expected or (offset >= self._ends.get(key, 0) and offset >= self._look_for_end(key, offset)):
            self._doubt(key, expected)
        return key not in self._refused

    def _look_for_end(self, key: TopicPartition, offset: int) -> int:
        """The high watermark of the last fetch."""
        try:
            found = self._consumer.get_watermark_offsets(confluent_kafka.TopicPartition(*key), cached=True)
        except KafkaException:
            found = None
        end = int(found[1]) if found and found[1] >= 0 else offset + 1  # not known: it is believed
        self._ends[key] = end
        return end

    def _doubt(self, key: TopicPartition, expected: int) -> None:
        """An impossible offset: the batch is damaged, or the partition was replaced by another."""
        try:
            find_damage(self._settings, key, (max(expected - 1, 0), expected + 1), self._isolation)
        except (DamagedBatch, Unreadable) as damage:
            self._refused[key] = damage

    def _note(self, message: Any) -> None:
        key = TopicPartition(message.topic() or "?", message.partition())
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            if key not in self._refused:
                self.at_end.add(key)
                self.ended_at[key] = message.offset()
        elif error.code() not in self._passing:
            self._refused.setdefault(key, reading_refusal(error, *key, message.offset()))


class Stalls:
    """Notices that nothing arrives, and checks whether damage is the reason."""

    def __init__(self, settings: Settings, isolation: Isolation) -> None:
        self._settings = settings
        self._isolation = isolation
        self.start_over()

    def start_over(self) -> None:
        self._at = time.monotonic() + _STALL_S

    @property
    def is_due(self) -> bool:
        """Whether nothing has arrived for a while."""
        return time.monotonic() >= self._at

    def check(self, positions: Mapping[TopicPartition, int]) -> None:
        """Raise the damage at these offsets, of partitions that are not at their end, if there is any."""
        for key, offset in positions.items():
            find_damage(self._settings, key, (offset, offset + 1), self._isolation)
        self.start_over()


def find_damage(settings: Settings, key: TopicPartition, offsets: tuple[int, int], isolation: Isolation) -> None:
    """Read some records without librdkafka; raise `DamagedBatch` or `Unreadable` if they are, ignore other errors."""
    from barnabas.client.fetcher import Fetcher  # noqa: PLC0415 - brings kio, for few

    fetcher = Fetcher(settings, key.topic, committed=isolation == READ_COMMITTED, patience_s=0)
    try:
        for _ in fetcher.read({key.partition: offsets}):
            pass
    except (DamagedBatch, Unreadable):
        raise
    except BarnabasError:
        return
    finally:
        fetcher.close()


def intact_part(
    key: TopicPartition, records: Buffer, offsets: tuple[int, int], *, is_reached: bool, high_watermark: int
) -> tuple[Buffer, int | None, DamagedBatch | None]:
    """Split fetched bytes: the part before any damage, the offset after its last whole batch, and the damage.

    Of the batches within `offsets` the checksum is compared. `is_reached`: the batch before the first of them was read,
    and nothing may begin before its end.
    """
    start, end = offsets
    at, next_offset = 0, start if is_reached else None
    view = memoryview(records)
    while len(view) - at >= HEADER_SIZE:
        try:
            header = read_header(view, at)
            if at + header.size > len(view):
                break
            if next_offset is not None and header.base_offset < next_offset:
                raise CorruptRecord(f"its header says that it begins at offset {header.base_offset}")
            if 0 <= high_watermark <= header.base_offset:
                raise CorruptRecord(f"its header says that it begins at offset {header.base_offset}, behind the end")
            if header.last_offset_delta < 0 or (header.last_offset >= start and header.base_offset < end):
                check_crc(view, at, header)
        except (CorruptRecord, UnsupportedRecordFormat) as error:
            if view[at + MAGIC_AT] in _OLD_FORMATS:
                raise
            damage = DamagedBatch(*key, start if next_offset is None else next_offset, str(error))
            return view[:at], next_offset if at else None, damage
        at += header.size
        next_offset = header.next_offset
    if at == 0 and records:
        if len(view) > MAGIC_AT and view[MAGIC_AT] in _OLD_FORMATS:
            check_magic(view[MAGIC_AT])  # says so: a whole batch of these may be that short
        why = f"its header says that it is longer than its {len(view)} bytes"
        return view[:0], None, DamagedBatch(*key, start, why)
    return records, next_offset if at else None, None
