"""The encoding of the transaction log: Kafka's TransactionLogKey and TransactionLogValue, version 1.

A key is the number of its type, 0, and the transactional id. The previous epoch, for which Kafka's value has no field,
is our own tagged field, which Kafka's tools ignore. Logs of earlier versions of Barnabas have keys and values in
msgpack (`old_encoding`), which are still read. The two cannot be confused: a key there begins with 0x92.
"""

from functools import lru_cache
from struct import Struct
from typing import Final

from barnabas.core.errors import InvalidTransactionRecord
from barnabas.core.log_fields import (
    INT16,
    INT32,
    INT64,
    OWN_TAGS,
    BadFields,
    FieldReader,
    compact_array,
    compact_string,
    int16_field,
    int32_array,
    int64_field,
    string,
    tagged_fields,
    uvarint,
)
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.core.transactions import old_encoding
from barnabas.core.transactions.records import State, TransactionEntry, TransactionRecord, TransactionTombstone

TYPE: Final = b"\0\0"
VALUE_VERSION: Final = 1
_PLAIN_VERSION: Final = 0  # not flexible: what older Kafkas write

PREVIOUS_PRODUCER_ID: Final = 0
NEXT_PRODUCER_ID: Final = 1
CLIENT_VERSION: Final = 2
LAST_EPOCH: Final = OWN_TAGS

_START: Final = Struct(">hqhib")  # version, producer id and epoch, timeout, state
_TIMES: Final = Struct(">qq")
_TAGGED_INT64: Final = Struct(">bbq")  # tag, size, number
_TAGGED_INT16: Final = Struct(">bbh")
_LAST_EPOCH_START: Final = uvarint(LAST_EPOCH) + uvarint(INT16.size)
_NO_TAGS: Final = tagged_fields()
_NULL_ARRAY: Final = b"\0"

Partitions = tuple[tuple[str, tuple[int, ...]], ...]


def encode_key(entry: TransactionEntry) -> bytes:
    """The key of an entry as it is in the log."""
    return TYPE + string(entry.transactional_id)


def encode_value(entry: TransactionEntry) -> bytes | None:
    """The value of an entry as it is in the log; None is a tombstone."""
    if isinstance(entry, TransactionTombstone):
        return None
    is_empty = entry.state is State.EMPTY and not entry.partitions  # Kafka writes null then
    return (
        _START.pack(VALUE_VERSION, entry.producer_id, entry.producer_epoch, entry.timeout_ms, entry.state)
        + (_NULL_ARRAY if is_empty else _encode_partitions(entry.partitions))
        + _TIMES.pack(entry.update_ms, entry.start_ms)
        + _encode_tagged(entry)
    )


@lru_cache(maxsize=1024)  # a transaction has the same ones from its beginning to its end, and often so has the next
def _encode_partitions(partitions: Partitions) -> bytes:
    return compact_array(partitions, lambda each: compact_string(each[0]) + int32_array(each[1]) + _NO_TAGS)


def _encode_tagged(record: TransactionRecord) -> bytes:
    count, fields = 0, b""
    if record.previous_producer_id != NO_PRODUCER_ID:
        count, fields = 1, _TAGGED_INT64.pack(PREVIOUS_PRODUCER_ID, INT64.size, record.previous_producer_id)
    if record.next_producer_id != NO_PRODUCER_ID:
        count, fields = count + 1, fields + _TAGGED_INT64.pack(NEXT_PRODUCER_ID, INT64.size, record.next_producer_id)
    if record.version:
        count, fields = count + 1, fields + _TAGGED_INT16.pack(CLIENT_VERSION, INT16.size, record.version)
    if record.last_epoch != NO_PRODUCER_EPOCH:
        count, fields = count + 1, fields + _LAST_EPOCH_START + INT16.pack(record.last_epoch)
    return bytes((count,)) + fields


def decode(key: bytes, value: bytes | None) -> TransactionEntry:
    """The entry that a record of the log stands for; refused if this version does not know it."""
    if old_encoding.is_old(key):
        return old_encoding.decode(key, value)
    if not key.startswith(TYPE):
        raise InvalidTransactionRecord(f"{len(key)} bytes are not a key of a record of transactions")
    try:
        transactional_id = _read_key(key)
        if value is None:
            return TransactionTombstone(transactional_id)
        return _read_value(transactional_id, FieldReader(value))
    except BadFields as bad:
        raise InvalidTransactionRecord(f"not a record of transactions: {bad}") from None


def _read_key(key: bytes) -> str:
    reader = FieldReader(key, len(TYPE))
    transactional_id = reader.string()
    reader.check_end()
    return transactional_id


def _read_value(transactional_id: str, reader: FieldReader) -> TransactionRecord:
    version, producer_id, producer_epoch, timeout_ms, state = reader.numbers(_START)
    if version not in (_PLAIN_VERSION, VALUE_VERSION):
        raise BadFields(f"unknown version {version} of a value")
    is_flexible = version != _PLAIN_VERSION
    partitions = _read_partitions(reader, is_flexible=is_flexible)
    update_ms, start_ms = reader.numbers(_TIMES)
    fields = reader.tagged_fields() if is_flexible else {}
    reader.check_end()
    return TransactionRecord(
        transactional_id,
        producer_id,
        producer_epoch,
        timeout_ms,
        _state_of(state),
        partitions,
        start_ms,
        update_ms,
        int16_field(fields, LAST_EPOCH, NO_PRODUCER_EPOCH),
        int64_field(fields, PREVIOUS_PRODUCER_ID, NO_PRODUCER_ID),
        int64_field(fields, NEXT_PRODUCER_ID, NO_PRODUCER_ID),
        int16_field(fields, CLIENT_VERSION, 0),
    )


def _state_of(number: int) -> State:
    try:
        return State(number)
    except ValueError:
        raise BadFields(f"{number} is not a known state of a transaction") from None


def _read_partitions(reader: FieldReader, *, is_flexible: bool) -> Partitions:
    if not is_flexible:
        return reader.array(max(reader.number(INT32), 0), lambda: _read_plain_topic(reader))
    count = reader.uvarint()
    return () if count == 0 else reader.array(count - 1, lambda: _read_topic(reader))


def _read_topic(reader: FieldReader) -> tuple[str, tuple[int, ...]]:
    topic, numbers = reader.compact_string(), reader.int32_array()
    reader.tagged_fields()
    return topic, numbers


def _read_plain_topic(reader: FieldReader) -> tuple[str, tuple[int, ...]]:
    return reader.string(), reader.array(reader.number(INT32), lambda: reader.number(INT32))
