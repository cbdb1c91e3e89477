"""What `barnabas cluster status` shows: the processes of this machine beside what the cluster says of itself."""

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.cli import output
from barnabas.client.cluster_admin import ClusterAdmin, ClusterInfo, QuorumInfo
from barnabas.client.contact import reach
from barnabas.client.errors import Unreachable
from barnabas.client.settings import Settings
from barnabas.core.errors import BarnabasError, NotController, NotLeaderOrFollower, RequestTimedOut
from barnabas.core.uuids import id_text

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
    """None: not registered, or nobody can say: without a controller a node that dies is not fenced."""
    quorum: str | None
    """leader, voter or observer: what the data directory is that the node has now."""
    lag: int | None
    partitions_led: int | None
    """None: nobody can say."""
    last_known_is_fenced: bool | None = None
    """What was so when there was a controller, according to the node that answered."""
    last_known_partitions_led: int | None = None
    http: str | None = None
    """Where it serves HTTP; None for a node of another machine, of which nobody says so."""
    lost_voter_directory_id: str | None = None
    """The data directory that the vote of this node is with, if the node has another one now."""

    @property
    def state(self) -> str:
        """`active` or `fenced`, as far as it is known."""
        if self.is_fenced is not None:
            return _state(self.is_fenced)
        return "-" if self.last_known_is_fenced is None else f"unknown (was {_state(self.last_known_is_fenced)})"

    @property
    def led(self) -> str:
        """How many partitions it leads, as far as it is known."""
        if self.partitions_led is not None:
            return str(self.partitions_led)
        return "-" if self.last_known_partitions_led is None else f"unknown (was {self.last_known_partitions_led})"

    @property
    def problem(self) -> str | None:
        """What is wrong with the node's place in the quorum, and what to do."""
        if self.lost_voter_directory_id is None:
            return None
        return (
            f"node {self.node_id} has a new data directory, and its vote is with the old one: the quorum has one live "
            f"voter less. Remove the old voter and add the new one: set controller.quorum.auto.join.enable=true on "
            f"node {self.node_id} and restart it, which does both; or use kafka-metadata-quorum.sh remove-controller "
            f"--controller-id {self.node_id} --controller-directory-id {self.lost_voter_directory_id}, then "
            "add-controller"
        )


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
    under_replicated: int | None
    """How many partitions lack replicas in sync."""
    nodes: tuple[NodeStatus, ...]
    problem: str | None
    console: str | None = None
    """Where the console of a cluster of this machine is, if it runs."""

    def knows_roles(self, node: NodeStatus) -> bool:
        """Whether all roles of a node are known: which nodes are controllers only the quorum can say."""
        return self.leader_id is not None or node.process is not None

    def as_json(self) -> dict[str, Any]:
        nodes = [{**dataclasses.asdict(each), "state": each.state, "problem": each.problem} for each in self.nodes]
        return {**dataclasses.asdict(self), "nodes": nodes}


class Describing(Protocol):
    """What is asked of a cluster: of `ClusterAdmin`."""

    def describe(self) -> ClusterInfo: ...

    def quorum(self) -> QuorumInfo: ...


def describe_local(cluster: "LocalCluster") -> ClusterStatus:
    """The cluster in a directory of this machine, whether it runs or not."""
    state = cluster.state
    local = {each.node_id: each for each in state.nodes}
    if cluster.running():
        found = describe(cluster.admin(QUORUM_TIMEOUT_S), cluster.bootstrap, local)
    else:
        found = _join(cluster.bootstrap, local, None, None, None)
    return dataclasses.replace(found, console=cluster.console_url)


def describe_at(bootstrap: str) -> ClusterStatus:
    """The cluster at some address."""
    reach(bootstrap)
    return describe(ClusterAdmin(Settings(bootstrap, "barnabas-cli"), QUORUM_TIMEOUT_S), bootstrap, {})


