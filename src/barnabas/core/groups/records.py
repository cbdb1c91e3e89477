"""The records of the coordinator log: what is kept of groups and offsets when a coordinator moves.

Owns their encoding. The log is compacted, so each record is a key and a value, and the last value of a key counts; no
value is a tombstone. Key and value are msgpack arrays, the key begins with the number of the type (Kafka's), and the
two joined are the record. A field is only ever added at the end, with a default, so that older records can be read for
ever; the fields of a key never change. A type that is not known is refused.
"""

from typing import ClassVar, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from barnabas.core.errors import InvalidGroupRecord

NO_TOPIC_ID: Final = UUID(int=0)
NO_EXPIRY: Final = -1


class OffsetRecord(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A group has read a partition up to an offset, exclusive."""

    KEY_FIELDS: ClassVar[int] = 3

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_time_ms: int = -1
    expire_time_ms: int = NO_EXPIRY  # set by old clients alone; the group's retention counts for others
    topic_id: UUID = NO_TOPIC_ID


class ClassicMember(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A member of one generation of a classic group, with what the chosen protocol says of it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class ClassicGroupRecord(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A generation of a classic group is complete: all of its members and what each has. No members: it is empty."""

    KEY_FIELDS: ClassVar[int] = 1

    group: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_time_ms: int  # when the group came to this state
    members: tuple[ClassicMember, ...] = ()


class TopicPartitions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Partitions of one topic, in order."""

    topic_id: UUID
    partitions: tuple[int, ...]


class ClassicProtocol(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An assignor that a member of the classic protocol offers, and its metadata for it."""

    name: str
    metadata: bytes


class ClassicMemberMetadata(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a classic member inside a consumer group (online migration)."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupRecord(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A consumer group (KIP-848) is there, at this epoch."""

    KEY_FIELDS: ClassVar[int] = 1

    group: str
    epoch: int
    metadata_hash: int = 0


class ConsumerMemberRecord(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A member of a consumer group, and what it asks for."""

    KEY_FIELDS: ClassVar[int] = 2

    group: str
    member_id: str
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None


class ConsumerTargetEpochRecord(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """The target assignment of a consumer group is that of this epoch."""

    KEY_FIELDS: ClassVar[int] = 1

    group: str
    epoch: int
    time_ms: int = -1


class ConsumerTargetMemberRecord(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """What a member of a consumer group is to have."""

    KEY_FIELDS: ClassVar[int] = 2

    group: str
    member_id: str
    partitions: tuple[TopicPartitions, ...] = ()


class ConsumerCurrentMemberRecord(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """What a member of a consumer group has, and still has to give up."""

    KEY_FIELDS: ClassVar[int] = 2

    group: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: int = 0
    assigned: tuple[TopicPartitions, ...] = ()
    pending_revocation: tuple[TopicPartitions, ...] = ()
    # Since which epoch it has each of these (KIP-1251), in their order; nothing when that is `epoch` for all of them.
    assigned_epochs: tuple[tuple[int, ...], ...] = ()
    pending_epochs: tuple[tuple[int, ...], ...] = ()


class ConsumerRegexRecord(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """The topics that a regular expression of a group matches, as of a version of the metadata."""

    KEY_FIELDS: ClassVar[int] = 2

    group: str
    regex: str
    topics: tuple[str, ...] = ()
    version: int = 0
    time_ms: int = -1


ConsumerRecord: TypeAlias = (
    ConsumerGroupRecord
    | ConsumerMemberRecord
    | ConsumerTargetEpochRecord
    | ConsumerTargetMemberRecord
    | ConsumerCurrentMemberRecord
    | ConsumerRegexRecord
)
GroupRecord: TypeAlias = OffsetRecord | ClassicGroupRecord | ConsumerRecord


class GroupTombstone(NamedTuple):
    """Nothing more is known under a key: `GroupTombstone(OffsetRecord, ("group", "topic", 0))`."""

    of: type[GroupRecord]
    key: tuple[str | int, ...]

    @property
    def group(self) -> str:
        return str(self.key[0])


# What a decision writes and a log holds.
GroupEntry: TypeAlias = GroupRecord | GroupTombstone

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

_encoder: Final = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder: Final = msgspec.msgpack.Decoder(GroupRecord)
_key_decoder: Final = msgspec.msgpack.Decoder(list[int | str])


def key_of(record: GroupRecord) -> tuple[str | int, ...]:
    """What a record is kept under, beside its type."""
    fields: tuple[str | int, ...] = msgspec.structs.astuple(record)[: record.KEY_FIELDS]
    return fields


def tombstone_of(record: GroupRecord) -> GroupTombstone:
    """What removes this record from the log."""
    return GroupTombstone(type(record), key_of(record))


def encode_key(entry: GroupEntry) -> bytes:
    """The key of an entry as it is in the log."""
    if isinstance(entry, GroupTombstone):
        return _encoder.encode((_TAGS[entry.of], *entry.key))
    return _encoder.encode((_TAGS[type(entry)], *key_of(entry)))


def encode_value(entry: GroupEntry) -> bytes | None:
    """The value of an entry as it is in the log; None is a tombstone."""
    if isinstance(entry, GroupTombstone):
        return None
    return _encoder.encode(msgspec.structs.astuple(entry)[entry.KEY_FIELDS :])


def decode(key: bytes, value: bytes | None) -> GroupEntry:
    """The entry that a record of the log is; refused when it is none that this version knows."""
    of = _type_of(key)
    if value is None:
        return _decode_tombstone(of, key)
    if not value or not 0 <= value[0] - _FIXARRAY <= _MAX_FIELDS - 1 - of.KEY_FIELDS:
        raise InvalidGroupRecord(f"{len(value)} bytes are no value of a {of.__name__}")
    joined = bytes((key[0] + value[0] - _FIXARRAY,)) + key[1:] + value[1:]
    try:
        record: GroupRecord = _decoder.decode(joined)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidGroupRecord(f"{len(value)} bytes are no value of a {of.__name__}: {error}") from None
    return record


def _type_of(key: bytes) -> type[GroupRecord]:
    # All numbers of types are below 128, which msgpack writes as one byte.
    of = _BY_TAG.get(key[1]) if len(key) > 1 else None
    if of is None or key[0] != _FIXARRAY + 1 + of.KEY_FIELDS:
        raise InvalidGroupRecord(f"{len(key)} bytes are no key of a record of groups that this version knows")
    return of


def _decode_tombstone(of: type[GroupRecord], key: bytes) -> GroupTombstone:
    try:
        fields = _key_decoder.decode(key)[1:]
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidGroupRecord(f"{len(key)} bytes are no key of a {of.__name__}: {error}") from None
    if tuple(map(type, fields)) != _KEY_TYPES[of]:
        raise InvalidGroupRecord(f"{fields} is no key of a {of.__name__}")
    return GroupTombstone(of, tuple(fields))
