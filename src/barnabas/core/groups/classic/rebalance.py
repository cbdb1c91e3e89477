"""The rebalance of a classic group: members join, those that did form a generation, and each gets its assignment.

Every wait that begins here ends: of a join by the join timer, by the member's session, or by the last member that
joins; of a sync by the leader's, or by the next rebalance, which the sync timer starts when the leader does not come.
A member that waits for neither has a session timer.
"""

from typing import Final

from barnabas.core.errors import BarnabasError, RebalanceInProgress, UnknownMemberId
from barnabas.core.groups.classic.messages import JoinReply, SyncReply
from barnabas.core.groups.classic.state import ClassicState, LiveGroup, LiveMember
from barnabas.core.groups.decision import JOIN, SESSION, SYNC, Effects, TimerKey
from barnabas.core.groups.settings import ClassicConfig

# When nobody has joined, the next look is not sooner than this, whatever timeout the members ask for.
_LEAST_RETRY_MS: Final = 1_000


def begin_or_complete(live: LiveGroup, config: ClassicConfig, effects: Effects, now_ms: int) -> None:
    """Begin a rebalance, or complete the join phase of the current one if all have joined."""
    if live.state is ClassicState.PREPARING_REBALANCE:
        complete_if_all_joined(live, effects, now_ms)
    else:
        begin(live, config, effects, now_ms)


def begin(live: LiveGroup, config: ClassicConfig, effects: Effects, now_ms: int) -> None:
    """Make all members join again. A group that was empty waits a little for more members."""
    assert live.state is not ClassicState.PREPARING_REBALANCE
    if live.state is ClassicState.COMPLETING_REBALANCE:
        _refuse_syncs(live, effects, RebalanceInProgress(f"group '{live.group}' is rebalancing"))
    live.unsynced.clear()
    effects.cancel_timer(TimerKey(SYNC, live.group))
    live.is_initial = live.state is ClassicState.EMPTY
    live.move_to(ClassicState.PREPARING_REBALANCE, now_ms)
    if live.is_initial:
        live.has_newcomers = False
        live.initial_rest_ms = max(live.rebalance_timeout_ms - config.initial_rebalance_delay_ms, 0)
        effects.set_timer(TimerKey(JOIN, live.group), config.initial_rebalance_delay_ms)
    elif live.all_joined:
        complete(live, effects, now_ms)
    else:
        effects.set_timer(TimerKey(JOIN, live.group), max(live.rebalance_timeout_ms, 0))


def complete_if_all_joined(live: LiveGroup, effects: Effects, now_ms: int) -> None:
    """Complete the join phase when all have joined. The first rebalance of a group always waits for its delay."""
    if live.state is ClassicState.PREPARING_REBALANCE and live.all_joined and not live.is_initial:
        complete(live, effects, now_ms)


def end_join(live: LiveGroup, config: ClassicConfig, effects: Effects, now_ms: int) -> None:
    """The time to join is over, unless it is extended because members keep coming to a new group."""
    if live.state is not ClassicState.PREPARING_REBALANCE:
        return
    if live.is_initial and live.has_newcomers and live.initial_rest_ms:
        live.has_newcomers = False
        delay_ms = min(config.initial_rebalance_delay_ms, live.initial_rest_ms)
        live.initial_rest_ms -= delay_ms
        effects.set_timer(TimerKey(JOIN, live.group), delay_ms)
    else:
        complete(live, effects, now_ms)


def complete(live: LiveGroup, effects: Effects, now_ms: int) -> None:
    """Form the next generation from those that joined. Other static members stay until their session ends."""
    assert live.state is ClassicState.PREPARING_REBALANCE
    effects.cancel_timer(TimerKey(JOIN, live.group))
    for member in [*live.members.values()]:
        if member.join_token is None and member.instance_id is None:
            drop(live, member, effects, UnknownMemberId(f"member '{member.member_id}' did not join in time"))
    if not live.members:
        _become_empty(live, effects, now_ms)
    elif not live.joins_waiting:
        effects.set_timer(TimerKey(JOIN, live.group), max(live.rebalance_timeout_ms, _LEAST_RETRY_MS))
    else:
        _start_generation(live, effects, now_ms)


