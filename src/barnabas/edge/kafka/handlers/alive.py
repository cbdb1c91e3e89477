"""The nodes that clients are told of: those that are not fenced. One in a controlled shutdown still serves."""

from __future__ import annotations

from typing import Final

from barnabas.core.metadata.image import Image, Node
from barnabas.services.broker import Broker

_NONE: Final = -1


def alive_nodes(image: Image) -> list[Node]:
    """The nodes that are not fenced."""
    return [node for node in image.nodes.values() if not node.is_fenced]


def alive_ids(image: Image) -> frozenset[int]:
    """Their ids."""
    return frozenset(node.node_id for node in image.nodes.values() if not node.is_fenced)


def controller_for_clients(broker: Broker) -> int:
    """The node that clients send changes to: the controller if they can reach it, else any, as any forwards them."""
    alive = alive_ids(broker.image)
    for node_id in (broker.metadata.quorum.leader_id, broker.config.node_id):
        if node_id in alive:
            return node_id
    return min(alive, default=_NONE)
