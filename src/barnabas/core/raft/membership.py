"""Voters change while the quorum runs (KIP-853): one at a time, by a record that rules as soon as it is appended.

Two sets that differ by one voter have a voter in common in any two majorities. That holds only between neighbours: so
no change begins before the last one is committed, and none before the leader has committed something in its own epoch,
which tells it that no change of another leader can come back.
"""

from collections.abc import Sequence

from barnabas.core.errors import (
    BarnabasError,
    DuplicateVoter,
    InvalidRequest,
    InvalidUpdateVersion,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnsupportedVersion,
    VoterNotFound,
)
from barnabas.core.model import NO_OFFSET
from barnabas.core.raft.leading import check_quorum_timeout_ms, release_parked
from barnabas.core.raft.output import ChangeDone, ControlRecord, KRaftVersion, Voters
from barnabas.core.raft.state import Leader, PendingChange, Progress, RaftState
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterSet
from barnabas.core.uuids import id_text


def add_voter(state: RaftState, voter: Voter, token: object, *, now_ms: int) -> None:
    """Have an observer vote. It must have fetched what is committed, or the quorum would wait for it."""
    role, voters = check_can_add(state, voter.key)
    if not is_caught_up(state, role, voter.key, now_ms=now_ms):
        raise _behind(voter.key)
    _change(state, role, voters.with_voter(voter), token, now_ms=now_ms)


def check_can_add(state: RaftState, key: ReplicaKey) -> tuple[Leader, VoterSet]:
    """Refuse what is no observer that could vote; whether it still fetches is not looked at."""
    role, voters = check_can_change(state)
    if voters.by_id(key.node_id) is not None:
        raise DuplicateVoter(f"node {key.node_id} is a voter")
    if key.directory_id is None:
        raise InvalidRequest(f"the data directory of node {key.node_id} is not known")
    progress = role.progress.get(key)
    if progress is None or progress.durable_end < role.high_watermark:
        raise _behind(key)
    return role, voters


def _behind(key: ReplicaKey) -> BarnabasError:
    return RequestTimedOut(f"node {key.node_id} has not fetched all that is committed; try again")


def remove_voter(state: RaftState, key: ReplicaKey, token: object, *, now_ms: int) -> None:
    """Have a voter vote no more. A leader may remove itself: it leads until that is committed, without counting."""
    role, voters = check_can_change(state)
    voter = voters.find(key)
    if voter is None:
        raise VoterNotFound(f"{_named(key)} is no voter")
    if len(voters.voters) == 1:
        raise InvalidRequest(f"node {key.node_id} is the only voter")
    _change(state, role, voters.without(voter.key), token, now_ms=now_ms)


def update_voter(state: RaftState, voter: Voter, token: object, *, now_ms: int) -> None:
    """A voter listens elsewhere."""
    role, voters = check_can_change(state)
    if voter.key.directory_id is None or voters.find(voter.key) is None:
        raise VoterNotFound(f"{_named(voter.key)} is no voter")
    _change(state, role, voters.with_voter(voter), token, now_ms=now_ms)


def make_dynamic(state: RaftState, token: object, *, now_ms: int) -> None:
    """Write the fixed list of voters to the log (kraft.version 1), which says from then on who votes.

    Each voter must have fetched from this leader: that tells it the data directory that the vote is with.
    """
    role = state.role
    if not isinstance(role, Leader):
        raise NotLeaderOrFollower(f"node {state.node_id} does not lead the quorum")
    if state.voters.last_entry is not None:
        state.output.changes.append(ChangeDone(token))
        return
    if role.high_watermark == NO_OFFSET:
        raise RequestTimedOut("the leader has committed nothing in its epoch yet; try again")
    found = [(voter, _with_directory(state, role, voter)) for voter in state.voters.current.voters]
    for old, new in found:
        if new.key.directory_id is None:
            raise InvalidUpdateVersion(
                f"the data directory of voter {new.key.node_id} is not known: it has not fetched"
            )
        if old.key in role.progress:  # of the same replica, whose key is whole now
            role.progress[new.key] = role.progress.pop(old.key)
        if old.key in role.parked:
            role.parked[new.key] = role.parked.pop(old.key)
    _change(state, role, VoterSet.of(new for _, new in found), token, now_ms=now_ms, before=[KRaftVersion(1)])


def _named(key: ReplicaKey) -> str:
    """A replica as an administrator names it: the directory in the form that tools take."""
    directory = (
        "an unknown data directory" if key.directory_id is None else f"the data directory {id_text(key.directory_id)}"
    )
    return f"node {key.node_id} with {directory}"


def _with_directory(state: RaftState, role: Leader, voter: Voter) -> Voter:
    if voter.key.matches(state.key):
        return Voter(state.key, voter.endpoints or state.endpoints)
    progress = role.progress.get(voter.key)
    directory_id = voter.key.directory_id or (progress.directory_id if progress is not None else None)
    return Voter(ReplicaKey(voter.key.node_id, directory_id), voter.endpoints)


def check_can_change(state: RaftState) -> tuple[Leader, VoterSet]:
    """The leader and the set that may be changed now; refused otherwise."""
    role = state.role
    if not isinstance(role, Leader):
        raise NotLeaderOrFollower(
            f"node {state.node_id} does not lead; node {state.leader_id} does, as far as it knows"
        )
    entry = state.voters.last_entry
    if entry is None:
        raise UnsupportedVersion("the voters are fixed by configuration (kraft.version 0)")
    if role.high_watermark == NO_OFFSET:
        raise RequestTimedOut("the leader has committed nothing in its epoch yet; try again")
    if role.change is not None or entry.offset >= role.high_watermark:
        raise RequestTimedOut("another change of the voters is not committed yet; try again")
    return role, entry.voters


def is_caught_up(state: RaftState, role: Leader, key: ReplicaKey, *, now_ms: int) -> bool:
    """Whether a replica has, of late, all that is committed."""
    progress = role.progress.get(key)
    if progress is None or progress.last_fetch_ms is None:
        return False
    is_recent = now_ms - progress.last_fetch_ms <= state.config.fetch_timeout_ms
    return is_recent and progress.durable_end >= role.high_watermark


def _change(
    state: RaftState,
    role: Leader,
    voters: VoterSet,
    token: object,
    *,
    now_ms: int,
    before: Sequence[ControlRecord] = (),
) -> None:
    offset = state.append_control([*before, Voters(voters)])
    role.change = PendingChange(token=token, offset=offset, deadline_ms=now_ms + state.config.request_timeout_ms)
    for voter in state.other_voters.voters:
        role.progress.setdefault(voter.key, Progress(begin_due_ms=now_ms))
    role.fetched.clear()
    role.quorum_deadline_ms = now_ms + check_quorum_timeout_ms(state)
    release_parked(state, role)
