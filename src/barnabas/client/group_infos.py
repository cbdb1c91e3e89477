"""What is told of groups: in a list, and of one with its members and its progress."""

from dataclasses import dataclass

from barnabas.core.model import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group in a listing. A simple one has offsets and never had members."""

    name: str
    state: str
    type: str
    is_simple: bool


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member and the partitions assigned to it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The progress of a group in a partition: `lag` records behind, the first of them `lag_seconds` old.

    `offset` is None if nothing was committed; then there is no lag. In a share group it is that of the first record
    that is not done, no partition belongs to one member, and neither the end nor the age is known.
    """

    topic: str
    partition: int
    offset: int | None
    end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    member_id: str | None


@dataclass(frozen=True, slots=True)
class GroupDetails:
    """A group, its members, and its progress in each partition that it reads or has read."""

    name: str
    state: str
    type: str
    assignor: str
    members: tuple[GroupMember, ...]
    partitions: tuple[PartitionLag, ...]


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """What a reset does to a partition; `before` is None where nothing was committed."""

    topic: str
    partition: int
    before: int | None
    after: int
