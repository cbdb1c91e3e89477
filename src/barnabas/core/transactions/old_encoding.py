"""The encoding of the transaction log of earlier versions of Barnabas, which is still read, and rewritten when a log is
loaded.

Key and value are msgpack arrays, the key begins with the number of the type, and the two joined are the record. Only
its keys are still written, to delete old records.
"""

from typing import Final

import msgspec

from barnabas.core.errors import InvalidTransactionRecord
from barnabas.core.transactions.records import TransactionEntry, TransactionRecord, TransactionTombstone

# An array of up to 15 elements has its length in the low bits of its first byte. A record stays within that, so that a
# key and a value are joined by writing one byte, and read by one typed decoder.
_FIXARRAY: Final = 0x90
_KEY_START: Final = bytes((_FIXARRAY + 2, 0))
_MAX_VALUE_FIELDS: Final = 15 - 2
assert len(TransactionRecord.__struct_fields__) - 1 <= _MAX_VALUE_FIELDS

_decoder: Final = msgspec.msgpack.Decoder(TransactionRecord)
_key_decoder: Final = msgspec.msgpack.Decoder(tuple[int, str])


def encode_key(entry: TransactionEntry) -> bytes:
    """The key that an entry has in an old log."""
    return msgspec.msgpack.encode((0, entry.transactional_id))


def is_old(key: bytes) -> bool:
    """Whether a key, and so the value under it, is of this encoding: a key of Kafka's begins with the byte 0."""
    return key[:1] == _KEY_START[:1]


def decode(key: bytes, value: bytes | None) -> TransactionEntry:
    """The entry that a record of the log stands for; refused if this version does not know it."""
    if not key.startswith(_KEY_START):
        raise InvalidTransactionRecord(f"{len(key)} bytes are not a key of a record of transactions")
    if value is None:
        return _decode_tombstone(key)
    if not value or not 0 <= value[0] - _FIXARRAY <= _MAX_VALUE_FIELDS:
        raise InvalidTransactionRecord(f"{len(value)} bytes are not a value of a record of transactions")
    joined = bytes((key[0] + value[0] - _FIXARRAY,)) + key[1:] + value[1:]
    try:
        return _decoder.decode(joined)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidTransactionRecord(
            f"{len(value)} bytes are not a value of a record of transactions: {error}"
        ) from None


def _decode_tombstone(key: bytes) -> TransactionTombstone:
    try:
        return TransactionTombstone(_key_decoder.decode(key)[1])
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidTransactionRecord(f"{len(key)} bytes are not a key of a record of transactions: {error}") from None
