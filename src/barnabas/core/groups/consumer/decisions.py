"""Decisions about consumer groups (KIP-848): heartbeats, timers, changes of topics, and who may commit.

Owns the rules of the protocol: who is fenced, when the group epoch is raised, when a member gets its assignment. A
decision concerns one group and changes only its soft state: the rest are records, for `apply`.

A group is driven by its members' heartbeats. Each may change what the member asks for, which raises the epoch; brings
the target up to the epoch; and moves that one member towards the target. No request ever waits.

A regular expression is matched after the heartbeat that brings it was decided, which raises the epoch again: the member
first gets the topics that it names, and those that its expression matches in a later heartbeat.

Where it differs from Kafka: regular expressions are matched at every change of topics, not at intervals; a static
member may rejoin under its own member id; small groups get their target at once, whatever the interval; a member that
says it is in another rack gets a new target.
"""

from typing import Any

import msgspec

from barnabas.core.coordination import SetTimer, TimerChange
from barnabas.core.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from barnabas.core.groups.classic.state import LiveGroup
from barnabas.core.groups.consumer.draft import Draft
from barnabas.core.groups.consumer.messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    UNCHANGED_MS,
    ConsumerHeartbeat,
    ConsumerHeartbeatReply,
    check_heartbeat,
)
from barnabas.core.groups.consumer.reconcile import owns_only
from barnabas.core.groups.consumer.regexes import Visible, all_visible, check_regex
from barnabas.core.groups.consumer.state import ConsumerGroup, MemberState, Topics, tombstones, unmatched_regexes
from barnabas.core.groups.decision import REBALANCE, REGEX, SESSION, GroupDecision, TimerKey
from barnabas.core.groups.migration import remove_or_downgrade, upgrade
from barnabas.core.groups.records import ConsumerMemberRecord, ConsumerTargetMemberRecord
from barnabas.core.groups.settings import ConsumerConfig


def decide_heartbeat(
    group: ConsumerGroup | LiveGroup | None,
    request: ConsumerHeartbeat,
    *,
    now_ms: int,
    new_member_id: str,
    topics: Topics,
    config: ConsumerConfig,
) -> GroupDecision[ConsumerHeartbeatReply]:
    """Decide on a heartbeat.

    `new_member_id` is for a member without an id. The group may not exist (None), or be a classic one, which is then
    converted, or refused.
    """
    check_heartbeat(request, config)
    if not isinstance(group, ConsumerGroup) and request.member_epoch != JOIN_EPOCH:
        what = "not found" if group is None else "is not a consumer group"
        raise GroupIdNotFound(f"Consumer group {request.group} {what}.")
    state = group if isinstance(group, ConsumerGroup) else ConsumerGroup(request.group)
    draft = Draft(state, topics=topics, config=config, now_ms=now_ms)
    if isinstance(group, LiveGroup):
        upgrade(draft, group)
    if request.is_leaving:
        return decide_leave(draft, request)
    return take_heartbeat(draft, request, request.member_id or new_member_id)


def take_heartbeat(draft: Draft, request: ConsumerHeartbeat, member_id: str) -> GroupDecision[ConsumerHeartbeatReply]:
    """A member joins or is alive: apply its subscription, and move it towards its target."""
    check_room(draft, member_id, request.instance_id)
    _admit(draft, request, member_id)
    had = draft.state.current_of(member_id).assigned
    has_new_subscription = update_member(draft, _updated(draft, request, member_id))
    draft.update_target()
    current = draft.reconcile(draft.state.members[member_id], request.owned, has_new_subscription=has_new_subscription)
    draft.set_timer(SESSION, member_id, draft.config.session_timeout_ms)
    return draft.decide(
        ConsumerHeartbeatReply(
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=draft.config.heartbeat_interval_ms,
            assignment=current.assigned if request.is_full or current.assigned != had else None,
        )
    )


# Who it is.


def check_room(draft: Draft, member_id: str, instance_id: str | None) -> None:
    """Refuse a new member if the group is full."""
    members = draft.state.members
    is_known = member_id in members or instance_id in draft.state.static_members
    if not is_known and len(members) >= draft.config.max_size:
        raise GroupMaxSizeReached(
            f"The consumer group has reached its maximum capacity of {draft.config.max_size} members."
        )