def _become_empty(live: LiveGroup, effects: Effects, now_ms: int) -> None:
    live.generation += 1
    live.protocol = None
    live.is_initial = False
    live.move_to(ClassicState.EMPTY, now_ms)
    effects.records.append(live.to_record())


def _start_generation(live: LiveGroup, effects: Effects, now_ms: int) -> None:
    leader = live.members[live.leader] if live.leader is not None else None
    if leader is None or leader.join_token is None:
        live.leader = next(member.member_id for member in live.members.values() if member.join_token is not None)
    live.generation += 1
    live.protocol = live.select_protocol()
    live.is_initial = False
    live.move_to(ClassicState.COMPLETING_REBALANCE, now_ms)
    for member in live.members.values():
        live.answer_join(member, effects, join_reply(live, member))
        member.is_new = False
        start_session(live, member, effects)
    live.unsynced = dict.fromkeys(live.members)
    effects.set_timer(TimerKey(SYNC, live.group), max(live.rebalance_timeout_ms, 0))


def assign(live: LiveGroup, assignments: dict[str, bytes], effects: Effects, now_ms: int) -> None:
    """The leader has assigned: store the generation, and answer all waiting syncs."""
    assert live.state is ClassicState.COMPLETING_REBALANCE
    live.move_to(ClassicState.STABLE, now_ms)
    for member in live.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    effects.records.append(live.to_record())
    for member in live.members.values():
        if live.answer_sync(member, effects, sync_reply(live, member)):
            start_session(live, member, effects)


def note_synced(live: LiveGroup, member: LiveMember, effects: Effects) -> None:
    """A member has asked for its assignment; once all have, the sync timer is cancelled."""
    if live.unsynced.pop(member.member_id, 0) is None and not live.unsynced:
        effects.cancel_timer(TimerKey(SYNC, live.group))


def end_sync(live: LiveGroup, config: ClassicConfig, effects: Effects, now_ms: int) -> None:
    """The time to fetch assignments is over: those that did not are dropped, the others rebalance."""
    if live.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE) or not live.unsynced:
        return
    for member_id in [*live.unsynced]:
        refusal = UnknownMemberId(f"member '{member_id}' did not fetch its assignment in time")
        drop(live, live.members[member_id], effects, refusal)
    begin(live, config, effects, now_ms)


def _refuse_syncs(live: LiveGroup, effects: Effects, refusal: BarnabasError) -> None:
    for member in live.members.values():
        member.assignment = b""
        if live.answer_sync(member, effects, refusal):
            start_session(live, member, effects)


def drop(live: LiveGroup, member: LiveMember, effects: Effects, refusal: BarnabasError) -> None:
    """Remove a member with its timer."""
    effects.cancel_timer(TimerKey(SESSION, live.group, member.member_id))
    live.remove(member, effects, refusal)


def start_session(live: LiveGroup, member: LiveMember, effects: Effects) -> None:
    """Restart the session of a member."""
    effects.set_timer(TimerKey(SESSION, live.group, member.member_id), member.session_timeout_ms)


def join_reply(live: LiveGroup, member: LiveMember, *, skip_assignment: bool = False) -> JoinReply:
    """The reply to a join: the generation."""
    return JoinReply(
        member_id=member.member_id,
        generation=live.generation,
        protocol_type=live.protocol_type,
        protocol=live.protocol,
        leader=live.leader,
        members=live.joined_members() if member.member_id == live.leader else (),
        skip_assignment=skip_assignment,
    )


def sync_reply(live: LiveGroup, member: LiveMember) -> SyncReply:
    """The reply to a sync: the assignment."""
    return SyncReply(protocol_type=live.protocol_type, protocol=live.protocol, assignment=member.assignment)
