"""Reading in a group where the caller commits: in a transaction, or after processing.

Owns which records were returned and not committed yet, and rewinding to the first of them. Offsets are committed
together with the member that read them, as it was then: if its partitions have moved to another member since, the
cluster refuses the commit, and nothing is done twice (KIP-447).
"""

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException

from barnabas.client.consuming import Deadline
from barnabas.client.errors import translate
from barnabas.client.group_reading import GroupReader
from barnabas.client.message import Message
from barnabas.client.settings import Settings
from barnabas.core.errors import InvalidRequest, RebalanceInProgress
from barnabas.core.model import TopicPartition

# A member that died is waited for no longer than a transaction that it left open.
_DEFAULTS: Final = {"session.timeout.ms": "10000"}
_ASK_S: Final = 15.0


class RewindableReader(GroupReader):
    """A member that commits nothing by itself, and can rewind to the committed offsets."""

    def __init__(self, settings: Settings, topics: Sequence[str], group: str, **more: Any) -> None:
        self._firsts: dict[TopicPartition, int] = {}  # of the records that are handed out and not committed
        self._nexts: dict[TopicPartition, int] = {}  # what is to be committed for them
        self._committed: dict[TopicPartition, int] = {}  # what was
        self._member: Any = None  # who read them
        self._lost: TopicPartition | None = None
        # Where to go back to with the next poll, and of which of these only the group knows what is committed.
        self._back_to: dict[TopicPartition, int] = {}
        self._unknown: set[TopicPartition] = set()
        # In the newer protocol of groups the broker says how long it waits.
        defaults = {} if settings.config.get("group.protocol") == "consumer" else _DEFAULTS
        super().__init__(settings, topics, group, mode="transactional", defaults=defaults, **more)

    def next_chunk(self, max_count: int | None, timeout_s: float) -> list[Message]:
        """Some records. They count as returned once `note_handed_out` is called."""
        if self._back_to:
            self._go_back_now()
        records = super().next_chunk(max_count, timeout_s)
        if not records or self._nexts:
            return records
        self._member = self._consumer.consumer_group_metadata()
        # Without a member id the cluster would take the commit from anybody. One that was lost comes back in a poll
        # only, so if there is one now there was one a line before.
        if not self._consumer.memberid():
            self._go_back(records)
            return []
        return records

    def note_handed_out(self, record: Message) -> None:
        key = TopicPartition(record.topic, record.partition)
        self._firsts.setdefault(key, record.offset)
        self._nexts[key] = record.offset + 1

    def uncommitted(self) -> tuple[list[Any], Any]:
        """The offsets to commit and the member to commit them for; refused if a partition was revoked meanwhile."""
        if self._lost is not None:
            raise RebalanceInProgress(f"the group has given {self._lost} to another member, or is about to")
        return [confluent_kafka.TopicPartition(*key, offset) for key, offset in self._nexts.items()], self._member

    def note_committed(self) -> None:
        self._committed |= self._nexts
        self._firsts, self._nexts = {}, {}

    def commit(self) -> None:
        """Commit the returned records, without a transaction; refused if a partition was revoked."""
        offsets, _ = self.uncommitted()
        if not offsets:
            return
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException as failure:
            raise translate(failure, "commit offsets") from None
        for answer in answers:
            if answer.error is not None:
                raise translate(answer.error, "commit offsets")
        self.note_committed()

    def rewind(self, *, ask: bool = False) -> list[TopicPartition]:
        """Read again what is not committed, of these partitions.

        `ask`: the committed offsets must be read from the group. Takes place at the next poll, so nothing can fail
        here.
        """
        self._at_end.difference_update(self._firsts)
        self._back_to |= self._firsts
        if ask:
            self._unknown |= self._firsts.keys()
        self._firsts, self._nexts, self._lost = {}, {}, None
        return sorted(self._back_to)

    def is_done(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether all records before `ends` in this member's partitions were returned."""
        position = self._committed | self._nexts
        left = [key for key in self._assigned - self._at_end if position.get(key, 0) < ends.get(key, 0)]
        return bool(self._assigned) and not left and not self._back_to

    def _go_back_now(self) -> None:
        if self._unknown:
            self._back_to |= self._ask_committed()
            self._unknown = set()
        for key, offset in list(self._back_to.items()):
            self._intake.forget(key)
            try:
                self._consumer.seek(confluent_kafka.TopicPartition(*key, offset))
            except KafkaException as failure:
                raise translate(failure, f"go back to offset {offset} of {key}") from None
            del self._back_to[key]

    def _ask_committed(self) -> dict[TopicPartition, int]:
        """The committed offsets of the group, with no transaction pending; without partitions that have none."""
        wanted = [confluent_kafka.TopicPartition(*key) for key in sorted(self._unknown)]
        try:
            found = self._consumer.committed(wanted, _ASK_S)
        except KafkaException as failure:
            raise translate(failure, "read the committed offsets") from None
        for each in found:
            if each.error is not None:
                raise translate(each.error, "read the committed offsets")
        return {TopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _forget(self, partitions: Sequence[Any]) -> None:
        super()._forget(partitions)
        for each in partitions:
            key = TopicPartition(each.topic, each.partition)
            self._firsts.pop(key, None)
            self._back_to.pop(key, None)
            self._unknown.discard(key)
            self._committed.pop(key, None)
            if self._nexts.pop(key, None) is not None:
                self._lost = key


class TransactionalReader(Generator[Message, None, None]):
    """Records of a group for `Transaction.commit_offsets`: an iterator that goes back when the transaction aborts."""

    def __init__(
        self,
        open_reader: Callable[[], RewindableReader],
        *,
        until_end: bool,
        max_records: int | None,
        timeout_s: float | None,
    ) -> None:
        self._open_reader = open_reader
        self._opened: RewindableReader | None = None  # when it is begun, for what is never begun is never ended
        self._is_closed = False
        self._buffer: deque[Message] = deque()
        self._until_end = until_end
        self._left = max_records
        self._uncommitted_count = 0
        self._deadline = Deadline(timeout_s)

    def __next__(self) -> Message:
        while (record := self.take()) is None:
            if not self.fill():
                raise StopIteration
        return record

    def fill(self) -> bool:
        """Wait a moment for records; False when there will be no more."""
        if self._is_closed or self._left == 0:
            return False
        reader = self._open()
        if self._deadline.has_passed() or (self._until_end and reader.is_at_end):
            return False
        self._buffer.extend(reader.next_chunk(self._left, self._deadline.wait_s()))
        if self._buffer:
            self._deadline.start_over()
        return True

    def take(self) -> Message | None:
        """The next of the records that are here; None if `fill` must be called first."""
        if self._is_closed or not self._buffer:
            return None
        record = self._buffer.popleft()
        self._open().note_handed_out(record)
        self._uncommitted_count += 1
        self._left = None if self._left is None else self._left - 1
        return record

    def uncommitted(self) -> tuple[list[Any], Any]:
        """As `RewindableReader`."""
        if self._is_closed:
            raise InvalidRequest("the reader is closed: commit its offsets before closing it")
        return self._open().uncommitted()

    def note_committed(self) -> None:
        self._uncommitted_count = 0
        self._open().note_committed()

    def rewind(self, *, ask: bool = False) -> None:
        """Return again what was returned and not committed; done automatically when a transaction aborts."""
        if self._is_closed:
            return
        gone = set(self._open().rewind(ask=ask))
        self._buffer = deque(each for each in self._buffer if TopicPartition(each.topic, each.partition) not in gone)
        self._left = None if self._left is None else self._left + self._uncommitted_count
        self._uncommitted_count = 0
        self._deadline.start_over()

    def close(self) -> None:
        """Leave the group at once; what was not committed will be read by another member."""
        self._is_closed = True
        self._buffer.clear()
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def send(self, _value: None, /) -> Message:
        return next(self)

    def throw(self, kind: Any, value: Any = None, _trace: Any = None, /) -> Message:
        self.close()
        raise kind if value is None else value

    def _open(self) -> RewindableReader:
        if self._opened is None:
            self._opened = self._open_reader()
            self._deadline.start_over()
        return self._opened
