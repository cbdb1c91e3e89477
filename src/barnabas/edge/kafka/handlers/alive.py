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
    """Who decides on changes: the controller if clients can reach it, else any node, as any forwards them."""
    return _first_alive(broker, broker.metadata.quorum.leader_id, broker.config.node_id)


def node_for_changes(broker: Broker) -> int:
    """The node that clients send changes to: this one, which forwards them.

    Not the controller: librdkafka sends changes only to the node that it was told of. When the connection to that node
    is lost it asks another, once, and again after five minutes. That other does not know yet that the controller is
    gone, and would name it again: every such client would be stuck, though a controller is elected within seconds.
    """
    return _first_alive(broker, broker.config.node_id, broker.metadata.quorum.leader_id)


def _first_alive(broker: Broker, *node_ids: int) -> int:
    alive = alive_ids(broker.image)
    return next((node_id for node_id in node_ids if node_id in alive), min(alive, default=_NONE))
