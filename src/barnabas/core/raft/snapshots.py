"""Snapshots over the network: served by the leader, fetched by a follower whose log ends before the leader's begins.

A snapshot arrives in parts, is synced and checked by the driver, and only then takes the place of the log: all in it is
committed, and whatever the log held instead was not.
"""

from barnabas.core.errors import PositionOutOfRange, SnapshotNotFound
from barnabas.core.raft.leading import check_for_leader, note_contact
from barnabas.core.raft.log_view import BOOTSTRAP_SNAPSHOT, SnapshotId
from barnabas.core.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse, Refusal
from barnabas.core.raft.output import FinishSnapshot, ResetToSnapshot, WriteSnapshotPart
from barnabas.core.raft.state import Follower, Leader, RaftState, SnapshotFetch
from barnabas.core.raft.voters import VoterSet


def on_snapshot_request(
    state: RaftState, request: FetchSnapshotRequest, *, size_bytes: int, now_ms: int
) -> FetchSnapshotResponse:
    """A follower wants a piece of a snapshot, which has `size_bytes` here; the driver adds the bytes."""
    refusal = check_for_leader(state, request.cluster_id, request.epoch) or _check(state, request, size_bytes)
    if refusal is None and isinstance(state.role, Leader):
        note_contact(state, state.role, request.replica, now_ms=now_ms)
    return FetchSnapshotResponse(
        epoch=state.epoch,
        leader_id=state.leader_id,
        refusal=refusal,
        snapshot=request.snapshot,
        position=request.position,
        size_bytes=size_bytes,
    )


def _check(state: RaftState, request: FetchSnapshotRequest, size_bytes: int) -> Refusal | None:
    if request.snapshot == BOOTSTRAP_SNAPSHOT or not state.log.has_snapshot(request.snapshot):
        return SnapshotNotFound
    return None if 0 <= request.position < size_bytes else PositionOutOfRange


def send_fetch_snapshot(state: RaftState, fetch: SnapshotFetch, *, now_ms: int) -> None:
    """Ask for the next piece, unless all have arrived or one is in flight."""
    leader_id = state.leader_id
    assert leader_id is not None
    if fetch.is_finishing or not state.requests.is_ready(leader_id):
        return
    request = FetchSnapshotRequest(
        cluster_id=state.cluster_id,
        epoch=state.epoch,
        replica=state.key,
        snapshot=fetch.snapshot,
        position=fetch.position,
    )
    state.send(leader_id, request, now_ms=now_ms)


def on_snapshot_response(
    state: RaftState, leader_id: int, request: FetchSnapshotRequest, response: FetchSnapshotResponse, *, now_ms: int
) -> None:
    """A piece has come, or the snapshot is gone: then the leader has a newer one to name."""
    role = state.role
    fetch = role.snapshot if isinstance(role, Follower) else None
    if not isinstance(role, Follower) or fetch is None or leader_id != state.leader_id:
        return
    is_next = (request.snapshot, request.position) == (fetch.snapshot, fetch.position)
    has_bytes = response.length_bytes > 0 and fetch.position + response.length_bytes <= response.size_bytes
    if response.refusal is not None or not is_next or not has_bytes:
        role.snapshot = None
        state.requests.pause(leader_id, now_ms=now_ms)
        return
    state.output.operations.append(WriteSnapshotPart(fetch.snapshot, fetch.position, response.length_bytes))
    fetch.position += response.length_bytes
    if fetch.position == response.size_bytes:
        fetch.is_finishing = True
        state.output.operations.append(FinishSnapshot(fetch.snapshot))
    role.note_contact(now_ms + state.config.fetch_timeout_ms)


def on_snapshot_ready(state: RaftState, snapshot: SnapshotId, voters: VoterSet) -> None:
    """The driver has a whole snapshot on disk. It counts only if this node still follows, and still wants it."""
    role = state.role
    fetch = role.snapshot if isinstance(role, Follower) else None
    if not isinstance(role, Follower) or fetch is None or not fetch.is_finishing or fetch.snapshot != snapshot:
        state.note(f"the snapshot {snapshot} is of no use any more")
        return
    role.snapshot = None
    install(state, snapshot, voters)


def install(state: RaftState, snapshot: SnapshotId, voters: VoterSet) -> None:
    """Restart the log where the snapshot ends, with its voters."""
    state.output.operations.append(ResetToSnapshot(snapshot))
    state.log.reset(snapshot)
    state.voters.reset(snapshot.end_offset, voters)
    state.raise_high_watermark(snapshot.end_offset)


def on_snapshot_failed(state: RaftState, snapshot: SnapshotId) -> None:
    """What was fetched is damaged: ask the leader again."""
    if isinstance(state.role, Follower) and state.role.snapshot is not None:
        state.role.snapshot = None
        state.note(f"the snapshot {snapshot} did not arrive whole")
