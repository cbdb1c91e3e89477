"""Who may commit and fetch the offsets of a group: the checks for each type of group."""

from collections.abc import Iterable
from uuid import UUID

from barnabas.core.errors import (
    BarnabasError,
    GroupIdNotFound,
    IllegalGeneration,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from barnabas.core.groups.classic.decisions import find, keep_session
from barnabas.core.groups.classic.state import ClassicSoft, ClassicState, LiveGroup
from barnabas.core.groups.consumer.assignment_epochs import held_since
from barnabas.core.groups.consumer.state import ConsumerGroup
from barnabas.core.groups.decision import Effects
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.records import ConsumerMemberRecord


def is_without_members(groups: Groups, soft: ClassicSoft, group: str) -> bool:
    """Whether the group has no members and no joining ones."""
    if group in groups.consumer:
        return not groups.consumer[group].members
    if group in groups.share:
        return not groups.share[group].members
    live = soft.live.get(group)
    if live is not None:
        return live.is_idle
    record = groups.classic.get(group)
    return record is None or not record.members


def check_commit(
    groups: Groups,
    soft: ClassicSoft,
    group: str,
    *,
    generation: int,
    member_id: str,
    instance_id: str | None,
    knows_epochs: bool,
    effects: Effects,
    partitions: Iterable[tuple[UUID, int]] = (),
    is_transactional: bool = False,
) -> None:
    """Refuse an unauthorized commit for these `partitions`. A commit restarts the member's session, as a heartbeat
    does.
    """
    is_outside = generation < 0 and not member_id and instance_id is None
    if group in groups.consumer:
        if not (is_transactional and is_outside):
            is_able = knows_epochs or is_transactional
            _check_consumer_commit(groups.consumer[group], generation, member_id, partitions, knows_epochs=is_able)
        return
    if group in groups.share:
        raise GroupIdNotFound(f"'{group}' is a share group, which has no committed offsets")
    live = find(groups, soft, group)
    if live is None and generation >= 0 and groups.type_of(group) is None:
        raise GroupIdNotFound(f"there is no group '{group}'")
    if generation < 0 and (live is None or live.state is ClassicState.EMPTY):
        return  # from outside of any group protocol; the group may be new
    if live is None:
        raise UnknownMemberId(f"group '{group}' has no members")
    if is_outside:
        if not is_transactional:
            raise UnknownMemberId(f"group '{group}' has members, so only they may commit")
        return
    _check_classic_commit(live, generation, member_id, instance_id, effects, is_transactional=is_transactional)


def _check_classic_commit(
    live: LiveGroup,
    generation: int,
    member_id: str,
    instance_id: str | None,
    effects: Effects,
    *,
    is_transactional: bool,
) -> None:
    member = live.check_member(member_id, instance_id)
    if generation != live.generation:
        raise IllegalGeneration(f"group '{live.group}' is in generation {live.generation}, not {generation}")
    if is_transactional:
        return
    if live.state is ClassicState.COMPLETING_REBALANCE:
        # The member knows the new generation and not its assignment in it: it shall fetch that first.
        raise RebalanceInProgress(f"group '{live.group}' is rebalancing")
    keep_session(live, member, effects)


def _check_consumer_commit(
    group: ConsumerGroup, epoch: int, member_id: str, partitions: Iterable[tuple[UUID, int]], *, knows_epochs: bool
) -> None:
    if epoch < 0 and not group.members:
        return
    member = _consumer_member(group, member_id)
    if member.classic is None and not knows_epochs:
        raise UnsupportedVersion("a member of a consumer group commits with version 9 or later")
    current = group.current_of(member_id)
    if not 0 <= epoch < current.epoch:
        _check_epoch(group, member, epoch)
        return
    # An older epoch does for what the member has had ever since (KIP-1251); one partition that it does not refuses all.
    since = held_since(current)
    for topic_id, partition in partitions:
        assigned_in = since.get((topic_id, partition))
        if assigned_in is None:
            raise _out_of_step(member, f"member '{member_id}' does not have partition {partition} of {topic_id}")
        if epoch < assigned_in:
            text = (
                f"member '{member_id}' has partition {partition} of {topic_id} since epoch {assigned_in}, not {epoch}"
            )
            raise _out_of_step(member, text)


def check_fetch(groups: Groups, group: str, *, member_id: str | None, epoch: int) -> None:
    """Refuse a fetch of offsets by a member of a consumer group in a wrong epoch. Others are always allowed."""
    if group not in groups.consumer or (member_id is None and epoch < 0):
        return
    _check_epoch(groups.consumer[group], _consumer_member(groups.consumer[group], member_id or ""), epoch)


def _consumer_member(group: ConsumerGroup, member_id: str) -> ConsumerMemberRecord:
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"group '{group.group}' has no member '{member_id}'")
    return member


def _check_epoch(group: ConsumerGroup, member: ConsumerMemberRecord, epoch: int) -> None:
    current = group.current_of(member.member_id).epoch
    if epoch == current:
        return
    raise _out_of_step(member, f"member '{member.member_id}' is in epoch {current}, not {epoch}")


def _out_of_step(member: ConsumerMemberRecord, text: str) -> BarnabasError:
    return IllegalGeneration(text) if member.classic is not None else StaleMemberEpoch(text)
