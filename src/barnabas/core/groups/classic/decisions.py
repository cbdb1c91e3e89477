"""Classic groups: the decisions on requests to them. The way in for the runtime; the rules are in `join` and
`rebalance`, the state in `state`.

Every request has a token, and every token is answered once, in this outcome or in a later one: a refusal is an answer
too, nothing is raised. Requests to a consumer group that has members go elsewhere: see `routing`.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from barnabas.core.coordination import SetTimer, Token
from barnabas.core.errors import (
    BarnabasError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    RebalanceInProgress,
    UnknownMemberId,
)
from barnabas.core.groups.classic.join import Joining, check_join
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
from barnabas.core.groups.classic.rebalance import (
    assign,
    begin,
    begin_or_complete,
    complete_if_all_joined,
    drop,
    end_join,
    end_sync,
    note_synced,
    start_session,
    sync_reply,
)
from barnabas.core.groups.classic.state import ClassicSoft, ClassicState, LiveGroup, LiveMember
from barnabas.core.groups.decision import JOIN, SESSION, SYNC, Effects, GroupOutcome, TimerKey
from barnabas.core.groups.groups import Groups
from barnabas.core.groups.records import ClassicGroupRecord

T = TypeVar("T")
_R = TypeVar("_R", JoinRequest, SyncRequest, HeartbeatRequest, LeaveRequest)


def find(groups: Groups, soft: ClassicSoft, group: str) -> LiveGroup | None:
    """The group as it is now; None when there is no classic group of that name.

    A group with members becomes live here. An empty one does not, so a change of it must be stored.
    """
    live = soft.live.get(group)
    if live is not None:
        return live
    record = groups.classic.get(group)
    if record is None:
        return None
    live = LiveGroup.from_record(record)
    if live.members:
        soft.live[group] = live
    return live


def _decide(soft: ClassicSoft, request: _R, token: Token[T], body: Callable[[Effects], None]) -> GroupOutcome:
    """Run one decision: a refusal is its answer, and a group that is fully described by its record is dropped."""
    effects = Effects()
    try:
        if not request.group:
            raise InvalidGroupId("the group id must not be empty")
        body(effects)
    except BarnabasError as refusal:
        effects.reply(token, refusal)
    _let_go(soft, request.group)
    return effects.outcome()


def _let_go(soft: ClassicSoft, group: str) -> None:
    live = soft.live.get(group)
    if live is not None and live.is_idle:
        del soft.live[group]


def group_has_consumers(groups: Groups, group: str) -> bool:
    """Whether a request belongs to the consumer group (KIP-848) of that name."""
    return group in groups.consumer and bool(groups.consumer[group].members)


def _known(groups: Groups, soft: ClassicSoft, group: str) -> LiveGroup:
    live = find(groups, soft, group)
    if live is None:
        raise UnknownMemberId(f"there is no classic group '{group}', so it has no members")
    return live


# What members ask.


def join(
    groups: Groups, soft: ClassicSoft, request: JoinRequest, *, token: Token[JoinReply], now_ms: int, new_member_id: str
) -> GroupOutcome:
    """JoinGroup: answered with a `JoinReply` when the generation is complete.

    `new_member_id` is for a member without an id.
    """

    def body(effects: Effects) -> None:
        check_join(soft.config, request)
        if group_has_consumers(groups, request.group):
            raise InconsistentGroupProtocol(f"group '{request.group}' is a consumer group with members")
        live = find(groups, soft, request.group)
        if live is None:
            if request.member_id != UNKNOWN_MEMBER:
                raise UnknownMemberId(f"there is no classic group '{request.group}', so it has no members")
            live = LiveGroup(request.group, state_time_ms=now_ms)
            effects.records.extend(groups.tombstones_of_consumer_group(request.group))
        soft.live[request.group] = live
        Joining(live, soft.config, request, token, effects, now_ms).decide(new_member_id)

    return _decide(soft, request, token, body)


def sync(
    groups: Groups, soft: ClassicSoft, request: SyncRequest, *, token: Token[SyncReply], now_ms: int
) -> GroupOutcome:
    """SyncGroup: answered with a `SyncReply` when the leader has assigned."""

    def body(effects: Effects) -> None:
        live = _known(groups, soft, request.group)
        member = _check_sync(live, request)
        note_synced(live, member, effects)
        if live.state is ClassicState.STABLE:
            effects.reply(token, sync_reply(live, member))
            return
        live.wait_sync(member, token, effects)
        if member.member_id == live.leader:
            assign(live, dict(request.assignments), effects, now_ms)

    return _decide(soft, request, token, body)


def _check_sync(live: LiveGroup, request: SyncRequest) -> LiveMember:
    member = live.check_member(request.member_id, request.instance_id)
    _check_generation(live, request.generation)
    for said, is_so, what in (
        (request.protocol_type, live.protocol_type, "protocol type"),
        (request.protocol, live.protocol, "protocol"),
    ):
        if said is not None and said != is_so:
            raise InconsistentGroupProtocol(f"the {what} of group '{live.group}' is '{is_so}', not '{said}'")
    if live.state is ClassicState.PREPARING_REBALANCE:
        raise RebalanceInProgress(f"group '{live.group}' is rebalancing")
    return member


def _check_generation(live: LiveGroup, generation: int) -> None:
    if generation != live.generation:
        raise IllegalGeneration(f"group '{live.group}' is in generation {live.generation}, not {generation}")


def heartbeat(groups: Groups, soft: ClassicSoft, request: HeartbeatRequest, *, token: Token[None]) -> GroupOutcome:
    """Heartbeat: answered with None if there is nothing to do."""

    def body(effects: Effects) -> None:
        live = _known(groups, soft, request.group)
        member = live.check_member(request.member_id, request.instance_id)
        _check_generation(live, request.generation)
        keep_session(live, member, effects)
        if live.state is ClassicState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"group '{live.group}' is rebalancing")
        effects.reply(token, None)

    return _decide(soft, request, token, body)


def keep_session(live: LiveGroup, member: LiveMember, effects: Effects) -> None:
    """Restart the session of a member that sent a request, unless its first join still waits."""
    if not member.is_new:
        start_session(live, member, effects)


def leave(
    groups: Groups, soft: ClassicSoft, request: LeaveRequest, *, token: Token[LeaveReply], now_ms: int
) -> GroupOutcome:
    """LeaveGroup: answered with the result for each member, a `LeaveReply`."""

    def body(effects: Effects) -> None:
        live = _known(groups, soft, request.group)
        count = len(live.members)
        reply: LeaveReply = tuple(_leave_one(live, leaving, effects) for leaving in request.members)
        effects.reply(token, reply)
        if len(live.members) < count:
            begin_or_complete(live, soft.config, effects, now_ms)
        else:
            complete_if_all_joined(live, effects, now_ms)  # a pending member may have been the last awaited

    return _decide(soft, request, token, body)


def _leave_one(live: LiveGroup, leaving: LeavingMember, effects: Effects) -> LeftMember:
    member_id, instance_id = leaving.member_id, leaving.instance_id
    gone = UnknownMemberId(f"the member has left group '{live.group}'")
    try:
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            # An administrator removes a static member, whose id it need not know.
            member = live.check_member(live.static_members.get(instance_id, ""), instance_id)
            drop(live, member, effects, gone)
        elif member_id in live.pending:
            del live.pending[member_id]
            effects.cancel_timer(TimerKey(SESSION, live.group, member_id))
        else:
            drop(live, live.check_member(member_id, instance_id), effects, gone)
    except BarnabasError as refusal:
        return LeftMember(member_id, instance_id, refusal)
    return LeftMember(member_id, instance_id)


# What time, failures and others bring.


def on_timer(groups: Groups, soft: ClassicSoft, key: TimerKey, *, now_ms: int) -> GroupOutcome:
    """A timer of a classic group has fired."""
    effects = Effects()
    live = find(groups, soft, key.group)
    if live is None:
        return effects.outcome()
    if key.kind == JOIN:
        end_join(live, soft.config, effects, now_ms)
    elif key.kind == SYNC:
        end_sync(live, soft.config, effects, now_ms)
    elif key.kind == SESSION:
        _end_session(live, soft, key.member_id, effects, now_ms)
    _let_go(soft, key.group)
    return effects.outcome()


def _end_session(live: LiveGroup, soft: ClassicSoft, member_id: str, effects: Effects, now_ms: int) -> None:
    member = live.members.get(member_id)
    if member_id in live.pending:
        del live.pending[member_id]
        complete_if_all_joined(live, effects, now_ms)
    elif member is not None and (member.is_new or not member.is_waiting):
        # Whoever waits for an answer need not heartbeat; its session starts over with the answer.
        drop(live, member, effects, UnknownMemberId(f"the session of member '{member_id}' has ended"))
        begin_or_complete(live, soft.config, effects, now_ms)


def take_over(soft: ClassicSoft, record: ClassicGroupRecord, *, now_ms: int) -> GroupOutcome:
    """A consumer group becomes this classic one: all of its members join again. Nothing is written for that."""
    effects = Effects()
    live = soft.live[record.group] = LiveGroup.from_record(record)
    begin(live, soft.config, effects, now_ms)
    return effects.outcome()


def timers_after_load(groups: Groups) -> Iterator[SetTimer]:
    """The session timers of the members in the log, which restart when the coordinator moves."""
    for group, record in sorted(groups.classic.items()):
        for member in record.members:
            yield SetTimer(TimerKey(SESSION, group, member.member_id), member.session_timeout_ms)


def reset(groups: Groups, soft: ClassicSoft, group: str, refusal: BarnabasError) -> GroupOutcome:
    """Reset a group to its state in the log, and refuse its waiting requests: an append failed, or the group is
    converted.

    Call it before the records of a conversion are applied, after the failure of an append.
    """
    effects = Effects()
    live = soft.live.pop(group, None)
    if live is None:
        return effects.outcome()
    if group not in groups.consumer:  # else it was to become classic: its members have the timers of a consumer group
        _reset_timers(live, groups.classic.get(group), effects)
    for member in live.members.values():
        live.answer_join(member, effects, refusal)
        live.answer_sync(member, effects, refusal)
    return effects.outcome()


def _reset_timers(live: LiveGroup, record: ClassicGroupRecord | None, effects: Effects) -> None:
    for kind in (JOIN, SYNC):
        effects.cancel_timer(TimerKey(kind, live.group))
    for member_id in (*live.pending, *live.members):
        effects.cancel_timer(TimerKey(SESSION, live.group, member_id))
    for kept in record.members if record is not None else ():
        effects.set_timer(TimerKey(SESSION, live.group, kept.member_id), kept.session_timeout_ms)