def _admit(draft: Draft, request: ConsumerHeartbeat, member_id: str) -> None:
    """Refuse a member with a wrong id or epoch; replace a static one that rejoins."""
    is_joining = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        if not is_joining:
            _check_epoch(draft.state, find_member(draft.state, member_id), request)
        elif member_id in draft.state.members:
            draft.cancel_timers(draft.state.members[member_id])  # it may have been a classic member until now
        return
    holder_id = draft.state.static_members.get(request.instance_id)
    if not is_joining:
        holder = find_static_member(draft.state, member_id, request.instance_id)
        _check_epoch(draft.state, holder, request)
    elif holder_id is not None and holder_id != member_id:
        holder = draft.state.members[holder_id]
        if holder.classic is None and draft.state.current_of(holder_id).epoch != STATIC_LEAVE_EPOCH:
            raise UnreleasedInstanceId(
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
                f"instance id is owned by {holder_id} member."
            )
        replace_member(draft, holder, member_id)


def find_member(group: ConsumerGroup, member_id: str) -> ConsumerMemberRecord:
    """The member of that id; refused when there is none."""
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"Member {member_id} is not a member of group {group.group}.")
    return member


def find_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMemberRecord:
    """The member of that instance id; refused when there is none, or it is another one by now."""
    holder_id = group.static_members.get(instance_id)
    if holder_id is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if holder_id != member_id:
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder_id}."
        )
    return group.members[holder_id]


def _check_epoch(group: ConsumerGroup, member: ConsumerMemberRecord, request: ConsumerHeartbeat) -> None:
    """A member must be in the epoch of its last answer.

    That answer may have been lost, so the epoch before it is accepted.
    """
    current = group.current_of(member.member_id)
    if request.member_epoch == current.epoch:
        return
    is_retry = request.member_epoch == current.previous_epoch and request.member_epoch < current.epoch
    if is_retry and owns_only(request.owned, current.assigned):
        return
    how = "greater" if request.member_epoch > current.epoch else "smaller"
    raise FencedMemberEpoch(
        f"The consumer group member has a {how} member epoch ({request.member_epoch}) than the one known by the group "
        f"coordinator ({current.epoch}). The member must abandon all its partitions and rejoin."
    )


def replace_member(draft: Draft, holder: ConsumerMemberRecord, member_id: str) -> None:
    """A static member has rejoined under another id: it takes over everything from the old one, from epoch 0."""
    state = draft.state
    target, current = state.target_of(holder.member_id), state.current_of(holder.member_id)
    draft.cancel_timers(holder)
    draft.write(
        *tombstones(state, [holder.member_id]),
        msgspec.structs.replace(holder, member_id=member_id),
        ConsumerTargetMemberRecord(state.group, member_id, target),
        msgspec.structs.replace(
            current,
            member_id=member_id,
            epoch=JOIN_EPOCH,
            previous_epoch=JOIN_EPOCH,
            assigned_epochs=(),
            pending_epochs=(),
        ),
    )


# What it asks for.


