"""Whether a node can be taken out of a cluster without harm."""

from collections.abc import Collection, Sequence
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
    # A node whose disk was replaced runs, and its vote is gone nevertheless.
    alive = sum(each in running and quorum.replacement(each) is None for each in others)
    if alive < needed:
        raise BarnabasError(
            f"without node {node_id} the quorum has no majority: {needed} of its {len(others)} other voters must run, "
            f"and {alive} do; start the others first, or use --force"
        )


def check_replicas(node_id: int, cluster: ClusterInfo) -> None:
    """Refuse if no other node has all records of a partition, and while the node holds replicas."""
    only_here = cluster.only_on(node_id)
    if only_here:
        raise BarnabasError(
            f"node {node_id} has the only replica in sync of {_counted(only_here)}: records would be gone; while it "
            f"runs, move them with 'barnabas cluster decommission {node_id}', or use --force to remove it nevertheless"
        )
    held = cluster.held_by(node_id)
    if held:
        raise BarnabasError(
            f"node {node_id} holds replicas of {_counted(held)}, which would be left with fewer than they should have: "
            f"move them with 'barnabas cluster decommission {node_id}' first, or use --force to leave them short"
        )


def left_short(node_id: int, cluster: ClusterInfo) -> str | None:
    """What a node leaves behind that is removed nevertheless, and what to do; None if it holds nothing."""
    held = cluster.held_by(node_id)
    if not held:
        return None
    return (
        f"{_counted(held)} had a replica on node {node_id} and are short of it now: 'barnabas cluster rebalance' "
        "gives them another one, if there are enough nodes and somebody has their records"
    )


def _counted(partitions: Sequence[str]) -> str:
    names = ", ".join(partitions[:_NAMED]) + (", ..." if len(partitions) > _NAMED else "")
    return f"{len(partitions)} {'partition' if len(partitions) == 1 else 'partitions'} ({names})"
