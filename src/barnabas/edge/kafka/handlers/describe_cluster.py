"""DescribeCluster, versions 0 to 2: the nodes of the cluster and its controller.

Differs from Kafka: the node named as controller is the controller, not any node; no node is ever fenced.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError, MismatchedEndpointType, UnsupportedEndpointType
from barnabas.core.metadata.image import Node
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - version 0 has a default
    """See the module."""
    try:
        _check_endpoints(getattr(request, "endpoint_type", _BROKERS))
    except BarnabasError as error:
        return {"throttle_time": 0, **refused(error)}
    sees_operations = request.include_cluster_authorized_operations
    return {
        "throttle_time": 0,
        "endpoint_type": _BROKERS,
        "cluster_id": broker.image.cluster_id or "",
        "controller_id": broker.metadata.leader_id,
        "brokers": [_broker(node) for node in broker.image.nodes.values()],
        "cluster_authorized_operations": operations.OF_CLUSTER if sees_operations else operations.NOT_ASKED,
        **DONE,
    }


def _check_endpoints(kind: int) -> None:
    if kind == _CONTROLLERS:
        raise MismatchedEndpointType("this is the endpoint of a broker: ask it for brokers (1), not controllers (2)")
    if kind != _BROKERS:
        raise UnsupportedEndpointType(f"endpoint type {kind} does not exist")


def _broker(node: Node) -> Values:
    return {
        "broker_id": node.node_id,
        "host": node.host,
        "port": node.port,
        "rack": node.rack,
        "is_fenced": False,
    }
