"""The encoding of the records of groups: Kafka's keys and values, so that Kafka's tools and lag monitors can read them.

A key is the number of its type, 16 bits, and plain fields. A value begins with its version: that which Kafka 4.3 writes
(offsets 4, classic groups 3, the others 0); older ones of Kafka are read too. The expiry of an offset, which only old
clients set, is our own tagged field in version 4: Kafka has a field for it in version 1 alone, which has none for
leader epoch and topic id. Logs of earlier versions of Barnabas have keys and values in msgpack (`old_encoding`), which
are still read. The two cannot be confused: a key there begins with 0x92 to 0x94, one of Kafka's with 0.

Offsets are most of any log, so they have a fast path, and a key is decoded once for many commits.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final, cast

from barnabas.core.errors import InvalidGroupRecord
from barnabas.core.groups import old_encoding
from barnabas.core.groups.consumer.encoding import CONSUMER_VALUES
from barnabas.core.groups.records import (
    NO_EXPIRY,
    NO_TOPIC_ID,
    ClassicGroupRecord,
    ClassicMember,
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
    ShareCurrentMemberRecord,
    ShareGroupRecord,
    ShareMemberRecord,
    ShareStatesRecord,
    ShareTargetEpochRecord,
    ShareTargetMemberRecord,
    key_of,
)
from barnabas.core.groups.share.encoding import SHARE_VALUES
from barnabas.core.log_fields import (
    INT16,
    INT32,
    INT64,
    OWN_TAGS,
    BadFields,
    FieldReader,
    Tagged,
    compact_string,
    data_field,
    int64_field,
    nullable_string,
    string,
    tagged_fields,
    uuid_of,
)

Key = tuple[str | int, ...]

# Kafka's numbers of types.
TYPES: Final[dict[type[GroupRecord], int]] = {
    OffsetRecord: 1,
    ClassicGroupRecord: 2,
    ConsumerGroupRecord: 3,
    ConsumerMemberRecord: 5,
    ConsumerTargetEpochRecord: 6,
    ConsumerTargetMemberRecord: 7,
    ConsumerCurrentMemberRecord: 8,
    ShareMemberRecord: 10,
    ShareGroupRecord: 11,
    ShareTargetEpochRecord: 12,
    ShareTargetMemberRecord: 13,
    ShareCurrentMemberRecord: 14,
    ShareStatesRecord: 15,
    ConsumerRegexRecord: 16,
}
_BY_TYPE: Final = {number: of for of, number in TYPES.items()}
_OFFSET_PREFIX: Final = INT16.pack(TYPES[OffsetRecord])
_KEY_CACHE: Final = 8192
_MODERN_VALUES: Final = {**CONSUMER_VALUES, **SHARE_VALUES}  # of groups whose coordinator assigns

OFFSET_VERSION: Final = 4
GROUP_VERSION: Final = 3
_FLEXIBLE_GROUP: Final = 4
TOPIC_ID: Final = 0  # the tag
EXPIRE_TIME: Final = OWN_TAGS

_OFFSET_START: Final = Struct(">hqi")  # version, offset, leader epoch
_METADATA_AT: Final = _OFFSET_START.size
_SHORT: Final = 0x7F  # a length that is one byte, as it is written
_TOPIC_ID_ONLY: Final = b"\x01\x00\x10"  # one field, tag 0, 16 bytes
_TOPIC_ID_AT: Final = len(_TOPIC_ID_ONLY)
_NO_TAGS: Final = b"\0"


# Keys


def encode_key(entry: GroupEntry) -> bytes:
    """The key of an entry as it is in the log."""
    if isinstance(entry, OffsetRecord):
        return _offset_key(entry.group, entry.topic, entry.partition)
    if isinstance(entry, GroupTombstone):
        return _key(entry.of, entry.key)
    return _key(type(entry), key_of(entry))


@lru_cache(maxsize=_KEY_CACHE)
def _offset_key(group: str, topic: str, partition: int) -> bytes:
    return _OFFSET_PREFIX + string(group) + string(topic) + INT32.pack(partition)


def _key(of: type[GroupRecord], fields: Key) -> bytes:
    return INT16.pack(TYPES[of]) + b"".join(
        string(field) if isinstance(field, str) else INT32.pack(field) for field in fields
    )


@lru_cache(maxsize=_KEY_CACHE)
def _read_key(key: bytes) -> tuple[type[GroupRecord], Key]:
    reader = FieldReader(key)
    number = reader.number(INT16)
    of = _BY_TYPE.get(number)
    if of is None:
        raise BadFields(f"{number} is not a record type known to this version")
    if of is OffsetRecord:
        fields: Key = (reader.string(), reader.string(), reader.number(INT32))
    else:
        fields = tuple(reader.string() for _ in range(of.KEY_FIELDS))
    reader.check_end()
    return of, fields


# Values


def encode_value(entry: GroupEntry) -> bytes | None:
    """The value of an entry as it is in the log; None is a tombstone."""
    if isinstance(entry, OffsetRecord):
        return _encode_offset(entry)
    if isinstance(entry, GroupTombstone):
        return None
    if isinstance(entry, ClassicGroupRecord):
        return _encode_classic(entry)
    return _MODERN_VALUES[type(entry)].encode(entry)


def decode(key: bytes, value: bytes | None) -> GroupEntry:
    """The entry that a record of the log stands for; refused if this version does not know it."""
    if old_encoding.is_old(key):
        return old_encoding.decode(key, value)
    try:
        of, fields = _read_key(key)
        if value is None:
            return GroupTombstone(of, fields)
        if of is OffsetRecord:
            return _read_offset(fields, value)
        return _READERS[of](fields, FieldReader(value))
    except BadFields as bad:
        raise InvalidGroupRecord(f"not a record of groups: {bad}") from None


def _encode_offset(record: OffsetRecord) -> bytes:
    start = _OFFSET_START.pack(OFFSET_VERSION, record.offset, record.leader_epoch)
    if record.expire_time_ms != NO_EXPIRY:
        tagged: list[Tagged] = [(TOPIC_ID, record.topic_id.bytes)] if record.topic_id != NO_TOPIC_ID else []
        tagged.append((EXPIRE_TIME, INT64.pack(record.expire_time_ms)))
        end = tagged_fields(tagged)
    else:
        end = _NO_TAGS if record.topic_id == NO_TOPIC_ID else _TOPIC_ID_ONLY + record.topic_id.bytes
    metadata = b"\x01" if not record.metadata else compact_string(record.metadata)
    return start + metadata + INT64.pack(record.commit_time_ms) + end


def _read_offset(key: Key, value: bytes) -> OffsetRecord:
    if len(value) > _METADATA_AT and value[0] == 0 and value[1] == OFFSET_VERSION and 0 < value[_METADATA_AT] <= _SHORT:
        _, offset, leader_epoch = _OFFSET_START.unpack_from(value)
        time_at = _METADATA_AT + value[_METADATA_AT]
        tags_at = time_at + INT64.size
        tags = value[tags_at : tags_at + _TOPIC_ID_AT]
        is_short = tags == _NO_TAGS and len(value) == tags_at + 1
        if is_short or (tags == _TOPIC_ID_ONLY and len(value) == tags_at + _TOPIC_ID_AT + 16):
            try:
                metadata = value[_METADATA_AT + 1 : time_at].decode()
            except UnicodeDecodeError as error:
                raise BadFields(f"a string is not UTF-8: {error}") from None
            (commit_time_ms,) = INT64.unpack_from(value, time_at)
            topic_id = NO_TOPIC_ID if is_short else uuid_of(value[tags_at + _TOPIC_ID_AT :])
            group, topic, partition = cast("tuple[str, str, int]", key)
            return OffsetRecord(
                group, topic, partition, offset, leader_epoch, metadata, commit_time_ms, NO_EXPIRY, topic_id
            )
    return _read_any_offset(key, FieldReader(value))


def _read_any_offset(key: Key, reader: FieldReader) -> OffsetRecord:
    version = _read_version(reader, OFFSET_VERSION)
    offset = reader.number(INT64)
    leader_epoch = reader.number(INT32) if version >= 3 else -1
    metadata = reader.compact_string() if version >= OFFSET_VERSION else reader.string()
    commit_time_ms = reader.number(INT64)
    expire_time_ms, topic_id = NO_EXPIRY, NO_TOPIC_ID
    if version == 1:
        expire_time_ms = reader.number(INT64)
    elif version >= OFFSET_VERSION:
        fields = reader.tagged_fields()
        expire_time_ms = int64_field(fields, EXPIRE_TIME, NO_EXPIRY)
        if TOPIC_ID in fields:
            topic_id = FieldReader(fields[TOPIC_ID]).uuid()
    reader.check_end()
    group, topic, partition = cast("tuple[str, str, int]", key)
    return OffsetRecord(
        group, topic, partition, offset, leader_epoch, metadata, commit_time_ms, expire_time_ms, topic_id
    )


def _encode_classic(record: ClassicGroupRecord) -> bytes:
    return b"".join(
        (
            INT16.pack(GROUP_VERSION),
            string(record.protocol_type),
            INT32.pack(record.generation),
            nullable_string(record.protocol),
            nullable_string(record.leader),
            INT64.pack(record.state_time_ms),
            INT32.pack(len(record.members)),
            *map(_encode_member, record.members),
        )
    )


def _encode_member(member: ClassicMember) -> bytes:
    return b"".join(
        (
            string(member.member_id),
            nullable_string(member.instance_id),
            string(member.client_id),
            string(member.client_host),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.session_timeout_ms),
            data_field(member.subscription),
            data_field(member.assignment),
        )
    )


def _read_classic(key: Key, reader: FieldReader) -> ClassicGroupRecord:
    version = _read_version(reader, _FLEXIBLE_GROUP)
    flexible = version == _FLEXIBLE_GROUP
    nullable = reader.compact_nullable_string if flexible else reader.nullable_string
    protocol_type = reader.compact_string() if flexible else reader.string()
    generation = reader.number(INT32)
    protocol, leader = nullable(), nullable()
    state_time_ms = reader.number(INT64) if version >= 2 else -1
    count = reader.uvarint() - 1 if flexible else reader.number(INT32)
    members = reader.array(count, lambda: _read_member(reader, version))
    if flexible:
        reader.tagged_fields()
    reader.check_end()
    return ClassicGroupRecord(str(key[0]), protocol_type, generation, protocol, leader, state_time_ms, members)


def _read_member(reader: FieldReader, version: int) -> ClassicMember:
    flexible = version == _FLEXIBLE_GROUP
    text = reader.compact_string if flexible else reader.string
    nullable = reader.compact_nullable_string if flexible else reader.nullable_string
    data = reader.compact_data if flexible else reader.data_field
    member_id = text()
    instance_id = nullable() if version >= GROUP_VERSION else None
    client_id, client_host = text(), text()
    rebalance_timeout_ms = reader.number(INT32) if version >= 1 else None
    session_timeout_ms = reader.number(INT32)
    subscription, assignment = data(), data()
    if flexible:
        reader.tagged_fields()
    return ClassicMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )


def _read_version(reader: FieldReader, last: int) -> int:
    version = reader.number(INT16)
    if not 0 <= version <= last:
        raise BadFields(f"unknown version {version} of a value")
    return version


def _read_modern(of: type[GroupRecord]) -> Callable[[Key, FieldReader], GroupRecord]:
    read: Callable[..., GroupRecord] = _MODERN_VALUES[of].read

    def read_versioned(key: Key, reader: FieldReader) -> GroupRecord:
        _read_version(reader, 0)
        record = read(reader, *map(str, key))
        reader.check_end()
        return record

    return read_versioned


_READERS: Final[dict[type[GroupRecord], Callable[[Any, FieldReader], GroupRecord]]] = {
    ClassicGroupRecord: _read_classic,
    **{of: _read_modern(of) for of in _MODERN_VALUES},
}
