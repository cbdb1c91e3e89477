"""Classic members inside a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, served without waiting.

A classic member is handled like any other: its epoch is its generation, each join moves it towards its target, each
sync returns its current assignment.

When its assignment changes, its heartbeat tells it to join again. It never leads and never assigns. The rebalance
timeout, which others have to revoke, is its time to join and then to sync. Refusals are raised, except those that also
set a timer: these are the reply.
"""

import msgspec

from barnabas.core.errors import (
    BarnabasError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from barnabas.core.groups.classic.messages import (
    UNKNOWN_MEMBER,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from barnabas.core.groups.consumer.decisions import (
    check_room,
    find_member,
    find_static_member,
    replace_member,
    update_member,
)
from barnabas.core.groups.consumer.draft import Draft
from barnabas.core.groups.consumer.state import ConsumerGroup, MemberState, Topics
from barnabas.core.groups.decision import JOIN, SESSION, SYNC, GroupDecision
from barnabas.core.groups.embedded import MAX_BYTES, MalformedEmbedded, Subscription, parse_subscription
from barnabas.core.groups.migration import (
    downgrade_if_due,
    embed_assignment,
    remove_or_downgrade,
    to_partitions_by_id,
)
from barnabas.core.groups.records import ClassicMemberMetadata, ConsumerMemberRecord
from barnabas.core.groups.settings import ConsumerConfig
from barnabas.core.groups.subscriptions import CONSUMER_PROTOCOL


def decide_join(
    group: ConsumerGroup,
    request: JoinRequest,
    *,
    now_ms: int,
    new_member_id: str,
    topics: Topics,
    config: ConsumerConfig,
) -> GroupDecision[JoinReply]:
    """A classic member joins, or rejoins for the next step. The answer may make the group classic."""
    draft = Draft(group, topics=topics, config=config, now_ms=now_ms)
    if not (config.upgrades or config.downgrades):
        raise InconsistentGroupProtocol(
            f"Cannot join the consumer group {group.group} with the classic protocol because the group migration is "
            "disabled."
        )
    member_id = request.member_id or new_member_id
    check_room(draft, member_id, request.instance_id)
    _check_protocols(group, request, member_id)
    if request.member_id == UNKNOWN_MEMBER and request.instance_id is None and request.requires_member_id:
        raise MemberIdRequired(member_id)
    subscription = _parse(request)
    _admit(draft, request, member_id)
    has_new_subscription = update_member(draft, _updated(draft, request, member_id, subscription))
    classic = downgrade_if_due(draft)
    if classic is not None:
        generation = classic.generation
    else:
        _move_on(draft, request, member_id, subscription, has_new_subscription=has_new_subscription)
        generation = draft.state.current_of(member_id).epoch
    return draft.decide(
        JoinReply(
            member_id=member_id,
            generation=generation,
            protocol_type=CONSUMER_PROTOCOL,
            protocol=request.protocols[0].name,
            leader="",
        )
    )


def _check_protocols(group: ConsumerGroup, request: JoinRequest, member_id: str) -> None:
    """Every classic member has an assignor that the others have too, so that the group can become classic again."""
    offered = [protocol.name for protocol in request.protocols]
    for other_id, other in group.members.items():
        if other.classic is not None and other_id != member_id:
            others = {protocol.name for protocol in other.classic.protocols}
            offered = [name for name in offered if name in others]
    if request.protocol_type != CONSUMER_PROTOCOL or not offered:
        raise InconsistentGroupProtocol(f"Member {member_id}'s protocols are not supported.")


def _parse(request: JoinRequest) -> Subscription:
    size = sum(len(protocol.metadata) for protocol in request.protocols)
    if size > MAX_BYTES:
        raise InconsistentGroupProtocol(f"The protocols have {size} bytes; the maximum is {MAX_BYTES}.")
    try:
        for protocol in request.protocols[1:]:
            parse_subscription(protocol.metadata)
        return parse_subscription(request.protocols[0].metadata)
    except MalformedEmbedded as error:
        raise InconsistentGroupProtocol(f"Malformed embedded consumer protocol in subscription: {error}.") from None


def _admit(draft: Draft, request: JoinRequest, member_id: str) -> None:
    if request.instance_id is None:
        return
    if request.member_id != UNKNOWN_MEMBER:
        find_static_member(draft.state, member_id, request.instance_id)
    elif request.instance_id in draft.state.static_members:
        holder_id = draft.state.static_members[request.instance_id]
        replace_member(draft, draft.state.members[holder_id], member_id)


def _updated(draft: Draft, request: JoinRequest, member_id: str, subscription: Subscription) -> ConsumerMemberRecord:
    member = draft.state.members.get(member_id, ConsumerMemberRecord(draft.state.group, member_id))
    return msgspec.structs.replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack=subscription.rack if subscription.rack is not None else member.rack,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex=None,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(request.session_timeout_ms, request.protocols),
    )


def _move_on(
    draft: Draft,
    request: JoinRequest,
    member_id: str,
    subscription: Subscription,
    *,
    has_new_subscription: bool,
) -> None:
    draft.update_target()
    owned = to_partitions_by_id(subscription.owned, draft.topics)
    draft.reconcile(draft.state.members[member_id], owned, has_new_subscription=has_new_subscription)
    draft.state.awaited.discard(member_id)
    draft.cancel_timer(JOIN, member_id)
    draft.set_timer(SESSION, member_id, request.session_timeout_ms)
    draft.set_timer(SYNC, member_id, request.rebalance_timeout_ms)


def decide_sync(
    group: ConsumerGroup, request: SyncRequest, *, now_ms: int, topics: Topics, config: ConsumerConfig
) -> GroupDecision[SyncReply | BarnabasError]:
    """A classic member asks for its current assignment."""
    draft = Draft(group, topics=topics, config=config, now_ms=now_ms)
    member, classic = _find(group, request.member_id, request.instance_id)
    _check_generation(group, member, request.generation)
    protocol = classic.protocols[0]
    for said, is_so, what in (
        (request.protocol_type, CONSUMER_PROTOCOL, "type"),
        (request.protocol, protocol.name, "name"),
    ):
        if said is not None and said != is_so:
            raise InconsistentGroupProtocol(f"The protocol {what} of member {member.member_id} is {is_so}, not {said}.")
    current = group.current_of(member.member_id)
    if group.target_epoch > current.epoch and current.state != MemberState.UNREVOKED_PARTITIONS:
        return _await_join(draft, member)
    draft.cancel_timer(SYNC, member.member_id)
    draft.set_timer(SESSION, member.member_id, classic.session_timeout_ms)
    names = {info.topic_id: name for name, info in topics.items()}
    assignment = embed_assignment(current.assigned, protocol.metadata, names)
    return draft.decide(SyncReply(protocol_type=CONSUMER_PROTOCOL, protocol=protocol.name, assignment=assignment))


def decide_heartbeat(
    group: ConsumerGroup, request: HeartbeatRequest, *, now_ms: int, topics: Topics, config: ConsumerConfig
) -> GroupDecision[BarnabasError | None]:
    """The heartbeat of a classic member; it is told to join again if its assignment changes."""
    draft = Draft(group, topics=topics, config=config, now_ms=now_ms)
    member, classic = _find(group, request.member_id, request.instance_id)
    _check_generation(group, member, request.generation)
    draft.set_timer(SESSION, member.member_id, classic.session_timeout_ms)
    # The others may be of the classic protocol too, and then no heartbeat of theirs makes a target that is due.
    draft.update_target()
    current = draft.state.current_of(member.member_id)
    is_behind = (
        current.epoch < draft.state.target_epoch
        or current.state == MemberState.UNREVOKED_PARTITIONS
        or (current.state == MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(draft.state, member))
    )
    return _await_join(draft, member) if is_behind else draft.decide(None)


def _await_join(draft: Draft, member: ConsumerMemberRecord) -> GroupDecision[BarnabasError]:
    """Tell a member to join again. Its time for that starts when it is first told."""
    if member.member_id not in draft.state.awaited:
        draft.state.awaited.add(member.member_id)
        draft.set_timer(JOIN, member.member_id, member.rebalance_timeout_ms)
    return draft.decide(
        RebalanceInProgress(
            f"A new rebalance is triggered in group {draft.state.group} and member {member.member_id} should rejoin to "
            "catch up."
        )
    )


def _waits_for_others(group: ConsumerGroup, member: ConsumerMemberRecord) -> bool:
    """Whether everything that a member still lacks belongs to other members: joining again would not help."""
    lacks = [
        group.owner_of(held.topic_id, partition)
        for held in group.target_of(member.member_id)
        for partition in held.partitions
        if group.owner_of(held.topic_id, partition) != member.member_id
    ]
    return any(owner is not None for owner in lacks)


def decide_leave(
    group: ConsumerGroup, request: LeaveRequest, *, now_ms: int, topics: Topics, config: ConsumerConfig
) -> GroupDecision[LeaveReply]:
    """Members of either protocol leave. The answer may make the group classic."""
    draft = Draft(group, topics=topics, config=config, now_ms=now_ms)
    left: list[str] = []
    reply = tuple(_leave_one(group, leaving, left) for leaving in request.members)
    if left:
        remove_or_downgrade(draft, sorted(set(left)))
    return draft.decide(reply)


def _leave_one(group: ConsumerGroup, leaving: LeavingMember, left: list[str]) -> LeftMember:
    try:
        if leaving.instance_id is None:
            member_id = find_member(group, leaving.member_id).member_id
        else:
            # An administrator removes a static member, whose id it need not know.
            holder_id = group.static_members.get(leaving.instance_id, "")
            member_id = find_static_member(group, leaving.member_id or holder_id, leaving.instance_id).member_id
    except BarnabasError as refusal:
        return LeftMember(leaving.member_id, leaving.instance_id, refusal)
    left.append(member_id)
    return LeftMember(leaving.member_id, leaving.instance_id)


def _find(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMemberRecord, ClassicMemberMetadata]:
    member = find_static_member(group, member_id, instance_id) if instance_id else find_member(group, member_id)
    if member.classic is None:
        raise UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
    return member, member.classic


def _check_generation(group: ConsumerGroup, member: ConsumerMemberRecord, generation: int) -> None:
    epoch = group.current_of(member.member_id).epoch
    if generation != epoch:
        raise IllegalGeneration(
            f"The request generation id {generation} is not equal to the member epoch {epoch} of member "
            f"{member.member_id}."
        )
