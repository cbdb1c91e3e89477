"""Votes: requesting, granting and counting them; and how a leader announces itself and resigns.

A vote is given once in an epoch, to a candidate whose log holds at least what this node's log holds. A pre-vote is not
binding: it keeps a node that was away from raising the epoch, which would depose a leader that all others can reach.
"""

from barnabas.core.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    InvalidVoterKey,
)
from barnabas.core.raft.epochs import is_step
from barnabas.core.raft.leading import is_sole_voter
from barnabas.core.raft.messages import (
    NOT_SAID,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Refusal,
    VoteRequest,
    VoteResponse,
)
from barnabas.core.raft.state import Candidate, Follower, Leader, Prospective, RaftState, Resigned, Unattached
from barnabas.core.raft.transitions import (
    become_candidate,
    become_leader,
    become_unattached,
    follow_or_wait,
    is_consistent,
    learn,
)
from barnabas.core.raft.voters import ReplicaKey


def check_sender(state: RaftState, cluster_id: str, epoch: int) -> Refusal | None:
    """The error of a request that is checked before its content.

    Nobody is elected without a leader that is the only voter: it takes a newer epoch from no one.
    """
    if cluster_id != state.cluster_id:
        return InconsistentClusterId
    if epoch < state.epoch:
        return FencedLeaderEpoch
    is_secure = epoch > state.epoch and isinstance(state.role, Leader) and is_sole_voter(state)
    return InvalidRequest if is_secure or not is_step(state.epoch, epoch) else None


def check_addressee(state: RaftState, voter: ReplicaKey) -> Refusal | None:
    """The error of a request that was meant for another replica. It changes nothing here, not even the epoch."""
    return None if state.key.matches(voter) else InvalidVoterKey


def on_vote_request(state: RaftState, request: VoteRequest, *, now_ms: int) -> VoteResponse:
    """A candidate asks for a vote. It need not be in this node's set of voters: the set may lag behind the log's."""
    refusal = check_sender(state, request.cluster_id, request.epoch) or _check_vote(request)
    refusal = refusal or check_addressee(state, request.voter)
    if refusal is None and request.epoch > state.epoch:
        become_unattached(state, request.epoch, now_ms=now_ms)
    is_granted = refusal is None and may_grant(state, request)
    if is_granted and not request.is_pre_vote:
        _vote_for(state, request.candidate, now_ms=now_ms)
    silence_ms = NOT_SAID if state.heard_ms is None else max(now_ms - state.heard_ms, 0)
    return VoteResponse(
        epoch=state.epoch,
        leader_id=state.leader_id,
        refusal=refusal,
        is_granted=is_granted,
        silence_ms=0 if isinstance(state.role, Leader) else silence_ms,
    )


def _check_vote(request: VoteRequest) -> Refusal | None:
    # A candidate has raised the epoch above all it has seen; one that only asks may have records of it.
    is_newer = request.last_epoch > request.epoch if request.is_pre_vote else request.last_epoch >= request.epoch
    is_nobody = request.candidate.node_id < 0
    return InvalidRequest if is_newer or is_nobody or request.end_offset < 0 or request.last_epoch < 0 else None


def may_grant(state: RaftState, request: VoteRequest) -> bool:
    """Whether the sender of a request in this node's epoch gets its vote."""
    if isinstance(state.role, Leader):
        return False
    is_log_enough = (request.last_epoch, request.end_offset) >= (state.log.last_epoch, state.log.end_offset)
    if request.is_pre_vote:
        return is_log_enough and not (isinstance(state.role, Follower) and state.role.has_fetched)
    if not isinstance(state.role, Unattached | Prospective) or state.leader_id is not None:
        return False
    # Its log is compared each time: a candidate that restarted may have lost records that it had when it was voted for.
    voted = state.quorum.voted
    return is_log_enough and (voted is None or voted.matches(request.candidate))


def _vote_for(state: RaftState, candidate: ReplicaKey, *, now_ms: int) -> None:
    assert isinstance(state.role, Unattached | Prospective)
    state.quorum = state.quorum._replace(voted=candidate)
    # Its log is at least as long: it shall have the time to win.
    state.role.deadline_ms = now_ms + state.random_election_timeout_ms()


