"""The replica that is closest to a consumer: one in its rack (KIP-392, `replica.selector.class`).

As Kafka's RackAwareReplicaSelector: the leader if it is in the consumer's rack, else the replica there that has come
furthest, if it is in sync and has the offset, else the leader.
"""

from barnabas.core.model import NO_NODE
from barnabas.runtime.cluster_metadata import ClusterMetadata
from barnabas.runtime.partition import Partition


class ClosestReplicas:
    """Chooses for partitions that this node leads."""

    def __init__(self, metadata: ClusterMetadata, *, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id

    def find(self, partition: Partition, offset: int, *, rack: str) -> int:
        """The node to read from in the place of this one; `NO_NODE` to read here."""
        nodes = [node.node_id for node in self._metadata.image.nodes.values() if node.rack == rack]
        if not nodes or self._node_id in nodes:
            return NO_NODE
        found = partition.find_follower(nodes, offset)
        return NO_NODE if found is None else found
