"""The records of the transaction log: the durable state of each transactional id.

The log is compacted: the key is the transactional id, the last value of a key counts, and no value is a tombstone. How
they are written is in `encoding`. Their own order of fields is that of the old encoding in msgpack (`old_encoding`): a
field is only ever added at the end, with a default.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import msgspec

from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition


class State(IntEnum):
    """The state of a transactional id, with Kafka's numbers."""

    EMPTY = 0  # a producer has the id, and has begun nothing
    ONGOING = 1
    PREPARE_COMMIT = 2  # decided, and not in every partition yet
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """The name that clients see."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

    @property
    def is_commit(self) -> bool:
        """Whether the transaction ends, or ended, with a commit."""
        return self in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)


class Owner(NamedTuple):
    """The identity of a producer: its id, and the epoch that fences all lower ones."""

    producer_id: int
    producer_epoch: int

    def __str__(self) -> str:
        return f"producer {self.producer_id} at epoch {self.producer_epoch}"


class TransactionRecord(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A transactional id: its producer, and its transaction, if there is one."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: tuple[tuple[str, tuple[int, ...]], ...] = ()  # by topic; both in order
    start_ms: int = NO_TIMESTAMP  # of the transaction
    update_ms: int = NO_TIMESTAMP  # when this record was decided
    last_epoch: int = NO_PRODUCER_EPOCH  # the epoch before, of the same producer; -1: it was another's
    previous_producer_id: int = NO_PRODUCER_ID  # the id in the record before this
    next_producer_id: int = NO_PRODUCER_ID  # while prepared: takes over once complete, the epochs of the id are used up
    version: int = 0  # 2: the epoch rises with the end of each transaction (KIP-890)

    @property
    def owner(self) -> Owner:
        """The producer that may begin the next transaction: of a prepared one, that which its end was answered to."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Owner(self.next_producer_id, 0)
        return Owner(self.producer_id, self.producer_epoch)

    def partition_names(self) -> Iterator[TopicPartition]:
        """The partitions of the transaction, in order."""
        return (TopicPartition(topic, number) for topic, numbers in self.partitions for number in numbers)

    def has_partitions(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all of them are part of the transaction."""
        known = dict(self.partitions)
        return all(number in known.get(topic, ()) for topic, number in partitions)


class TransactionTombstone(NamedTuple):
    """A transactional id is deleted."""

    transactional_id: str


# What a decision writes and a log holds.
TransactionEntry: TypeAlias = TransactionRecord | TransactionTombstone
