"""Decisions about the cluster itself: its name, its nodes, its features, the producer ids it gives out."""

from uuid import UUID

from barnabas.core.errors import BrokerIdNotRegistered, InvalidConfig, InvalidRequest
from barnabas.core.metadata.decision import Decision
from barnabas.core.metadata.image import Image, Node
from barnabas.core.metadata.records import (
    ALL_NODES,
    BROKER_RESOURCE,
    MIN_INSYNC_REPLICAS,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    NodeRecord,
    ProducerIdsRecord,
)


def form_cluster(image: Image, cluster_id: str) -> Decision[str]:
    """Name a cluster that has no name yet; the reply is the name it has."""
    if image.cluster_id is not None:
        return Decision([], image.cluster_id)
    return Decision([ClusterRecord(cluster_id)], cluster_id)


def check_identity(image: Image, *, node_id: int, cluster_id: str | None) -> None:
    """Refuse to run these data as another node, or in another cluster, than they belong to.

    A node that nobody knows would lead none of the partitions that are here, and its clients would wait forever.
    """
    if image.nodes and node_id not in image.nodes:
        owners = " or ".join(str(each) for each in sorted(image.nodes))
        raise InvalidConfig(f"node.id is {node_id}, but the data are those of node {owners}")
    if None not in (cluster_id, image.cluster_id) and cluster_id != image.cluster_id:
        raise InvalidConfig(f"cluster.id is {cluster_id}, but the data are those of cluster {image.cluster_id}")


def register_node(
    image: Image, *, node_id: int, host: str, port: int, rack: str | None, incarnation: UUID
) -> Decision[Node]:
    """Take a node into the cluster, or note how it has changed."""
    node = NodeRecord(node_id, host, port, rack, incarnation)
    return Decision([] if image.nodes.get(node_id) == node else [node], node)


def unregister_node(image: Image, node_id: int) -> Decision[None]:
    """Take a node out of the cluster. There is one, and it is alive, so this is always refused."""
    if node_id not in image.nodes:
        raise BrokerIdNotRegistered(f"Broker ID {node_id} is not currently registered")
    raise InvalidRequest(f"broker {node_id} is running: only one that is gone for good can be unregistered")


def allocate_producer_ids(image: Image, count: int) -> Decision[range]:
    """Give out so many producer ids, which nobody else gets."""
    if count <= 0:
        raise InvalidRequest(f"{count} producer ids cannot be given out")
    first = image.next_producer_id
    return Decision([ProducerIdsRecord(first + count)], range(first, first + count))


def keep_min_insync_replicas(image: Image, value: str) -> Decision[str]:
    """Have one value of it for the whole cluster, this one if there is none yet; the reply is what it is.

    Who may lead is decided by it (eligible leader replicas, KIP-966), so no node may have one of its own.
    """
    current = image.config_of(BROKER_RESOURCE, ALL_NODES).get(MIN_INSYNC_REPLICAS)
    records = [
        ConfigRecord(kind, name, MIN_INSYNC_REPLICAS, None)
        for (kind, name), values in sorted(image.configs.items())
        if kind == BROKER_RESOURCE and name != ALL_NODES and MIN_INSYNC_REPLICAS in values
    ]
    if current is None:
        records.append(ConfigRecord(BROKER_RESOURCE, ALL_NODES, MIN_INSYNC_REPLICAS, value))
    return Decision(records, value if current is None else current)


def set_feature(image: Image, name: str, level: int) -> Decision[int]:
    """Use a feature at this level, 0 for not at all; the reply is the level it had."""
    previous = image.features.get(name, 0)
    return Decision([] if level == previous else [FeatureRecord(name, level)], previous)
