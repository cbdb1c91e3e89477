"""What an operator hears when a controller belongs to another cluster, and when that ends the node."""

from typing import Final

from barnabas.core.errors import InconsistentClusterId
from barnabas.core.raft.output import Stranger
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.raft_driver.ports import QuorumPeers

log = get_logger("barnabas.quorum")


NOT_LET_IN: Final = (
    "Nodes that show certificates are known by them, as ssl.principal.mapping.rules has it: name each of them in "
    "super.users, on every node. Nodes that log in need the same cluster.secret.file"
)


def tell_not_let_in(node: str) -> None:
    """Say that a controller does not know this node as one, and what to do."""
    log.error("the controller at %s does not let this node act as one of its cluster. %s", node, NOT_LET_IN)


async def tell_stranger(stranger: Stranger, peers: QuorumPeers, *, cluster_id: str) -> None:
    """Say who is of which cluster, and what to do. `InconsistentClusterId` if it is this node that is misplaced."""
    found = await peers.identify(stranger.peer)
    theirs = "another cluster" if found.cluster_id is None else f"cluster {found.cluster_id}"
    if not stranger.is_everybody:
        log.warning(
            "the controller at %s belongs to %s, and this node to cluster %s: nothing is taken from that controller. "
            "Correct controller.quorum.bootstrap.servers (or controller.quorum.voters) of this node, or the data "
            "directory of that one",
            found.address,
            theirs,
            cluster_id,
        )
        return
    raise InconsistentClusterId(
        f"the data directory of this node belongs to cluster {cluster_id}, but every controller that the node can ask "
        f"belongs to another one: the one at {found.address} to {theirs}. Correct controller.quorum.bootstrap.servers "
        "(or controller.quorum.voters), or log.dirs; if the node is to join that cluster, empty its data directory "
        f"and run barnabas format with --cluster-id {found.cluster_id or 'ID'}"
    )
