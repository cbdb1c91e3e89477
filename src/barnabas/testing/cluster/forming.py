"""Making the nodes of a cluster: their ids, ports and directories, formatted so that they know each other."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from barnabas.core.errors import AddressNotAvailable
from barnabas.core.metadata.formation import MetaProperties
from barnabas.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.core.uuids import id_text, parse_id
from barnabas.runtime.dice import SystemDice
from barnabas.runtime.dir_lock import DirLock
from barnabas.runtime.disk import OsDisk
from barnabas.services.formatting import format_directory
from barnabas.services.settings.broker_config import BrokerConfig
from barnabas.services.settings.catalogue.http_settings import parse_http_listener
from barnabas.testing.cluster.directory import CONTROLLER, ClusterDirectory, ClusterState, NodeState
from barnabas.testing.cluster.ports import HOST, find_free, find_row, is_free

HTTP_LISTENER: Final = "http.listener"
MAX_PORT: Final = 65535


def new_state(
    count: int,
    *,
    port: int | None = None,
    racks: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
    with_http: bool = False,
) -> ClusterState:
    """A cluster of so many nodes, all of them voters; from `port` on, each takes two ports, else any free ones.

    `hosts` are the addresses of the nodes, one for each; without them it is that of this machine. `with_http`: each
    serves HTTP, too, at ports in a row: from the `http.listener` of the settings on, or behind the others.
    """
    ports = find_free(2 * count) if port is None else list(range(port, port + 2 * count))
    taken = [] if port is None else [each for each in ports if each > 65535 or not is_free(each)]
    if taken:
        raise AddressNotAvailable(f"port {taken[0]} is not free; name another --port")
    http = _http_addresses(count, port, ports, settings or {}) if with_http else [None] * count
    nodes = [
        NodeState(
            node_id=number,
            directory_id=id_text(SystemDice().uuid()),
            port=ports[2 * number - 2],
            controller_port=ports[2 * number - 1],
            host=hosts[number - 1] if hosts else HOST,
            rack=racks[(number - 1) % len(racks)] if racks else None,
            http=http[number - 1],
        )
        for number in range(1, count + 1)
    ]
    return ClusterState(
        cluster_id=id_text(SystemDice().uuid()), nodes=nodes, next_id=count + 1, settings=dict(settings or {})
    )


def _http_addresses(
    count: int, port: int | None, taken: Sequence[int], settings: Mapping[str, str]
) -> Sequence[str | None]:
    """Where each of so many nodes serves HTTP; None: nowhere, or at any port."""
    given = settings.get(HTTP_LISTENER)
    if given is None:
        row = find_row(count, taken) if port is None else list(range(port + 2 * count, port + 3 * count))
        host = HOST
    else:
        address = parse_http_listener(given)
        if address is None or not address[1]:
            return [None] * count
        host, row = address[0], list(range(address[1], address[1] + count))
    for each in row:
        if each > MAX_PORT or not is_free(each):
            raise AddressNotAvailable(
                f"port {each} is not free, for HTTP of a node; name another --port, or --set {HTTP_LISTENER}=HOST:PORT"
            )
    return [f"[{host}]:{each}" if ":" in host else f"{host}:{each}" for each in row]


def _one_more_http(state: ClusterState, taken: Collection[int]) -> str | None:
    """Where one more node serves HTTP, if the others do: next to the last of them, if that is free."""
    served = [each.http.rpartition(":") for each in state.nodes if each.http is not None]
    if not served:
        return None
    host, _, last = served[-1]
    following = int(last) + 1
    if following > MAX_PORT or following in taken or not is_free(following):
        (following,) = find_free(1, taken)
    return f"{host}:{following}"


def one_more(state: ClusterState, rack: str | None) -> NodeState:
    """A node that joins later; its id was never another's."""
    port, controller_port = find_free(2, state.ports)
    http = _one_more_http(state, {*state.ports, port, controller_port})
    node = NodeState(
        node_id=state.next_id,
        directory_id=id_text(SystemDice().uuid()),
        port=port,
        controller_port=controller_port,
        rack=rack,
        is_voter=False,
        http=http,
    )
    state.next_id += 1
    state.nodes.append(node)
    return node


def check_settings(directory: ClusterDirectory, state: ClusterState) -> None:
    """Refuse settings that no node could start with."""
    for node in state.nodes:
        BrokerConfig.from_properties(dict(directory.settings_of(state, node)))


def format_node(directory: ClusterDirectory, state: ClusterState, node: NodeState, *, voters: bool) -> None:
    """Make the data directory of a node. `voters`: whether it knows those of the state from the start, or joins."""
    path = str(directory.data_dir(node.node_id))
    directory.node_dir(node.node_id).mkdir(mode=0o700, exist_ok=True)
    lock = DirLock(path)
    lock.take()
    try:
        meta = MetaProperties(state.cluster_id, node.node_id, parse_id(node.directory_id))
        format_directory(OsDisk(), path, meta, VoterSet.of(map(_voter, state.nodes) if voters else ()))
    finally:
        lock.release()


def _voter(node: NodeState) -> Voter:
    key = ReplicaKey(node.node_id, parse_id(node.directory_id))
    return Voter(key, (VoterEndpoint(CONTROLLER, node.host, node.controller_port),))
