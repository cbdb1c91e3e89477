"""Reading as a member of a group: partitions are assigned by the group, and what was read is committed to it.

Owns when a commit is made, which is what a delivery mode means. A record counts as processed when the next one is
requested. At least once: processed records are committed before more are read, and at the end; a consumer that dies, or
stops in the middle of a record, reads it again. At most once: a chunk is committed before any of it is returned; what a
consumer that dies had not processed is not read again. Transactional: nothing is committed here; a transaction does it,
see `rewindable`.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException

from barnabas.client.closing import MEMBER_S, close_within
from barnabas.client.consuming import Deadline
from barnabas.client.errors import translate
from barnabas.client.intact import Intake, Stalls
from barnabas.client.message import Message
from barnabas.client.settings import READ_COMMITTED, Isolation, Settings
from barnabas.core.model import TopicPartition

Mode: TypeAlias = Literal["at-least-once", "at-most-once", "transactional"]
MODES: Final[tuple[str, ...]] = get_args(Mode)
MAX_POLL_RECORDS: Final = 500
_ASK_S: Final = 5.0

# The group has given the partitions to somebody else, who reads them from the last commit.
_LOST: Final = frozenset(
    {
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._FENCED,
        KafkaError._STATE,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
    }
)
# What ends by itself: the member joins again, or the broker comes back.
_PASSING: Final = frozenset({KafkaError._MAX_POLL_EXCEEDED, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})


class GroupReader:
    """A member of a group that reads some topics, used by one thread."""

    def __init__(
        self,
        settings: Settings,
        topics: Sequence[str],
        group: str,
        *,
        mode: Mode,
        start: str,
        max_poll_records: int,
        isolation: Isolation = READ_COMMITTED,
        defaults: Mapping[str, str] | None = None,
        instance: str | None = None,
    ) -> None:
        self._is_at_most_once = mode == "at-most-once"
        self._max_poll_records = max_poll_records
        self._processed: dict[TopicPartition, int] = {}  # offsets that are to be committed
        self._assigned: set[TopicPartition] = set()
        self._consumer: Consumer = settings.member(
            group, start, isolation=isolation, defaults=defaults, instance=instance
        )
        self._intake = Intake(self._consumer, settings, isolation, _PASSING)
        self._at_end = self._intake.at_end
        self._stalls = Stalls(settings, isolation)
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    @property
    def is_at_end(self) -> bool:
        """Whether all assigned partitions have been read to their end, as far as is known."""
        return bool(self._assigned) and self._assigned <= self._at_end

    def next_chunk(self, max_count: int | None, timeout_s: float) -> list[Message]:
        """Some records; requesting them marks the records before as processed."""
        self.commit_processed()
        count = self._max_poll_records if max_count is None else min(max_count, self._max_poll_records)
        records = self._poll(count, timeout_s)
        if records and self._is_at_most_once and not self._commit(_ends_of(records)):
            self._go_back(records)
            return []
        return records

    def note_processed(self, record: Message) -> None:
        if not self._is_at_most_once:
            self._processed[TopicPartition(record.topic, record.partition)] = record.offset + 1

    def commit_processed(self) -> None:
        """Commit the processed records. If that fails now, they are read again, or committed with the next."""
        if self._processed and self._commit(self._processed):
            self._processed = {}

    def close(self) -> None:
        """Commit, and leave the group at once."""
        try:
            self.commit_processed()
        finally:
            close_within(self._consumer, MEMBER_S)

    def _poll(self, count: int, timeout_s: float) -> list[Message]:
        self._intake.check()
        try:
            first = self._consumer.poll(timeout_s)
            found = [] if first is None else [first]
            if first is not None and count > 1:
                found += self._consumer.consume(count - 1, 0)
        except KafkaException as failure:
            raise translate(failure, "read") from None
        records = self._intake.take(found)
        if records or not self._assigned:
            self._stalls.start_over()
            return records
        self._intake.check()
        if self._stalls.is_due:
            self._stalls.check(self._positions(self._assigned - self._at_end))
        return records

    def _positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The positions of these partitions, as far as they are known."""
        found = {key: self._intake.next_offset(key) for key in sorted(partitions)}
        unread = [confluent_kafka.TopicPartition(*key) for key, offset in found.items() if offset < 0]
        if unread:
            with contextlib.suppress(KafkaException):  # the broker is away: another time
                for each in self._consumer.committed(unread, _ASK_S):
                    found[TopicPartition(each.topic, each.partition)] = max(each.offset, -1)
        # Without a commit it begins at the start, where it is the first batch of all; or at the end, where is none.
        return {key: max(offset, 0) for key, offset in found.items()}

    def _go_back(self, records: Sequence[Message]) -> None:
        """These records were not returned: read them again, unless another member has their partition by now."""
        firsts = {(record.topic, record.partition): record.offset for record in reversed(records)}
        for key, offset in firsts.items():
            self._intake.forget(TopicPartition(*key))
            with contextlib.suppress(KafkaException):
                self._consumer.seek(confluent_kafka.TopicPartition(*key, offset))

    def _commit(self, offsets: dict[TopicPartition, int]) -> bool:
        """Whether the commit succeeded; not if another member has these partitions by now, or no broker answers."""
        wanted = [confluent_kafka.TopicPartition(*key, offset) for key, offset in offsets.items()]
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False) or []
            errors = [answer.error for answer in answers if answer.error is not None]
        except KafkaException as failure:
            errors = [failure.args[0]]
        for error in errors:
            if error.code() in _LOST:
                self._processed = {}
            elif not (error.retriable() or error.code() in _PASSING):
                raise translate(error, "commit offsets")
        return not errors

    # What librdkafka calls, while it is polled or closed

    def _on_assign(self, _consumer: Consumer, partitions: Sequence[Any]) -> None:
        added = {TopicPartition(each.topic, each.partition) for each in partitions}
        self._assigned |= added
        for key in added:
            self._intake.forget(key)

    def _on_revoke(self, _consumer: Consumer, partitions: Sequence[Any]) -> None:
        self.commit_processed()  # while they are still this member's
        self._forget(partitions)

    def _on_lost(self, _consumer: Consumer, partitions: Sequence[Any]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: Sequence[Any]) -> None:
        for each in partitions:
            key = TopicPartition(each.topic, each.partition)
            self._assigned.discard(key)
            self._intake.forget(key)
            self._processed.pop(key, None)


class GroupRecords:
    """The records of a member, in chunks; up to the end of its assignment, `max_records`, or until none arrives for
    `timeout_s`.
    """

    def __init__(
        self, reader: GroupReader, *, until_end: bool, max_records: int | None, timeout_s: float | None
    ) -> None:
        self._reader = reader
        self._until_end = until_end
        self._left = max_records
        self._deadline = Deadline(timeout_s)
        self.note_processed = reader.note_processed
        self.close = reader.close

    def next_chunk(self) -> list[Message] | None:
        """The next records, perhaps none yet; None when there will be no more."""
        if self._left == 0 or self._deadline.has_passed() or (self._until_end and self._reader.is_at_end):
            return None
        records = self._reader.next_chunk(self._left, self._deadline.wait_s())
        if records:
            self._left = None if self._left is None else self._left - len(records)
            self._deadline.start_over()
        return records


def _ends_of(records: Sequence[Message]) -> dict[TopicPartition, int]:
    return {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
