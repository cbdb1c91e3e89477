"""What a node asks of the leader for itself: to vote, or that its vote is sought where it listens now (KIP-853)."""

from typing import NamedTuple, TypeAlias

from barnabas.core.model import NO_OFFSET
from barnabas.core.raft.state import Follower, RaftState
from barnabas.core.raft.voters import ReplicaKey, Voter


class AddVoter(NamedTuple):
    """This node wants to vote."""

    voter: Voter


class RemoveVoter(NamedTuple):
    """The node's vote is with a data directory that it has no more: that one has to go first."""

    key: ReplicaKey


class UpdateVoter(NamedTuple):
    """This node, a voter, listens elsewhere than the set of voters says."""

    voter: Voter


VoterChange: TypeAlias = AddVoter | RemoveVoter | UpdateVoter


def due_change(state: RaftState, *, joins: bool) -> VoterChange | None:
    """What to ask of the leader now. `joins`: a node that does not vote becomes a voter by itself.

    Nothing as long as the voters are fixed, and before the node has all that it knows to be committed.
    """
    role, entry = state.role, state.voters.last_entry
    if not isinstance(role, Follower) or not role.has_fetched or entry is None or state.key.directory_id is None:
        return None
    mine = Voter(state.key, state.endpoints)
    listed = entry.voters.by_id(state.node_id)
    if listed is not None and listed.key == state.key:
        return UpdateVoter(mine) if state.endpoints and listed.endpoints != state.endpoints else None
    is_caught_up = NO_OFFSET < state.high_watermark <= state.log.durable_end
    if not joins or not state.endpoints or not is_caught_up:
        return None
    return AddVoter(mine) if listed is None else RemoveVoter(listed.key)
