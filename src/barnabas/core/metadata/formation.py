"""What a data directory belongs to, and what one becomes that belongs to nothing yet: decisions at a node's start.

A directory belongs to one node of one cluster for good. A node whose settings name no controller but itself forms a
cluster of its own. Any other could only guess which cluster it is part of: it has to be told, by a format or a setting.

Must not know: how the identity is stored, nor where the settings come from.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from barnabas.core.errors import InvalidConfig

Address = tuple[str, int]

_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY_HOSTS: Final = frozenset({"", "0.0.0.0", "::"})


class MetaProperties(NamedTuple):
    """Whose a data directory is, and its own id: a voter is a node with one directory."""

    cluster_id: str
    node_id: int
    directory_id: UUID


class Place(NamedTuple):
    """A node's place in its cluster, as its settings say it."""

    node_id: int
    cluster_id: str | None
    is_controller: bool
    voters: Sequence[int] = ()
    """The node ids of a fixed list of voters."""
    bootstrap: Sequence[Address] = ()
    """Controllers that are asked for the leader."""
    own: Sequence[Address] = ()
    """Where this node's listeners for controllers can be reached."""

    @property
    def is_alone(self) -> bool:
        """Whether no other controller is named: then this node is all of the quorum."""
        others = [each for each in self.voters if each != self.node_id]
        return self.is_controller and not others and all(is_own(each, self.own) for each in self.bootstrap)


def is_own(address: Address, own: Sequence[Address]) -> bool:
    """Whether an address is one of a node's own. Names are not looked up: localhost is the only one that is known."""
    host, port = address
    for own_host, own_port in own:
        if port != own_port:
            continue
        if host.lower() == own_host.lower():
            return True
        if host.lower() in _LOCAL_HOSTS and own_host.lower() in _LOCAL_HOSTS | _ANY_HOSTS:
            return True
    return False


def check_belongs(found: MetaProperties, place: Place) -> None:
    """Refuse to use the data of another node, or of another cluster."""
    if place.node_id != found.node_id:
        raise InvalidConfig(f"node.id is {place.node_id}, but the data are those of node {found.node_id}")
    if place.cluster_id not in (None, found.cluster_id):
        raise InvalidConfig(f"cluster.id is {place.cluster_id}, but the data are those of cluster {found.cluster_id}")


def identity_of_new(place: Place, *, cluster_id: str, directory_id: UUID) -> MetaProperties:
    """What a directory becomes that belongs to nothing yet; `cluster_id` is for a new cluster without a given one."""
    if not place.is_controller and not place.voters and not place.bootstrap:
        raise InvalidConfig(
            "process.roles is broker, but no controller is named: set controller.quorum.bootstrap.servers, or let "
            "this node be a controller, too"
        )
    if place.cluster_id is None and not place.is_alone:
        named = "controller.quorum.voters" if place.voters else "controller.quorum.bootstrap.servers"
        raise InvalidConfig(
            f"the data directory is not formatted, and {named} names other nodes: run barnabas format with the "
            "cluster's id first, or set cluster.id"
        )
    return MetaProperties(place.cluster_id or cluster_id, place.node_id, directory_id)
