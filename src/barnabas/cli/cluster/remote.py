"""Taking a node out of a cluster of several machines, once somebody has stopped it there."""

from barnabas.cli import output
from barnabas.client.cluster_admin import ClusterAdmin
from barnabas.client.contact import reach
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError
from barnabas.testing.cluster.removing import check_removable, left_short


def remove_at(bootstrap: str, node_id: int, *, is_forced: bool) -> None:
    """Have a node that is stopped vote no more, and unregister it."""
    reach(bootstrap)
    admin = ClusterAdmin(Settings(bootstrap, "barnabas-cli"))
    cluster, quorum = admin.describe(), admin.quorum()
    running = {each.node_id for each in cluster.brokers if not each.is_fenced}
    known = {each.node_id for each in cluster.brokers} | {each.node_id for each in quorum.voters}
    if node_id not in known:
        raise BarnabasError(f"the cluster has no node {node_id}: it has {', '.join(map(str, sorted(known)))}")
    if node_id in running:
        raise BarnabasError(
            f"node {node_id} is running: stop it first; one that was killed counts as running for some seconds more"
        )
    if not is_forced:
        check_removable(node_id, quorum, cluster, running)
    if quorum.voter(node_id) is not None:
        admin.remove_voter(node_id)
        output.say(f"node {node_id}: votes no more")
    if any(each.node_id == node_id for each in cluster.brokers):
        admin.unregister(node_id)
    short = left_short(node_id, cluster)
    if short is not None:
        output.warn(short)
