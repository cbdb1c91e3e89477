"""Describing consumer groups: for ConsumerGroupDescribe and ListGroups."""

from enum import Enum
from uuid import UUID

import msgspec

from barnabas.core.groups.consumer.state import ConsumerGroup, preferred_assignor, to_partitions
from barnabas.core.groups.records import ConsumerMemberRecord, TopicPartitions
from barnabas.core.groups.settings import ConsumerConfig


class ConsumerGroupState(Enum):
    """The state of a group, with the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # its target is out of date
    RECONCILING = "Reconciling"  # not everybody has what it is to have
    STABLE = "Stable"
    DEAD = "Dead"  # what is said of a group that is not there


class DescribedConsumerMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member, its current assignment (including what it has yet to revoke) and its target assignment."""

    member_id: str
    instance_id: str | None
    rack: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    assignment: tuple[TopicPartitions, ...]
    target: tuple[TopicPartitions, ...]
    is_classic: bool


class DescribedConsumerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group and its members, by their ids."""

    group: str
    state: ConsumerGroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumerMember, ...]


def state_of(group: ConsumerGroup) -> ConsumerGroupState:
    """The state of a group."""
    if not group.members:
        return ConsumerGroupState.EMPTY
    if group.epoch > group.target_epoch:
        return ConsumerGroupState.ASSIGNING
    if all(group.is_reconciled(member_id) for member_id in group.members):
        return ConsumerGroupState.STABLE
    return ConsumerGroupState.RECONCILING


def describe(group: ConsumerGroup, config: ConsumerConfig) -> DescribedConsumerGroup:
    """Describe a group."""
    return DescribedConsumerGroup(
        group=group.group,
        state=state_of(group),
        epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=preferred_assignor(group) or config.assignors[0],
        members=tuple(_describe_member(group, group.members[member_id]) for member_id in sorted(group.members)),
    )


def _describe_member(group: ConsumerGroup, member: ConsumerMemberRecord) -> DescribedConsumerMember:
    current = group.current_of(member.member_id)
    held: dict[UUID, set[int]] = {}
    for partitions in (*current.assigned, *current.pending_revocation):
        held.setdefault(partitions.topic_id, set()).update(partitions.partitions)
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack=member.rack,
        epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=member.topics,
        regex=member.regex,
        assignment=to_partitions(held),
        target=group.target_of(member.member_id),
        is_classic=member.classic is not None,
    )
