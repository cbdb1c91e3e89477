"""From one role to another, and what that does to epoch, leader, vote and deadlines.

Within an epoch a vote is never taken back and never given twice, whatever the node becomes. A deadline of an election
is kept over a change of epoch: otherwise others who try and fail could hold up the one that can win.
"""

from barnabas.core.errors import NotLeaderOrFollower
from barnabas.core.raft import leading
from barnabas.core.raft.output import KRaftVersion, LeaderChange, QuorumState, Voters
from barnabas.core.raft.state import (
    Candidate,
    Follower,
    Leader,
    Progress,
    Prospective,
    RaftState,
    Resigned,
    Role,
    Unattached,
)
from barnabas.core.raft.voters import BOOTSTRAP_OFFSET, Voter, VoterSet


def _enter(state: RaftState, role: Role, *, now_ms: int) -> None:
    if isinstance(state.role, Leader):
        state.heard_ms = now_ms
        leading.step_down(state, state.role, NotLeaderOrFollower(f"node {state.node_id} leads no more"))
    state.role = role
    state.looking_on = None
    state.requests.forget()


def become_unattached(state: RaftState, epoch: int, *, now_ms: int) -> None:
    """No leader is known: in a newer epoch, or because a pre-vote failed in this one."""
    role = state.role
    deadline_ms = now_ms + state.random_election_timeout_ms()
    is_lost = isinstance(role, Prospective) and len(role.refusing) >= state.voters.current.majority
    if isinstance(role, Candidate | Prospective | Resigned | Unattached) and not is_lost:
        deadline_ms = role.deadline_ms
    voted = state.quorum.voted if epoch == state.epoch else None
    state.quorum = QuorumState(epoch, None, voted)
    _enter(state, Unattached(deadline_ms=deadline_ms), now_ms=now_ms)


def become_follower(state: RaftState, epoch: int, leader_id: int, *, now_ms: int) -> None:
    """Another node leads this epoch."""
    assert leader_id != state.node_id
    assert epoch > state.epoch or state.leader_id in (None, leader_id)
    voted = state.quorum.voted if epoch == state.epoch else None
    state.quorum = QuorumState(epoch, leader_id, voted)
    state.former_id = leader_id
    _enter(state, Follower(deadline_ms=now_ms + state.config.fetch_timeout_ms), now_ms=now_ms)


def become_prospective(state: RaftState, *, now_ms: int) -> None:
    """The leader is silent, or there is none: would this node be elected? Nothing durable changes."""
    assert state.may_stand
    deadline_ms = now_ms + state.random_election_timeout_ms()
    _enter(state, Prospective(deadline_ms=deadline_ms, granting={state.node_id}), now_ms=now_ms)
    if state.is_own_vote_enough:
        become_candidate(state, now_ms=now_ms)


def become_candidate(state: RaftState, *, now_ms: int) -> None:
    """Stand for election in the next epoch, with one's own vote."""
    assert state.may_stand
    assert isinstance(state.role, Prospective)
    state.quorum = QuorumState(state.epoch + 1, None, state.key)
    resume_candidate(state, now_ms=now_ms)


def resume_candidate(state: RaftState, *, now_ms: int) -> None:
    """Stand in the epoch that this node has voted for itself in."""
    deadline_ms = now_ms + state.random_election_timeout_ms()
    heard_ms = now_ms if state.heard_ms is None else state.heard_ms
    _enter(state, Candidate(deadline_ms=deadline_ms, granting={state.node_id}, heard_ms=heard_ms), now_ms=now_ms)
    if state.is_own_vote_enough:
        become_leader(state, now_ms=now_ms)


def become_leader(state: RaftState, *, now_ms: int) -> None:
    """Elected: the epoch begins with a record of it, and nothing is committed before that is.

    The high watermark of the time before is not taken over: only what a majority acknowledges in this epoch counts.
    """
    assert isinstance(state.role, Candidate)
    granting = tuple(sorted(state.role.granting))
    state.quorum = state.quorum._replace(leader_id=state.node_id)
    voters = state.voters.current
    role = Leader(
        epoch_start_offset=state.log.end_offset,
        progress={voter.key: Progress(begin_due_ms=now_ms) for voter in state.other_voters.voters},
        fetched=set(),
        quorum_deadline_ms=now_ms + leading.check_quorum_timeout_ms(state),
        heard_ms=state.role.heard_ms,
        former_id=state.former_id,
    )
    _enter(state, role, now_ms=now_ms)
    state.former_id = state.node_id
    change = LeaderChange(state.node_id, voters.node_ids, granting)
    last_entry = state.voters.last_entry
    if last_entry is not None and last_entry.offset == BOOTSTRAP_OFFSET:
        # What this node was formatted with is on no other disk: the log must hold it before the first change.
        state.append_control([change, KRaftVersion(1), Voters(voters)])
    elif last_entry is None and state.forms_quorum and leading.is_sole_voter(state) and state.key.directory_id:
        # From now on others can be added: the log says who votes, and no setting.
        state.append_control([change, KRaftVersion(1), Voters(VoterSet((Voter(state.key, state.endpoints),)))])
    else:
        state.append_control([change])


def resign(state: RaftState, *, now_ms: int, is_final: bool = False) -> None:
    """Lead no more: cut off, removed, or about to stop. Those with the longest logs are named as successors."""
    assert isinstance(state.role, Leader)
    progress = state.role.progress
    followers = sorted(
        state.other_voters.voters,
        key=lambda voter: (-progress[voter.key].durable_end if voter.key in progress else 1, voter.key.node_id),
    )
    deadline_ms = now_ms + state.random_election_timeout_ms()
    _enter(
        state,
        Resigned(
            deadline_ms=deadline_ms,
            successors=tuple(voter.key for voter in followers),
            unaware={voter.key.node_id for voter in followers},
            is_final=is_final,
        ),
        now_ms=now_ms,
    )


def follow_or_wait(state: RaftState, *, now_ms: int) -> None:
    """A pre-vote is lost: back to the leader if one is known, though it may be gone; else wait."""
    if state.leader_id is not None:
        become_follower(state, state.epoch, state.leader_id, now_ms=now_ms)
    else:
        become_unattached(state, state.epoch, now_ms=now_ms)


def is_consistent(state: RaftState, epoch: int, leader_id: int | None) -> bool:
    """Whether what a peer says of the leader of an epoch fits what this node knows."""
    if leader_id is None or epoch < state.epoch:
        return True
    if leader_id == state.node_id:
        return epoch == state.epoch and state.leader_id == leader_id
    return epoch > state.epoch or state.leader_id in (None, leader_id)


def learn(state: RaftState, epoch: int, leader_id: int | None, *, now_ms: int) -> None:
    """Take over a newer epoch, or the leader of this one, that a consistent message names."""
    if epoch > state.epoch:
        if leader_id is not None:
            become_follower(state, epoch, leader_id, now_ms=now_ms)
        else:
            become_unattached(state, epoch, now_ms=now_ms)
    elif epoch == state.epoch and leader_id is not None and state.leader_id is None:
        become_follower(state, epoch, leader_id, now_ms=now_ms)