def send_votes(state: RaftState, role: Prospective | Candidate, *, now_ms: int) -> None:
    """Ask every voter that has not answered."""
    for voter in state.other_voters.voters:
        node_id = voter.key.node_id
        if node_id in role.granting or node_id in role.refusing or not state.requests.is_ready(node_id):
            continue
        request = VoteRequest(
            cluster_id=state.cluster_id,
            epoch=state.epoch,
            candidate=state.key,
            voter=voter.key,
            last_epoch=state.log.last_epoch,
            end_offset=state.log.end_offset,
            is_pre_vote=isinstance(role, Prospective),
        )
        state.send(node_id, request, now_ms=now_ms)


def on_vote_response(
    state: RaftState, voter_id: int, request: VoteRequest, response: VoteResponse, *, now_ms: int
) -> None:
    """An answer in this node's epoch. That its request is under way says that it is for the role the node is in."""
    role = state.role
    if not isinstance(role, Prospective | Candidate) or request.is_pre_vote != isinstance(role, Prospective):
        return
    (role.granting if response.is_granted else role.refusing).add(voter_id)
    if isinstance(role, Candidate) and response.is_granted:
        # The answer is older than this moment, so it was heard no later than this; who does not say may just have.
        role.heard_ms = max(role.heard_ms, now_ms - max(response.silence_ms, 0))
    majority = state.voters.current.majority
    if len(role.granting.intersection(state.voters.current.node_ids)) >= majority:
        if isinstance(role, Prospective):
            become_candidate(state, now_ms=now_ms)
        else:
            become_leader(state, now_ms=now_ms)
    elif isinstance(role, Prospective) and len(role.refusing) >= majority:
        follow_or_wait(state, now_ms=now_ms)
    # A candidate that has lost waits for its deadline: trying again at once would only split the next vote too.


def on_begin_epoch(state: RaftState, request: BeginQuorumEpochRequest, *, now_ms: int) -> BeginQuorumEpochResponse:
    """A leader announces itself."""
    refusal = check_sender(state, request.cluster_id, request.epoch) or _check_leader(state, request)
    refusal = refusal or check_addressee(state, request.voter)
    if refusal is None:
        learn(state, request.epoch, request.leader_id, now_ms=now_ms)
    return BeginQuorumEpochResponse(epoch=state.epoch, leader_id=state.leader_id, refusal=refusal)


def _check_leader(state: RaftState, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> Refusal | None:
    is_possible = request.leader_id >= 0 and is_consistent(state, request.epoch, request.leader_id)
    return None if is_possible else InvalidRequest


def send_end_epoch(state: RaftState, role: Resigned, *, now_ms: int) -> None:
    """Tell every voter that this node leads no more."""
    request = EndQuorumEpochRequest(
        cluster_id=state.cluster_id, epoch=state.epoch, leader_id=state.node_id, successors=role.successors
    )
    for node_id in state.other_voters.node_ids:
        if node_id in role.unaware and state.requests.is_ready(node_id):
            state.send(node_id, request, now_ms=now_ms)


def on_end_epoch(state: RaftState, request: EndQuorumEpochRequest, *, now_ms: int) -> EndQuorumEpochResponse:
    """The leader leaves: the first of the successors stands at once, the others give it time, each twice as much."""
    refusal = check_sender(state, request.cluster_id, request.epoch) or _check_leader(state, request)
    if refusal is None:
        learn(state, request.epoch, request.leader_id, now_ms=now_ms)
        if isinstance(state.role, Follower) and state.leader_id == request.leader_id:
            # That it has fetched is no reason any more to deny others a pre-vote.
            state.role.has_fetched = False
            state.role.is_leader_leaving = True
            state.role.deadline_ms = now_ms + _successor_backoff_ms(state, request.successors)
    return EndQuorumEpochResponse(epoch=state.epoch, leader_id=state.leader_id, refusal=refusal)


def _successor_backoff_ms(state: RaftState, successors: tuple[ReplicaKey, ...]) -> int:
    places = [place for place, key in enumerate(successors) if key.matches(state.key)]
    place = places[0] if places else len(successors)
    if place == 0:
        return 0
    return state.config.election_backoff_max_ms >> max(len(successors) - place - 1, 0)
