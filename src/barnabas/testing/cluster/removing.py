"""Whether a node can be taken out of a cluster without harm."""

from collections.abc import Collection
from typing import Final

from barnabas.client.cluster_admin import ClusterInfo, QuorumInfo
from barnabas.core.errors import BarnabasError

_NAMED: Final = 3
"""How many partitions a refusal names."""


def check_removable(node_id: int, quorum: QuorumInfo, cluster: ClusterInfo, running: Collection[int]) -> None:
    """Refuse to remove a node that the majority, or the records of a partition, depend on."""
    check_majority(node_id, quorum, running)
    check_replicas(node_id, cluster)


def check_majority(node_id: int, quorum: QuorumInfo, running: Collection[int]) -> None:
    """Refuse if too few of the other voters run to decide anything."""
    if quorum.voter(node_id) is None:
        return
    others = [each.node_id for each in quorum.voters if each.node_id != node_id]
    if not others:
        raise BarnabasError(f"node {node_id} is the only voter: without it the cluster has no controller")
    needed = len(others) // 2 + 1
    alive = sum(each in running for each in others)
    if alive < needed:
        raise BarnabasError(
            f"without node {node_id} the quorum has no majority: {needed} of its {len(others)} other voters must run, "
            f"and {alive} do; start the others first, or use --force"
        )


def check_replicas(node_id: int, cluster: ClusterInfo) -> None:
    """Refuse if a partition has no other replica."""
    only_here = sorted(str(each.partition) for each in cluster.partitions if each.replicas == (node_id,))
    if only_here:
        names = ", ".join(only_here[:_NAMED]) + (", ..." if len(only_here) > _NAMED else "")
        noun = "partition" if len(only_here) == 1 else "partitions"
        raise BarnabasError(
            f"node {node_id} has the only replica of {len(only_here)} {noun} ({names}): their records would be gone; "
            "use --force to remove it nevertheless"
        )
