"""The leader: who has fetched what, what is committed, and whether a majority is still there.

A replica acknowledges by fetching: whatever is below its fetch offset is on its disk. The leader's own records count
when they are on its own disk, not before. Committed is what a majority of the voters have on disk, once that reaches
past the start of the leader's epoch: records of older epochs are never committed by counting alone, because a leader of
an epoch between could still replace them.
"""

from typing import Final

import msgspec

from barnabas.core.errors import (
    BarnabasError,
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from barnabas.core.model import NO_OFFSET
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT, EpochEnd, SnapshotId
from barnabas.core.raft.messages import NOT_SAID, BeginQuorumEpochRequest, FetchRequest, FetchResponse, Refusal
from barnabas.core.raft.output import ChangeDone, Reply
from barnabas.core.raft.state import CHECK_QUORUM_FACTOR, Leader, ParkedFetch, Progress, RaftState
from barnabas.core.raft.voters import ReplicaKey

OBSERVER_SESSION_MS: Final = 300_000
"""An observer that has not fetched for so long is forgotten."""
MAX_OBSERVERS: Final = 1000
"""How many observers are remembered; of more, those that fetched last."""


def check_quorum_timeout_ms(state: RaftState) -> int:
    """How long a leader goes on without fetches from a majority."""
    return int(state.config.fetch_timeout_ms * CHECK_QUORUM_FACTOR)


def check_for_leader(state: RaftState, cluster_id: str, epoch: int) -> Refusal | None:
    """What is wrong with a request that only a leader answers, to followers in its own epoch."""
    if cluster_id != state.cluster_id:
        return InconsistentClusterId
    if epoch < state.epoch:
        return FencedLeaderEpoch
    if epoch > state.epoch:
        return UnknownLeaderEpoch
    return None if isinstance(state.role, Leader) else NotLeaderOrFollower


# Fetches


def on_fetch_request(state: RaftState, request: FetchRequest, token: object, *, now_ms: int) -> None:
    """A replica wants what comes after its log, and acknowledges what it has."""
    refusal = check_for_leader(state, request.cluster_id, request.epoch)
    is_sound = request.fetch_offset >= 0 and 0 <= request.last_epoch <= request.epoch and request.max_wait_ms >= 0
    if refusal is None and (not is_sound or request.replica.node_id == state.node_id):
        refusal = InvalidRequest
    role = state.role
    if refusal is not None or not isinstance(role, Leader):
        _reply(state, token, refusal=refusal)
        return
    place = find_place(state, request)
    if isinstance(place, SnapshotId):
        _reply(state, token, snapshot=place, received_ms=_told_ms(request, now_ms))
    elif place is not None:
        # It has acknowledged nothing: what is below its fetch offset is not this log.
        _reply(state, token, diverging=place, received_ms=_told_ms(request, now_ms))
    else:
        _on_valid_fetch(state, role, request, token, now_ms=now_ms)


def _on_valid_fetch(state: RaftState, role: Leader, request: FetchRequest, token: object, *, now_ms: int) -> None:
    if request.replica.node_id >= 0:  # else somebody who only looks
        _note_progress(state, role, request, now_ms=now_ms)
        note_contact(state, role, request.replica, now_ms=now_ms)
        advance(state, role)
    has_news = state.log.end_offset > request.fetch_offset or role.high_watermark > request.high_watermark
    if has_news or request.max_wait_ms <= 0:
        _reply(state, token, read_from=request.fetch_offset, received_ms=_told_ms(request, now_ms))
        return
    key = _progress_key(state, request.replica)
    replaced = role.parked.pop(key, None)
    if replaced is not None:
        _reply(state, replaced.token, read_from=replaced.request.fetch_offset, received_ms=replaced.received_ms)
    wait_ms = min(request.max_wait_ms, state.config.fetch_max_wait_ms)
    role.parked[key] = ParkedFetch(
        token=token, request=request, deadline_ms=now_ms + wait_ms, received_ms=_told_ms(request, now_ms)
    )


def _told_ms(request: FetchRequest, now_ms: int) -> int:
    """The time that an answer tells: to those who say what they were told, and so know the field."""
    return NOT_SAID if request.seen_leader_ms == NOT_SAID else now_ms


def find_place(state: RaftState, request: FetchRequest) -> EpochEnd | SnapshotId | None:
    """Where a follower's log leaves this one; or the snapshot that it needs; None: the log goes on for it."""
    log, offset = state.log, request.fetch_offset
    last, first = log.last_snapshot, log.first_snapshot
    if offset == 0 and last is not None and last != BOOTSTRAP_SNAPSHOT:
        return last
    if offset == 0 and log.start_offset == 0:
        return None
    if last is not None and first is not None:
        is_known_start = first.end_offset == log.start_offset and first.epoch == request.last_epoch
        is_at_start = offset == log.start_offset and not is_known_start
        if offset < log.start_offset or is_at_start or request.last_epoch < first.epoch:
            return last
    end = log.end_of(request.last_epoch)
    return end if end.epoch != request.last_epoch or end.end_offset < offset else None


def _reply(
    state: RaftState,
    token: object,
    *,
    refusal: Refusal | None = None,
    diverging: EpochEnd | None = None,
    snapshot: SnapshotId | None = None,
    read_from: int | None = None,
    received_ms: int = NOT_SAID,
) -> None:
    high_watermark = state.role.high_watermark if isinstance(state.role, Leader) else NO_OFFSET
    response = FetchResponse(
        epoch=state.epoch,
        leader_id=state.leader_id,
        refusal=refusal,
        high_watermark=high_watermark,
        diverging=diverging,
        snapshot=snapshot,
        leader_ms=received_ms,
    )
    state.output.replies.append(Reply(token, response, read_from))


def release_parked(state: RaftState, role: Leader, *, now_ms: int | None = None) -> None:
    """Answer the fetches that wait: all of them, or those whose time is up."""
    for key, parked in list(role.parked.items()):
        if now_ms is None or parked.deadline_ms <= now_ms:
            del role.parked[key]
            _reply(state, parked.token, read_from=parked.request.fetch_offset, received_ms=parked.received_ms)


# Progress


def _progress_key(state: RaftState, key: ReplicaKey) -> ReplicaKey:
    voter = state.voters.current.find(key)
    return voter.key if voter is not None else key


def _note_progress(state: RaftState, role: Leader, request: FetchRequest, *, now_ms: int) -> None:
    key = _progress_key(state, request.replica)
    progress = role.progress.get(key)
    if progress is None:
        _make_room(state, role)
        progress = role.progress[key] = Progress(begin_due_ms=now_ms)
    if request.fetch_offset >= state.log.end_offset:
        progress.last_caught_up_ms = now_ms
    elif progress.last_fetch_ms is not None and request.fetch_offset >= progress.last_fetch_end:
        progress.last_caught_up_ms = progress.last_fetch_ms
    progress.followed_ms = _followed_ms(role, key, progress, request, now_ms=now_ms)
    progress.directory_id = request.replica.directory_id
    progress.durable_end = request.fetch_offset
    progress.last_fetch_ms = now_ms
    progress.last_fetch_end = state.log.end_offset
    progress.begin_due_ms = now_ms + state.config.fetch_timeout_ms // 2


def _followed_ms(
    role: Leader, key: ReplicaKey, progress: Progress, request: FetchRequest, *, now_ms: int
) -> int | None:
    """The latest time at which a replica that fetches certainly followed this leader.

    A fetch may have been sent long before it is here: it may have waited, with others, while this node stood still. It
    was sent after the answer whose time it names. The first names none, and may be of before the leader was elected.
    """
    before, seen_ms = progress.followed_ms, request.seen_leader_ms
    if seen_ms == NOT_SAID and progress.last_fetch_ms is not None and key not in role.parked:
        # It fetches again when it has an answer, so after the fetch before was here, unless it has given that up.
        seen_ms = progress.last_fetch_ms
    if seen_ms <= 0:
        return before
    return min(seen_ms, now_ms) if before is None else max(before, min(seen_ms, now_ms))


def _make_room(state: RaftState, role: Leader) -> None:
    observers = [key for key in role.progress if state.voters.current.find(key) is None]
    if len(observers) >= MAX_OBSERVERS:
        del role.progress[min(observers, key=lambda key: role.progress[key].last_fetch_ms or 0)]


def forget_observers(state: RaftState, role: Leader, *, now_ms: int) -> None:
    """Forget observers that have not fetched for long."""
    for key, progress in list(role.progress.items()):
        is_silent = now_ms - (progress.last_fetch_ms or 0) >= OBSERVER_SESSION_MS
        if is_silent and state.voters.current.find(key) is None:
            del role.progress[key]


def note_contact(state: RaftState, role: Leader, key: ReplicaKey, *, now_ms: int) -> None:
    """A replica has fetched from this leader; once a majority has, the quorum is known to be whole."""
    voters = state.voters.current
    voter = voters.find(key)
    if voter is not None:
        role.fetched.add(voter.key.node_id)
    needed = voters.majority - (1 if state.is_voter else 0)
    if len(role.fetched.intersection(voters.node_ids)) >= needed:
        role.fetched.clear()
        role.quorum_deadline_ms = now_ms + check_quorum_timeout_ms(state)


def is_quorum_lost(state: RaftState, role: Leader, *, now_ms: int) -> bool:
    """Whether no majority has fetched for too long: others may have another leader by now."""
    return not is_sole_voter(state) and now_ms >= role.quorum_deadline_ms


def is_sole_voter(state: RaftState) -> bool:
    """Whether this node is all of the quorum."""
    return state.is_voter and len(state.voters.current.voters) == 1


def confirmed_ms(state: RaftState, role: Leader, *, now_ms: int) -> int | None:
    """The latest time at which nobody else can have been elected: a majority followed this leader. None: not yet."""
    times: list[int | None] = []
    for voter in state.voters.current.voters:
        progress = role.progress.get(voter.key)
        is_own = voter.key.matches(state.key)
        times.append(now_ms if is_own else None if progress is None else progress.followed_ms)
    known = sorted((time for time in times if time is not None), reverse=True)
    majority = state.voters.current.majority
    return known[majority - 1] if len(known) >= majority else None


def send_begin_epoch(state: RaftState, role: Leader, *, now_ms: int) -> None:
    """Tell the voters that have not fetched for a while who leads."""
    for voter in state.other_voters.voters:
        progress = role.progress.setdefault(voter.key, Progress(begin_due_ms=now_ms))
        if progress.begin_due_ms > now_ms or not state.requests.is_ready(voter.key.node_id):
            continue
        progress.begin_due_ms = now_ms + state.config.fetch_timeout_ms // 2
        request = BeginQuorumEpochRequest(
            cluster_id=state.cluster_id, epoch=state.epoch, leader_id=state.node_id, voter=voter.key
        )
        state.send(voter.key.node_id, request, now_ms=now_ms)


# Committing


def own_end(state: RaftState) -> int:
    """How much of the log the leader itself may count: what is on its disk."""
    return state.log.durable_end


def majority_end(state: RaftState, role: Leader) -> int:
    """Up to where a majority of the voters have the log on disk. A leader that is no voter does not count."""
    ends = []
    for voter in state.voters.current.voters:
        progress = role.progress.get(voter.key)
        if voter.key.matches(state.key):
            ends.append(own_end(state))
        else:
            ends.append(progress.durable_end if progress is not None else NO_OFFSET)
    return sorted(ends, reverse=True)[state.voters.current.majority - 1]


def may_commit(role: Leader, end_offset: int) -> bool:
    """Whether a majority up to here commits anything: only if a record of the leader's own epoch is below it."""
    return end_offset > role.epoch_start_offset


def advance(state: RaftState, role: Leader) -> None:
    """Commit what can be committed, and notify the waiters."""
    end_offset = majority_end(state, role)
    if end_offset <= role.high_watermark or not may_commit(role, end_offset):
        return
    role.high_watermark = end_offset
    state.raise_high_watermark(end_offset)
    if role.change is not None and role.change.offset < end_offset:
        state.output.changes.append(ChangeDone(role.change.token))
        role.change = None
    release_parked(state, role)


def is_removed(state: RaftState, role: Leader) -> bool:
    """Whether a set of voters without this leader is committed: then it has to go, and not before."""
    entry = state.voters.last_entry
    return not state.is_voter and entry is not None and entry.offset < role.high_watermark


def expire_change(state: RaftState, role: Leader, *, now_ms: int) -> None:
    """Answer a change of voters that takes too long. It stays in the log, and bars others until it is committed."""
    if role.change is not None and role.change.deadline_ms <= now_ms:
        error = RequestTimedOut("the change of voters is in the log, and not committed yet")
        state.output.changes.append(ChangeDone(role.change.token, error))
        role.change = None


def step_down(state: RaftState, role: Leader, error: BarnabasError) -> None:
    """The role is about to end: fail everything that waits for this leader."""
    for parked in role.parked.values():
        response = FetchResponse(epoch=state.epoch, leader_id=state.leader_id, refusal=NotLeaderOrFollower)
        state.output.replies.append(Reply(parked.token, response))
    if role.change is not None:
        state.output.changes.append(ChangeDone(role.change.token, error))


def deadlines_ms(state: RaftState, role: Leader) -> list[int]:
    """When there is something to do for this leader, if nothing happens before."""
    times = [parked.deadline_ms for parked in role.parked.values()]
    ready = [voter.key for voter in state.other_voters.voters if state.requests.is_ready(voter.key.node_id)]
    times += [role.progress[key].begin_due_ms for key in ready if key in role.progress]
    if role.change is not None:
        times.append(role.change.deadline_ms)
    return times if is_sole_voter(state) else [*times, role.quorum_deadline_ms]


class ReplicaDescription(msgspec.Struct, frozen=True):
    """What a leader knows of one replica."""

    key: ReplicaKey
    is_voter: bool
    end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


def describe(state: RaftState) -> list[ReplicaDescription]:
    """What a leader knows of the replicas, itself first; nothing elsewhere."""
    role = state.role
    if not isinstance(role, Leader):
        return []
    own = ReplicaDescription(state.key, state.is_voter, own_end(state), None, None)
    return [own] + [
        ReplicaDescription(
            # A fixed list of voters has no directories: what a voter has said when it fetched.
            ReplicaKey(key.node_id, key.directory_id or one.directory_id),
            state.voters.current.find(key) is not None,
            one.durable_end,
            one.last_fetch_ms,
            one.last_caught_up_ms,
        )
        for key, one in role.progress.items()
    ]
