"""Describing share groups: for ShareGroupDescribe and ListGroups."""

from enum import Enum

import msgspec

from barnabas.core.groups.records import TopicPartitions
from barnabas.core.groups.share.assigning import SIMPLE
from barnabas.core.groups.share.state import ShareGroup


class ShareGroupState(Enum):
    """The state of a group, with the names that clients see."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"  # what is said of a group that is not there


class DescribedShareMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member and what it has."""

    member_id: str
    rack: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartitions, ...]


class DescribedShareGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group and its members, by their ids."""

    group: str
    state: ShareGroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedShareMember, ...]


def share_state_of(group: ShareGroup) -> ShareGroupState:
    """The state of a group."""
    return ShareGroupState.STABLE if group.members else ShareGroupState.EMPTY


def describe_share_group(group: ShareGroup) -> DescribedShareGroup:
    """Describe a group."""
    members = tuple(
        DescribedShareMember(
            member_id=member_id,
            rack=member.rack,
            epoch=group.current_of(member_id).epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=member.topics,
            assignment=group.current_of(member_id).assigned,
        )
        for member_id, member in sorted(group.members.items())
    )
    return DescribedShareGroup(
        group=group.group,
        state=share_state_of(group),
        epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=SIMPLE,
        members=members,
    )
