"""Records of groups and transactions as earlier versions wrote them: keys and values in msgpack."""

import msgspec

from barnabas.core.groups import old_encoding as old_groups
from barnabas.core.groups.records import GroupEntry, GroupTombstone
from barnabas.core.transactions import old_encoding as old_transactions
from barnabas.core.transactions.records import TransactionEntry, TransactionTombstone

_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")


def old_group_pair(entry: GroupEntry) -> tuple[bytes, bytes | None]:
    """Key and value of an entry of groups."""
    if isinstance(entry, GroupTombstone):
        return old_groups.encode_key(entry), None
    return old_groups.encode_key(entry), _encoder.encode(msgspec.structs.astuple(entry)[entry.KEY_FIELDS :])


def old_transaction_pair(entry: TransactionEntry) -> tuple[bytes, bytes | None]:
    """Key and value of an entry of transactions."""
    if isinstance(entry, TransactionTombstone):
        return old_transactions.encode_key(entry), None
    return old_transactions.encode_key(entry), _encoder.encode(msgspec.structs.astuple(entry)[1:])
