"""Nodes in the metadata of a cluster, for tests of everything else: registered, with nothing checked."""

from collections.abc import Sequence
from uuid import UUID

from barnabas.core.metadata.decision import MetadataDecision
from barnabas.core.metadata.image import Image
from barnabas.core.metadata.records import Endpoint, MetadataRecord, NodeRecord


def register_node(
    image: Image, *, node_id: int, endpoints: Sequence[Endpoint], rack: str | None, incarnation: UUID
) -> MetadataDecision[NodeRecord]:
    """Register a node, or update its registration."""
    node = NodeRecord(node_id, endpoints[0].host, endpoints[0].port, rack, incarnation, tuple(endpoints))
    records: list[MetadataRecord] = [] if image.nodes.get(node_id) == node else [node]
    return MetadataDecision(records, node)
