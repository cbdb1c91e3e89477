"""The records of the transaction log: what is kept of each transactional id when its coordinator moves.

Owns their encoding. The log is compacted: the key is the transactional id, the last value of a key counts, and no value
is a tombstone. Key and value are msgpack arrays, the key begins with the number of the type (Kafka's), and the two
joined are the record. A field is only ever added at the end, with a default, so that older records can be read for
ever; the fields of a key never change.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from barnabas.core.errors import InvalidTransactionRecord
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition


class State(IntEnum):
    """Where a transactional id stands; Kafka's numbers."""

    EMPTY = 0  # a producer has the id, and has begun nothing
    ONGOING = 1
    PREPARE_COMMIT = 2  # decided, and not in every partition yet
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """The name that clients read."""
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


class Producer(NamedTuple):
    """A producer as brokers tell it apart: its id, and the epoch that replaces all lower ones."""

    producer_id: int
    epoch: int


class TransactionRecord(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A transactional id: its producer, and its transaction, if there is one."""

    transactional_id: str
    producer_id: int
    epoch: int
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
    def owner(self) -> Producer:
        """The producer that may begin the next transaction: of a prepared one, that which was told of its end."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Producer(self.next_producer_id, 0)
        return Producer(self.producer_id, self.epoch)

    def partition_names(self) -> Iterator[TopicPartition]:
        """The partitions of the transaction, in order."""
        return (TopicPartition(topic, number) for topic, numbers in self.partitions for number in numbers)

    def has_partitions(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all of them are part of the transaction."""
        known = dict(self.partitions)
        return all(number in known.get(topic, ()) for topic, number in partitions)


class TransactionTombstone(NamedTuple):
    """Nothing more is known of a transactional id."""

    transactional_id: str


# What a decision writes and a log holds.
TransactionEntry: TypeAlias = TransactionRecord | TransactionTombstone

# An array of up to 15 elements has its length in the low bits of its first byte. A record stays within that, so that a
# key and a value are joined by writing one byte, and read by one typed decoder.
_FIXARRAY: Final = 0x90
_KEY_START: Final = bytes((_FIXARRAY + 2, 0))
_MAX_VALUE_FIELDS: Final = 15 - 2
assert len(TransactionRecord.__struct_fields__) - 1 <= _MAX_VALUE_FIELDS

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(TransactionRecord)
_key_decoder: Final = msgspec.msgpack.Decoder(tuple[int, str])


def encode_key(entry: TransactionEntry) -> bytes:
    """The key of an entry as it is in the log."""
    return _encoder.encode((0, entry.transactional_id))


def encode_value(entry: TransactionEntry) -> bytes | None:
    """The value of an entry as it is in the log; None is a tombstone."""
    if isinstance(entry, TransactionTombstone):
        return None
    return _encoder.encode(msgspec.structs.astuple(entry)[1:])


def decode(key: bytes, value: bytes | None) -> TransactionEntry:
    """The entry that a record of the log is; refused when it is none that this version knows."""
    if not key.startswith(_KEY_START):
        raise InvalidTransactionRecord(f"{len(key)} bytes are no key of a record of transactions")
    if value is None:
        return _decode_tombstone(key)
    if not value or not 0 <= value[0] - _FIXARRAY <= _MAX_VALUE_FIELDS:
        raise InvalidTransactionRecord(f"{len(value)} bytes are no value of a record of transactions")
    joined = bytes((key[0] + value[0] - _FIXARRAY,)) + key[1:] + value[1:]
    try:
        return _decoder.decode(joined)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidTransactionRecord(
            f"{len(value)} bytes are no value of a record of transactions: {error}"
        ) from None


def _decode_tombstone(key: bytes) -> TransactionTombstone:
    try:
        return TransactionTombstone(_key_decoder.decode(key)[1])
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidTransactionRecord(f"{len(key)} bytes are no key of a record of transactions: {error}") from None
