"""What an operator hears when a controller belongs to another cluster, and when that ends the node."""

from barnabas.core.errors import InconsistentClusterId
from barnabas.core.raft.output import Stranger
from barnabas.runtime.log_lines import get_logger
from barnabas.runtime.raft_driver.ports import QuorumPeers

log = get_logger("barnabas.quorum")


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
