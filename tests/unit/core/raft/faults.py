"""Runs of a simulated cluster: faults for a while, then peace."""

import os

from tests.unit.core.raft.cluster import Cluster, SimulatedNode, require

SEEDS = int(os.environ.get("RAFT_SEEDS", "100"))
"""How many seeds a run tries; more by the environment variable."""
FIRST_SEED = int(os.environ.get("RAFT_FIRST_SEED", "0"))


def run_seed(seed: int, *, is_static: bool = False, is_aimed: bool = False, duration_ms: int = 1500) -> Cluster:
    """Faults for a while, then peace: what must hold holds all the time, and in peace the cluster goes on."""
    cluster = Cluster(seed, is_static=is_static, voter_count=3, node_count=5)
    cluster.is_aimed = is_aimed
    random = cluster.random
    cluster.loss = random.choice([0.0, 0.02, 0.15])
    cluster.max_delay_ms = random.choice([3, 20, 60])
    has_changes = not is_static and random.random() < 0.6
    end_ms = cluster.now_ms + duration_ms
    value = 0
    while cluster.now_ms < end_ms:
        cluster.run(random.randint(1, 40))
        value += 1
        fault(cluster, value, has_changes=has_changes)
        if value % 20 == 0:
            cluster.check_logs_match()
    heal(cluster)
    return cluster


def fault(cluster: Cluster, value: int, *, has_changes: bool) -> None:
    """One thing that happens to the cluster."""
    random = cluster.random
    node = random.choice(list(cluster.nodes.values()))
    leaders = cluster.leading()
    dice = random.random()
    if dice < 0.45:
        for leader in leaders:
            cluster.append(leader, f"v{value}")
    elif dice < 0.68:
        stop_or_start(cluster, random.choice(leaders) if leaders and random.random() < 0.3 else node, dice < 0.55)
    elif dice < 0.74:
        node.paused_until_ms = cluster.now_ms + random.randint(10, 600)
    elif dice < 0.82:
        cluster.cut = {frozenset((node.key.node_id, other)) for other in cluster.nodes if random.random() < 0.8}
    elif dice < 0.90:
        cluster.cut.clear()
    elif dice < 0.95:
        cluster.take_snapshot(node)
    elif has_changes and leaders:
        cluster.change_voters(random.choice(leaders))


def stop_or_start(cluster: Cluster, node: SimulatedNode, is_one: bool) -> None:
    """Stop one node, for a moment or for longer, or start it; or start all that are down."""
    if is_one and node.raft is not None:
        cluster.crash(node)
        if cluster.random.random() < 0.5:
            cluster.start(node)
        return
    for down in [node] if is_one else cluster.nodes.values():
        if down.raft is None:
            cluster.start(down)


def heal(cluster: Cluster, within_ms: int = 6000) -> None:
    """End all faults: before long there is one leader, it commits, and all have what it has."""
    cluster.cut.clear()
    cluster.loss, cluster.max_delay_ms = 0.0, 5
    for node in cluster.nodes.values():
        node.paused_until_ms = 0
        if node.raft is None:
            cluster.start(node)
    before = len(cluster.committed)

    def goes_on() -> bool:
        ends = {len(node.disk.entries) for node in cluster.nodes.values()}
        return len(cluster.committed) > before and ends == {len(cluster.committed)}

    deadline_ms = cluster.now_ms + within_ms
    while cluster.now_ms < deadline_ms:
        if cluster.run(200, until=goes_on):
            break
        for leader in cluster.leading():
            cluster.append(leader, "peace")
    roles = {node.key.node_id: (node.raft.role, node.raft.quorum) for node in cluster.nodes.values() if node.raft}
    require(goes_on(), f"the cluster does not go on: {roles}")
    cluster.check_logs_match()
