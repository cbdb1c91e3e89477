"""Classic groups: what is asked of them, decided. The way in for the runtime; the rules are in `classic_join` and
`classic_rebalance`, the state in `classic_state`.

Every request has a token, and every token is answered once, in this outcome or in a later one: a refusal is an answer
too, nothing is raised. Requests to a consumer group that has members (`group_has_consumers`) belong to its own side.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from barnabas.core.errors import (
    BarnabasError,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    RebalanceInProgress,
    UnknownMemberId,
)
from barnabas.core.groups.classic_join import Joining, check_join
from barnabas.core.groups.classic_messages import (
    UNKNOWN_MEMBER,
    HeartbeatRequest,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
    SyncRequest,
)
from barnabas.core.groups.classic_rebalance import (
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
from barnabas.core.groups.classic_state import ClassicSoft, ClassicState, LiveGroup, LiveMember
from barnabas.core.groups.decision import JOIN, SESSION, SYNC, Effects, Outcome, SetTimer, TimerKey, Token
from barnabas.core.groups.groups import Groups

_R = TypeVar("_R", JoinRequest, SyncRequest, HeartbeatRequest, LeaveRequest)


def find(groups: Groups, soft: ClassicSoft, group: str) -> LiveGroup | None:
    """The group as it is now; None when there is no classic group of that name.

    One that has members is followed from here on. One that is empty is not, so that a change of it must be kept.
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


def _decide(soft: ClassicSoft, request: _R, token: Token, body: Callable[[Effects], None]) -> Outcome:
    """Run one decision: a refusal is its answer, and a group about which the record says all is let go."""
    effects = Effects()
    try:
        if not request.group:
            raise InvalidGroupId("a group needs a name")
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
    groups: Groups, soft: ClassicSoft, request: JoinRequest, *, token: Token, now_ms: int, new_member_id: str
) -> Outcome:
    """JoinGroup: answered with a `JoinReply` when the generation is made. `new_member_id` is for one that has none."""

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


def sync(groups: Groups, soft: ClassicSoft, request: SyncRequest, *, token: Token, now_ms: int) -> Outcome:
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


def heartbeat(groups: Groups, soft: ClassicSoft, request: HeartbeatRequest, *, token: Token) -> Outcome:
    """Heartbeat: answered with None while nothing is to be done."""

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
    """A member that was heard of has its session from now on, unless its first join still waits."""
    if not member.is_new:
        start_session(live, member, effects)


def leave(groups: Groups, soft: ClassicSoft, request: LeaveRequest, *, token: Token, now_ms: int) -> Outcome:
    """LeaveGroup: answered with what became of each, a `LeaveReply`."""

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


def on_timer(groups: Groups, soft: ClassicSoft, key: TimerKey, *, now_ms: int) -> Outcome:
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


def rebalance(groups: Groups, soft: ClassicSoft, group: str, *, now_ms: int) -> Outcome:
    """Have all members of a group join again, as after its conversion from a consumer group."""
    effects = Effects()
    live = find(groups, soft, group)
    if live is not None and live.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        begin(live, soft.config, effects, now_ms)
    _let_go(soft, group)
    return effects.outcome()


def timers_after_load(groups: Groups) -> Iterator[SetTimer]:
    """Sessions of the members that the log has, which start over when another node coordinates them."""
    for group, record in sorted(groups.classic.items()):
        for member in record.members:
            yield SetTimer(TimerKey(SESSION, group, member.member_id), member.session_timeout_ms)


def reset(groups: Groups, soft: ClassicSoft, group: str, refusal: BarnabasError) -> Outcome:
    """Go back to what the log says of a group, and refuse what waits: an append failed, or the group is converted.

    Call it before the records of a conversion are applied, after the failure of an append.
    """
    effects = Effects()
    live = soft.live.pop(group, None)
    if live is None:
        return effects.outcome()
    for kind in (JOIN, SYNC):
        effects.cancel_timer(TimerKey(kind, group))
    for member_id in live.pending:
        effects.cancel_timer(TimerKey(SESSION, group, member_id))
    for member in live.members.values():
        effects.cancel_timer(TimerKey(SESSION, group, member.member_id))
        live.answer_join(member, effects, refusal)
        live.answer_sync(member, effects, refusal)
    record = groups.classic.get(group)
    for kept in record.members if record is not None else ():
        effects.set_timer(TimerKey(SESSION, group, kept.member_id), kept.session_timeout_ms)
    return effects.outcome()
