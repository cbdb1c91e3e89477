"""The records of the coordinator log: the durable state of groups and offsets.

The log is compacted, so each record is a key and a value, and the last value of a key counts; no value is a tombstone.
How they are written is in `encoding`. Their own order of fields, the key first, and their tags are those of the old
encoding in msgpack (`old_encoding`): a field is only ever added at the end, with a default.
"""

from typing import ClassVar, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

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
    """The metadata of a classic member inside a consumer group (online migration)."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class ConsumerGroupRecord(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A consumer group (KIP-848) exists, at this epoch."""

    KEY_FIELDS: ClassVar[int] = 1

    group: str
    epoch: int
    metadata_hash: int = 0


class ConsumerMemberRecord(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """A member of a consumer group, and its subscription."""

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
    """The target assignment of a member of a consumer group."""

    KEY_FIELDS: ClassVar[int] = 2

    group: str
    member_id: str
    partitions: tuple[TopicPartitions, ...] = ()


class ConsumerCurrentMemberRecord(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """The current assignment of a member of a consumer group, and what it has yet to revoke."""

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


class ShareMemberRecord(msgspec.Struct, frozen=True, array_like=True, tag=10, gc=False):
    """A member of a share group (KIP-932), and its subscription."""

    KEY_FIELDS: ClassVar[int] = 2

    group: str
    member_id: str
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()


class ShareGroupRecord(msgspec.Struct, frozen=True, array_like=True, tag=11, gc=False):
    """A share group exists, at this epoch."""

    KEY_FIELDS: ClassVar[int] = 1

    group: str
    epoch: int
    metadata_hash: int = 0


class ShareTargetEpochRecord(msgspec.Struct, frozen=True, array_like=True, tag=12, gc=False):
    """The target assignment of a share group is that of this epoch."""

    KEY_FIELDS: ClassVar[int] = 1

    group: str
    epoch: int
    time_ms: int = 0


class ShareTargetMemberRecord(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """The target assignment of a member of a share group."""

    KEY_FIELDS: ClassVar[int] = 2

    group: str
    member_id: str
    partitions: tuple[TopicPartitions, ...] = ()


class ShareCurrentMemberRecord(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """What a member of a share group has."""

    KEY_FIELDS: ClassVar[int] = 2

    group: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: int = 0
    assigned: tuple[TopicPartitions, ...] = ()


class StateTopic(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Partitions of a topic, in order, and its name when that was written."""

    topic_id: UUID
    name: str
    partitions: tuple[int, ...] = ()


class ShareStatesRecord(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """The partitions whose state the share coordinators have, are to make, or are to delete."""

    KEY_FIELDS: ClassVar[int] = 1

    group: str
    initializing: tuple[StateTopic, ...] = ()
    initialized: tuple[StateTopic, ...] = ()
    deleting: tuple[StateTopic, ...] = ()  # whole topics, without their partitions


ShareRecord: TypeAlias = (
    ShareMemberRecord
    | ShareGroupRecord
    | ShareTargetEpochRecord
    | ShareTargetMemberRecord
    | ShareCurrentMemberRecord
    | ShareStatesRecord
)
ConsumerRecord: TypeAlias = (
    ConsumerGroupRecord
    | ConsumerMemberRecord
    | ConsumerTargetEpochRecord
    | ConsumerTargetMemberRecord
    | ConsumerCurrentMemberRecord
    | ConsumerRegexRecord
)
GroupRecord: TypeAlias = OffsetRecord | ClassicGroupRecord | ConsumerRecord | ShareRecord


class GroupTombstone(NamedTuple):
    """A key is deleted: `GroupTombstone(OffsetRecord, ("group", "topic", 0))`."""

    of: type[GroupRecord]
    key: tuple[str | int, ...]

    @property
    def group(self) -> str:
        return str(self.key[0])


# What a decision writes and a log holds.
GroupEntry: TypeAlias = GroupRecord | GroupTombstone


def key_of(record: GroupRecord) -> tuple[str | int, ...]:
    """The key of a record, without its type."""
    fields: tuple[str | int, ...] = msgspec.structs.astuple(record)[: record.KEY_FIELDS]
    return fields


def tombstone_of(record: GroupRecord) -> GroupTombstone:
    """The tombstone of this record."""
    return GroupTombstone(type(record), key_of(record))
