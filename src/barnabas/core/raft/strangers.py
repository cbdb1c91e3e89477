"""Peers that belong to another cluster, and when that says that it is this node which is in the wrong place.

One such peer is a stray: an old address, or somebody else's mistake. But a node that has heard nobody of its own
cluster since it started, and that everybody refuses whom it could ask, has the data directory of another cluster.
"""

from barnabas.core.raft.output import Stranger
from barnabas.core.raft.state import RaftState


def note_stranger(state: RaftState, peer: int) -> None:
    """A peer has answered that it belongs to another cluster: said once, and once more if all others do, too."""
    is_new = peer not in state.strangers
    state.strangers.add(peer)
    asked = {*state.other_voters.node_ids, *state.config.bootstrap_ids}
    is_everybody = not state.has_heard_its_own and asked <= state.strangers
    if is_new or is_everybody:
        state.output.strangers.append(Stranger(peer, is_everybody=is_everybody))


def note_own(state: RaftState, peer: int) -> None:
    """A peer has answered as one of this cluster."""
    state.has_heard_its_own = True
    state.strangers.discard(peer)
