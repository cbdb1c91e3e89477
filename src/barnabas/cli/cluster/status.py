"""What `barnabas cluster status` shows: the processes of this machine beside what the cluster says of itself."""

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli import output
from barnabas.client.cluster_admin import ClusterAdmin, ClusterInfo, QuorumInfo
from barnabas.client.contact import reach
from barnabas.client.errors import Unreachable
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError, NotController, NotLeaderOrFollower, RequestTimedOut

if TYPE_CHECKING:
    from barnabas.testing.cluster.directory import NodeState
    from barnabas.testing.cluster.local import LocalCluster

QUORUM_TIMEOUT_S: Final = 5.0
PASSING: Final = (Unreachable, NotLeaderOrFollower, NotController, RequestTimedOut)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node. None: not known, or not so."""

    node_id: int
    address: str | None
    rack: str | None
    roles: tuple[str, ...]
    process: str | None
    """running, paused or stopped; None for a node of another machine."""
    pid: int | None
    is_fenced: bool | None
    """None: not registered, or no broker answers."""
    quorum: str | None
    """leader, voter or observer."""
    lag: int | None
    partitions_led: int | None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster as far as it can be known."""

    cluster_id: str | None
    bootstrap: str
    leader_id: int | None
    epoch: int | None
    high_watermark: int | None
    without_leader: int | None
    """How many partitions nobody leads."""
    nodes: tuple[NodeStatus, ...]
    problem: str | None

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def describe_local(cluster: "LocalCluster") -> ClusterStatus:
    """The cluster in a directory of this machine, whether it runs or not."""
    state = cluster.state
    if not cluster.running():
        return _join(cluster.bootstrap, {each.node_id: each for each in state.nodes}, None, None, None)
    admin = cluster.admin(QUORUM_TIMEOUT_S)
    return _ask(admin, cluster.bootstrap, {each.node_id: each for each in state.nodes})


def describe_at(bootstrap: str) -> ClusterStatus:
    """The cluster at some address."""
    reach(bootstrap)
    return _ask(ClusterAdmin(Settings(bootstrap, "barnabas-cli"), QUORUM_TIMEOUT_S), bootstrap, {})


def _ask(admin: ClusterAdmin, bootstrap: str, local: "dict[int, NodeState]") -> ClusterStatus:
    info, quorum, problem = None, None, None
    try:
        info = admin.describe()
        quorum = admin.quorum()
    except BarnabasError as error:
        if info is None and not local:
            raise
        problem = "no node answers" if info is None else f"no answer from a leader within {QUORUM_TIMEOUT_S:g} s"
        if not isinstance(error, PASSING):
            problem = str(error)
    return _join(bootstrap, local, info, quorum, problem)


def _join(
    bootstrap: str,
    local: "dict[int, NodeState]",
    info: ClusterInfo | None,
    quorum: QuorumInfo | None,
    problem: str | None,
) -> ClusterStatus:
    ids = {*local}
    ids |= {each.node_id for each in info.brokers} if info is not None else set()
    # An observer that is gone stays listed for a while: of a cluster of this machine it is known who is there.
    replicas = [] if quorum is None else quorum.voters if local else quorum.replicas
    ids |= {each.node_id for each in replicas}
    led = Counter(each.leader for each in info.partitions) if info is not None else None
    return ClusterStatus(
        cluster_id=info.cluster_id if info is not None else None,
        bootstrap=bootstrap,
        leader_id=quorum.leader_id if quorum is not None else None,
        epoch=quorum.epoch if quorum is not None else None,
        high_watermark=quorum.high_watermark if quorum is not None else None,
        without_leader=led[None] if led is not None else None,
        nodes=tuple(_node(node_id, local.get(node_id), info, quorum, led) for node_id in sorted(ids)),
        problem=problem,
    )


def _node(
    node_id: int,
    local: "NodeState | None",
    info: ClusterInfo | None,
    quorum: QuorumInfo | None,
    led: "Counter[int | None] | None",
) -> NodeStatus:
    from barnabas.testing.cluster.local import condition_of

    broker = next((each for each in info.brokers if each.node_id == node_id), None) if info is not None else None
    replica = next((each for each in quorum.replicas if each.node_id == node_id), None) if quorum is not None else None
    address = f"{broker.host}:{broker.port}" if broker is not None else None
    is_alive = local is not None and local.process is not None and condition_of(local).value != "stopped"
    is_voter = replica is not None and replica.is_voter
    found = [("broker", broker is not None), ("controller", is_voter)]
    role = ("voter" if is_voter else "observer") if replica is not None else None
    return NodeStatus(
        node_id=node_id,
        address=local.bootstrap if local is not None else address,
        rack=broker.rack if broker is not None else local.rack if local is not None else None,
        roles=tuple(name for name, is_so in found if is_so or local is not None),
        process=condition_of(local).value if local is not None else None,
        pid=local.process.pid if is_alive and local is not None and local.process is not None else None,
        is_fenced=broker.is_fenced if broker is not None else None,
        quorum="leader" if quorum is not None and quorum.leader_id == node_id else role,
        lag=replica.lag if replica is not None else None,
        partitions_led=led[node_id] if led is not None else None,
    )


def print_status(status: ClusterStatus) -> None:
    columns = ["node", "address", "rack", "roles", "process", "state", "quorum", "lag", "partitions led"]
    rows = [
        (
            each.node_id,
            _shown(each.address),
            _shown(each.rack),
            ",".join(each.roles) or "-",
            _shown(each.process),
            "-" if each.is_fenced is None else "fenced" if each.is_fenced else "active",
            _shown(each.quorum),
            _shown(each.lag),
            _shown(each.partitions_led),
        )
        for each in status.nodes
    ]
    if all(each.process is None for each in status.nodes):  # a cluster of other machines
        columns.pop(4)
        rows = [(*row[:4], *row[5:]) for row in rows]  # type: ignore[misc]
    output.print_table(columns, rows)
    output.say(f"bootstrap: {status.bootstrap}")
    if status.leader_id is not None:
        output.say(f"quorum: node {status.leader_id} leads in epoch {status.epoch}")
    elif status.problem is not None:
        output.say(f"quorum: leader unknown ({' '.join(status.problem.split())})")
    else:
        output.say("quorum: no node is running")
    if status.without_leader:
        noun = "partition has" if status.without_leader == 1 else "partitions have"
        output.warn(f"{status.without_leader} {noun} no leader: the node of the only replica is not there")


def _shown(value: object) -> object:
    return "-" if value is None else value