def _updated(draft: Draft, request: ConsumerHeartbeat, member_id: str) -> ConsumerMemberRecord:
    known = draft.state.members.get(member_id)
    member = ConsumerMemberRecord(draft.state.group, member_id) if known is None else known
    given: dict[str, object] = {
        "instance_id": request.instance_id,
        "rack": request.rack,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == UNCHANGED_MS else request.rebalance_timeout_ms,
        "assignor": request.assignor,
        "topics": None if request.topics is None else tuple(sorted(set(request.topics))),
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if request.regex is not None:
        changes["regex"] = request.regex or None  # an empty one takes it back
    return msgspec.structs.replace(
        member, client_id=request.client_id, client_host=request.client_host, classic=None, **changes
    )


def update_member(draft: Draft, member: ConsumerMemberRecord) -> bool:
    """Record what a member asks for, and the consequences for the group; returns whether its subscription changed."""
    before = draft.state.members.get(member.member_id)
    if member == before:
        return False
    assignor = draft.preferred_assignor() if draft.state.members else None
    draft.write(member)
    is_new = before is None or (before.topics, before.regex) != (member.topics, member.regex)
    if is_new:
        if member.regex is not None:
            check_regex(member.regex)
        draft.forget_regexes()
        draft.match_soon()
    is_elsewhere = before is not None and before.rack != member.rack
    is_first = draft.state.epoch == 0
    if is_first or _has_other_topics(draft, before, member) or is_elsewhere or draft.preferred_assignor() != assignor:
        draft.bump_epoch()
    return is_new


def _has_other_topics(draft: Draft, before: ConsumerMemberRecord | None, member: ConsumerMemberRecord) -> bool:
    """Whether a member reads other topics than before, as far as that is known: not before an expression is matched."""
    names, regex = ((), None) if before is None else (before.topics, before.regex)
    is_known = member.regex is None or member.regex in draft.state.regexes
    return names != member.topics or (regex != member.regex and is_known)


# Going away.


def decide_leave(draft: Draft, request: ConsumerHeartbeat) -> GroupDecision[ConsumerHeartbeatReply]:
    """A member leaves; a static one may leave temporarily, and then keeps its partitions until its session ends."""
    if request.instance_id is None:
        member = find_member(draft.state, request.member_id)
    else:
        member = find_static_member(draft.state, request.member_id, request.instance_id)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        current = draft.state.current_of(member.member_id)
        # Whoever comes back has all of this as from the start, whatever epoch it begins in.
        gone = msgspec.structs.replace(
            current,
            epoch=STATIC_LEAVE_EPOCH,
            state=int(MemberState.STABLE),
            pending_revocation=(),
            assigned_epochs=(),
            pending_epochs=(),
        )
        draft.write(gone)
        draft.cancel_timer(REBALANCE, member.member_id)
    else:
        remove_or_downgrade(draft, [member.member_id])
    return draft.decide(ConsumerHeartbeatReply(member_id=member.member_id, member_epoch=request.member_epoch))


def on_timer(
    group: ConsumerGroup,
    key: TimerKey,
    *,
    now_ms: int,
    topics: Topics,
    config: ConsumerConfig,
    visible: Visible = all_visible,
) -> GroupDecision[bool]:
    """A member's timer has fired, and it is fenced; or expressions are to be matched. The reply says whether the group
    changed.
    """
    draft = Draft(group, topics=topics, config=config, now_ms=now_ms)
    if key.kind == REGEX:
        return draft.decide(draft.match_regexes(unmatched_regexes(group), visible))
    is_due = key.member_id in group.members and (
        key.kind != REBALANCE or group.current_of(key.member_id).state == MemberState.UNREVOKED_PARTITIONS
    )
    if is_due:
        remove_or_downgrade(draft, [key.member_id])
    return draft.decide(is_due)


def on_metadata_change(
    group: ConsumerGroup, *, now_ms: int, topics: Topics, config: ConsumerConfig, visible: Visible = all_visible
) -> GroupDecision[bool]:
    """Topics have changed: match expressions again and raise the epoch if the group is affected; returns whether."""
    draft = Draft(group, topics=topics, config=config, now_ms=now_ms)
    if not group.members:
        return draft.decide(False)
    return draft.decide(draft.match_regexes(sorted({*group.regexes, *unmatched_regexes(group)}), visible))


def timers_after_load(group: ConsumerGroup, config: ConsumerConfig) -> list[TimerChange]:
    """The timers of a group that was just loaded: all members get their full time again."""
    timers: list[TimerChange] = []
    for member_id, member in group.members.items():
        session_timeout_ms = config.session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        timers.append(SetTimer(TimerKey(SESSION, group.group, member_id), session_timeout_ms))
        if member.classic is None and group.current_of(member_id).state == MemberState.UNREVOKED_PARTITIONS:
            timers.append(SetTimer(TimerKey(REBALANCE, group.group, member_id), member.rebalance_timeout_ms))
    if unmatched_regexes(group):
        timers.append(SetTimer(TimerKey(REGEX, group.group), 0))
    return timers
