"""Administration of groups: ListGroups, DescribeGroups, DeleteGroups.

A group is shown in its current state, also during a rebalance. For consumer groups (KIP-848) only listing is here:
their description is in `consumer.describe`.
"""

from itertools import islice
from typing import Final

import msgspec

from barnabas.core.coordination import Decision
from barnabas.core.errors import GroupIdNotFound, NonEmptyGroup
from barnabas.core.groups.classic.decisions import find
from barnabas.core.groups.classic.state import ClassicSoft, ClassicState, LiveGroup, LiveMember
from barnabas.core.groups.consumer.describe import state_of
from barnabas.core.groups.decision import GroupDecision
from barnabas.core.groups.groups import Groups, GroupType
from barnabas.core.groups.offset_access import is_without_members
from barnabas.core.groups.records import GroupEntry
from barnabas.core.groups.share.describe import share_state_of
from barnabas.core.groups.subscriptions import CONSUMER_PROTOCOL

SHARE_PROTOCOL: Final = "share"


class ListedGroup(msgspec.Struct, frozen=True):
    """A group in a listing. A simple group has no protocol type."""

    group: str
    protocol_type: str
    state: str
    type: GroupType


class DescribedMember(msgspec.Struct, frozen=True):
    """A member of a classic group; what it reads and has is known only while the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


class DescribedGroup(msgspec.Struct, frozen=True):
    """A classic group."""

    group: str
    state: ClassicState
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


def list_groups(groups: Groups, soft: ClassicSoft) -> list[ListedGroup]:
    """All groups, in order."""
    listed = []
    for name in sorted({*groups.names(), *soft.live}):
        if name in groups.consumer:
            state = state_of(groups.consumer[name]).value
            listed.append(ListedGroup(name, CONSUMER_PROTOCOL, state, GroupType.CONSUMER))
        elif name in groups.share:
            state = share_state_of(groups.share[name]).value
            listed.append(ListedGroup(name, SHARE_PROTOCOL, state, GroupType.SHARE))
        else:
            # One of nothing but offsets is empty.
            live = find(groups, soft, name) or LiveGroup(name)
            listed.append(ListedGroup(name, live.protocol_type, live.state.value, GroupType.CLASSIC))
    return listed


def describe_group(groups: Groups, soft: ClassicSoft, group: str) -> DescribedGroup:
    """A classic group; refused if there is none. For versions below 6 that is a group in state DEAD."""
    if group not in soft.live and groups.type_of(group) is not GroupType.CLASSIC:
        raise GroupIdNotFound(f"there is no classic group '{group}'")
    live = find(groups, soft, group) or LiveGroup(group)
    protocol = live.protocol if live.state is ClassicState.STABLE else None
    members = tuple(_describe_member(member, protocol) for member in live.members.values())
    return DescribedGroup(group, live.state, live.protocol_type, protocol or "", members)


def _describe_member(member: LiveMember, protocol: str | None) -> DescribedMember:
    who = (member.member_id, member.instance_id, member.client_id, member.client_host)
    if protocol is None:
        return DescribedMember(*who)
    return DescribedMember(*who, member.metadata_of(protocol), member.assignment)


def delete_group(groups: Groups, soft: ClassicSoft, group: str, *, limit: int | None = None) -> GroupDecision[bool]:
    """Delete a group without members, with its offsets.

    With a limit, at most so many offsets, and the group with the last of them: the reply is whether the group is
    deleted.
    """
    if groups.type_of(group) is None and group not in soft.live:
        raise GroupIdNotFound(f"there is no group '{group}'")
    if not is_without_members(groups, soft, group):
        raise NonEmptyGroup(f"group '{group}' has members")
    records: list[GroupEntry] = [*islice(groups.tombstones_of_offsets(group), limit)]
    if limit is not None and len(records) >= limit:
        return Decision(records, False)
    return Decision([*records, *groups.tombstones_of_group(group)], True)
