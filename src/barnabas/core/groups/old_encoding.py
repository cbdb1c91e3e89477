"""The encoding of groups of earlier versions of Barnabas, which is still read, and rewritten when a log is loaded.

Key and value are msgpack arrays, the key begins with the number of the type (Kafka's), and the two joined are the
record. Only its keys are still written, to delete old records.
"""

from typing import Final

import msgspec

from barnabas.core.errors import InvalidGroupRecord
from barnabas.core.groups.records import (
    ClassicGroupRecord,
    ConsumerCurrentMemberRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRegexRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetMemberRecord,
    GroupEntry,
    GroupRecord,
    GroupTombstone,
    OffsetRecord,
    key_of,
)

_TYPES: Final[tuple[type[GroupRecord], ...]] = (
    OffsetRecord,
    ClassicGroupRecord,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerTargetEpochRecord,
    ConsumerTargetMemberRecord,
    ConsumerCurrentMemberRecord,
    ConsumerRegexRecord,
)
_TAGS: Final[dict[type[GroupRecord], int]] = {of: int(str(of.__struct_config__.tag)) for of in _TYPES}
_BY_TAG: Final = {tag: of for of, tag in _TAGS.items()}
_KEY_TYPES: Final[dict[type[GroupRecord], tuple[type, ...]]] = {of: (str, str, int)[: of.KEY_FIELDS] for of in _TYPES}

# An array of up to 15 elements has its length in the low bits of its first byte. Records stay within that, so that a
# key and a value are joined by writing one byte, and read by one typed decoder.
_FIXARRAY: Final = 0x90
_MAX_FIELDS: Final = 15
assert all(1 + len(of.__struct_fields__) <= _MAX_FIELDS for of in _TYPES)

_decoder: Final = msgspec.msgpack.Decoder(GroupRecord)
_key_decoder: Final = msgspec.msgpack.Decoder(list[int | str])


def encode_key(entry: GroupEntry) -> bytes:
    """The key that an entry has in an old log."""
    if isinstance(entry, GroupTombstone):
        return msgspec.msgpack.encode((_TAGS[entry.of], *entry.key))
    return msgspec.msgpack.encode((_TAGS[type(entry)], *key_of(entry)))


def is_old(key: bytes) -> bool:
    """Whether a key, and so the value under it, is of this encoding: a key of Kafka's begins with the byte 0."""
    return len(key) > 0 and key[0] >= _FIXARRAY


def decode(key: bytes, value: bytes | None) -> GroupEntry:
    """The entry that a record of the log is; refused when it is none that this version knows."""
    of = _type_of(key)
    if value is None:
        return _decode_tombstone(of, key)
    if not value or not 0 <= value[0] - _FIXARRAY <= _MAX_FIELDS - 1 - of.KEY_FIELDS:
        raise InvalidGroupRecord(f"{len(value)} bytes are not a value of a {of.__name__}")
    joined = bytes((key[0] + value[0] - _FIXARRAY,)) + key[1:] + value[1:]
    try:
        record: GroupRecord = _decoder.decode(joined)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidGroupRecord(f"{len(value)} bytes are not a value of a {of.__name__}: {error}") from None
    return record


def _type_of(key: bytes) -> type[GroupRecord]:
    # All numbers of types are below 128, which msgpack writes as one byte.
    of = _BY_TAG.get(key[1]) if len(key) > 1 else None
    if of is None or key[0] != _FIXARRAY + 1 + of.KEY_FIELDS:
        raise InvalidGroupRecord(f"{len(key)} bytes are not a key of a record of groups known to this version")
    return of


def _decode_tombstone(of: type[GroupRecord], key: bytes) -> GroupTombstone:
    try:
        fields = _key_decoder.decode(key)[1:]
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidGroupRecord(f"{len(key)} bytes are not a key of a {of.__name__}: {error}") from None
    if tuple(map(type, fields)) != _KEY_TYPES[of]:
        raise InvalidGroupRecord(f"{fields} is not a key of a {of.__name__}")
    return GroupTombstone(of, tuple(fields))