def describe(admin: Describing, bootstrap: str, local: "dict[int, NodeState]") -> ClusterStatus:
    """The cluster that `admin` asks, with the nodes of it that are of this machine."""
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
    replicas = [] if quorum is None else quorum.voters if local else [*quorum.voters, *quorum.live_observers]
    ids |= {each.node_id for each in replicas}
    led = Counter(each.leader for each in info.partitions) if info is not None else None
    return ClusterStatus(
        cluster_id=info.cluster_id if info is not None else None,
        bootstrap=bootstrap,
        leader_id=quorum.leader_id if quorum is not None else None,
        epoch=quorum.epoch if quorum is not None else None,
        high_watermark=quorum.high_watermark if quorum is not None else None,
        without_leader=led[None] if led is not None and quorum is not None else None,
        under_replicated=_under_replicated(info) if info is not None and quorum is not None else None,
        nodes=tuple(_node(node_id, local.get(node_id), info, quorum, led) for node_id in sorted(ids)),
        problem=problem,
    )


def _under_replicated(info: ClusterInfo) -> int:
    return sum(not set(each.replicas) <= set(each.in_sync) for each in info.partitions)


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
    lost, replacement = None, quorum.replacement(node_id) if quorum is not None else None
    if replacement is not None:  # the voter of this id is gone
        lost, replica = replica, replacement
    address = f"{broker.host}:{broker.port}" if broker is not None else None
    is_alive = local is not None and local.process is not None and condition_of(local).value != "stopped"
    is_voter = replica is not None and replica.is_voter
    found = [("broker", broker is not None), ("controller", is_voter or replacement is not None)]
    role = ("voter" if is_voter else "observer") if replica is not None else None
    is_fenced, leads = (None if broker is None else broker.is_fenced), (None if led is None else led[node_id])
    is_current = quorum is not None
    return NodeStatus(
        node_id=node_id,
        address=local.bootstrap if local is not None else address,
        rack=broker.rack if broker is not None else local.rack if local is not None else None,
        roles=tuple(name for name, is_so in found if is_so or local is not None),
        process=condition_of(local).value if local is not None else None,
        pid=local.process.pid if is_alive and local is not None and local.process is not None else None,
        is_fenced=is_fenced if is_current else None,
        quorum="leader" if quorum is not None and quorum.leader_id == node_id else role,
        lag=replica.lag if replica is not None else None,
        partitions_led=leads if is_current else None,
        last_known_is_fenced=is_fenced,
        last_known_partitions_led=leads,
        http=None if local is None or local.http is None else f"http://{local.http}",
        lost_voter_directory_id=None if lost is None or lost.directory_id is None else id_text(lost.directory_id),
    )


def print_status(status: ClusterStatus) -> None:
    columns = ["node", "address", "rack", "roles", "process", "state", "quorum", "lag", "partitions led"]
    rows = [
        (
            each.node_id,
            _shown(each.address),
            _shown(each.rack),
            ",".join(each.roles if status.knows_roles(each) else (*each.roles, "?")) or "-",
            _shown(each.process),
            each.state,
            _shown(each.quorum) if each.lost_voter_directory_id is None else f"{each.quorum} (voter lost)",
            _shown(each.lag),
            each.led,
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
        if any(each.last_known_is_fenced is not None for each in status.nodes):
            output.warn(
                "no controller answers, so nobody knows which nodes run and who leads what; shown is what a node knew "
                "last. More than half of the voters must run: see 'When two of three are gone' in docs/operations.md"
            )
    else:
        output.say("quorum: no node is running")
    served = [each.http for each in status.nodes if each.http is not None]
    if served:
        output.say(f"HTTP: {' '.join(served)}")
    if status.console is not None:
        output.say(f"console: {status.console}")
    for each in status.nodes:
        if each.problem is not None:
            output.warn(each.problem)
    if status.without_leader:
        noun = "partition has" if status.without_leader == 1 else "partitions have"
        output.warn(
            f"{status.without_leader} {noun} no leader: no node runs that has all records; 'barnabas topic describe' "
            "shows whose replicas they are"
        )
    if status.under_replicated:
        noun = "partition lacks" if status.under_replicated == 1 else "partitions lack"
        output.warn(
            f"{status.under_replicated} {noun} replicas in sync: a node is down, or has yet to catch up; "
            "'barnabas topic describe' shows which replicas are in sync"
        )


def _state(is_fenced: bool) -> str:
    return "fenced" if is_fenced else "active"


def _shown(value: object) -> object:
    return "-" if value is None else value
