"""Followers and observers: they fetch, append, truncate where their log differs, and find the leader.

One fetch is under way at a time, and none before all that was appended is on disk: the fetch offset is a promise.
"""

from barnabas.core.model import NO_OFFSET
from barnabas.core.raft import looking_on
from barnabas.core.raft.log_view import BatchInfo, EpochEnd
from barnabas.core.raft.messages import FetchRequest, FetchResponse
from barnabas.core.raft.output import AppendFetched, Truncate
from barnabas.core.raft.state import BrokenQuorum, Follower, LookingOn, RaftState, SnapshotFetch


def send_fetch(state: RaftState, *, now_ms: int) -> None:
    """Fetch from the leader; if it cannot be reached, ask another node, which may know a newer one."""
    leader_id = state.leader_id
    assert leader_id is not None
    if not can_fetch(state):
        return
    if state.requests.is_ready(leader_id):
        state.send(leader_id, fetch_request(state), now_ms=now_ms)
    elif state.requests.is_paused(leader_id):
        look_for_leader(state, now_ms=now_ms)


def can_fetch(state: RaftState) -> bool:
    """Whether the end of the log may be acknowledged, and no fetch is under way."""
    return state.log.durable_end == state.log.end_offset and not state.requests.is_any_under_way


def look_for_leader(state: RaftState, *, now_ms: int) -> None:
    """Fetch from any node: one that does not lead names the leader."""
    if not can_fetch(state) or looking_on.send_fetch(state, now_ms=now_ms):
        return
    candidates = [*state.other_voters.node_ids, *state.config.bootstrap_ids]
    ready = [
        peer for peer in candidates if state.requests.is_ready(peer) and peer not in (state.leader_id, state.node_id)
    ]
    if ready:
        state.send(ready[state.dice.randrange(len(ready))], fetch_request(state), now_ms=now_ms)


def fetch_request(state: RaftState, *, as_onlooker: LookingOn | None = None) -> FetchRequest:
    """The next fetch: from the end of the log, all of which is on disk."""
    return FetchRequest(
        cluster_id=state.cluster_id,
        epoch=state.epoch if as_onlooker is None else as_onlooker.epoch,
        replica=state.key if as_onlooker is None else looking_on.ONLOOKER,
        fetch_offset=state.log.end_offset,
        last_epoch=state.log.last_epoch,
        high_watermark=state.high_watermark,
        max_wait_ms=state.config.fetch_max_wait_ms,
        seen_leader_ms=state.role.leader_ms if isinstance(state.role, Follower) else 0,
    )


def on_fetch_response(
    state: RaftState, leader_id: int, request: FetchRequest, response: FetchResponse, *, now_ms: int
) -> None:
    """The leader of this epoch has answered."""
    role = state.role
    if not isinstance(role, Follower) or leader_id != state.leader_id:
        return
    if response.refusal is None and request.epoch == state.epoch:
        role.leader_ms = max(role.leader_ms, response.leader_ms)
        state.heard_ms = now_ms
        state.looking_on = None  # there is a leader in this epoch: whoever named one of an older epoch lags
    if response.refusal is not None or not is_current(state, request):
        state.requests.pause(leader_id, now_ms=now_ms)
        return
    if response.diverging is not None:
        # Whatever the leader calls committed, it does not speak of this log before it is truncated.
        truncate_diverging(state, leader_id, response.diverging, now_ms=now_ms)
    elif response.snapshot is not None and not 0 <= response.snapshot.epoch <= state.epoch:
        state.note(f"leader {leader_id} of epoch {state.epoch} sends the snapshot {response.snapshot}, which cannot be")
        state.requests.pause(leader_id, now_ms=now_ms)
        return
    elif response.snapshot is not None:
        if response.snapshot.end_offset < state.high_watermark:
            raise BrokenQuorum(
                f"leader {leader_id} of epoch {state.epoch} sends the snapshot {response.snapshot}, which ends before"
                f" the high watermark {state.high_watermark}"
            )
        role.snapshot = SnapshotFetch(snapshot=response.snapshot)
    elif not append(state, leader_id, response, now_ms=now_ms):
        return
    role.note_contact(now_ms + state.config.fetch_timeout_ms)


def is_current(state: RaftState, request: FetchRequest) -> bool:
    """Whether an answer to this request is about the current log: else it must not change anything."""
    position = (request.epoch, request.fetch_offset, request.last_epoch)
    return position == (state.epoch, state.log.end_offset, state.log.last_epoch)


def truncate_diverging(state: RaftState, leader_id: int, diverging: EpochEnd, *, now_ms: int) -> None:
    """Remove what the leader does not have."""
    end_offset = truncation_offset(state, diverging)
    if not 0 <= end_offset < state.log.end_offset:
        state.note(f"leader {leader_id} says that logs differ at {diverging}, where this one has nothing")
        state.requests.pause(leader_id, now_ms=now_ms)
        return
    check_truncation(state, leader_id, end_offset)
    truncate_to(state, end_offset)


def truncation_offset(state: RaftState, diverging: EpochEnd) -> int:
    """Up to where the log can be the leader's: the end of the largest epoch that both have."""
    local = state.log.end_of(diverging.epoch)
    return min(local.end_offset, diverging.end_offset) if local.epoch == diverging.epoch else local.end_offset


def check_truncation(state: RaftState, leader_id: int, end_offset: int) -> None:
    """Committed records are never truncated: a leader that asks for it does not have them."""
    if end_offset < state.high_watermark:
        raise BrokenQuorum(
            f"leader {leader_id} of epoch {state.epoch} has the log truncated to {end_offset}, below the high watermark"
            f" {state.high_watermark}"
        )


def truncate_to(state: RaftState, end_offset: int) -> None:
    """Remove the end of the log, and the voters that it held."""
    state.output.operations.append(Truncate(end_offset))
    state.log.truncate_to(end_offset)
    state.voters.truncate_to(end_offset)


def append(state: RaftState, leader_id: int, response: FetchResponse, *, now_ms: int) -> bool:
    """Append what the leader sent; whether it made sense."""
    base_offset = state.log.end_offset
    for batch in response.batches:
        if not continues(state, batch):
            state.note(f"leader {leader_id} sent {batch}, which does not continue the log at {state.log.end_offset}")
            state.requests.pause(leader_id, now_ms=now_ms)
            break
        state.note_batch(batch)
    if state.log.end_offset > base_offset:
        state.output.operations.append(AppendFetched(base_offset, state.log.end_offset))
    elif response.batches:
        return False
    if response.high_watermark != NO_OFFSET:
        state.raise_high_watermark(min(response.high_watermark, state.log.end_offset))
    return True


def continues(state: RaftState, batch: BatchInfo) -> bool:
    """Whether a batch is the next of this log."""
    is_next = batch.base_offset == state.log.end_offset and batch.end_offset > batch.base_offset
    return is_next and state.log.last_epoch <= batch.epoch <= state.epoch
