"""DescribeCluster, versions 0 to 2: the nodes of the cluster and its controller.

Differs from Kafka: the node named as controller is the controller, not any node; no node is ever fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.errors import BarnabasError, MismatchedEndpointType, UnsupportedEndpointType
from barnabas.core.metadata.image import Node
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_CLUSTER

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_cluster as message

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


@serves(DESCRIBE_CLUSTER, 0, 2, on=On.ALL)
async def handle(
    broker: Broker, request: message.DescribeClusterRequest, asked: Asked
) -> message.DescribeClusterResponse:
    """See the module."""
    try:
        _check_endpoints(request.endpoint_type)
    except BarnabasError as error:
        return {**refused(error)}
    return {
        "endpoint_type": _BROKERS,
        "cluster_id": broker.image.cluster_id or "",
        "controller_id": broker.metadata.quorum.leader_id,
        "brokers": [_broker(node, asked.session.listener) for node in broker.image.nodes.values()],
        "cluster_authorized_operations": operations.allowed_on_cluster(
            broker.access, asked.session, is_asked=request.include_cluster_authorized_operations
        ),
        **DONE,
    }


def _check_endpoints(kind: int) -> None:
    if kind == _CONTROLLERS:
        raise MismatchedEndpointType("this is the endpoint of a broker: ask it for brokers (1), not controllers (2)")
    if kind != _BROKERS:
        raise UnsupportedEndpointType(f"endpoint type {kind} does not exist")


def _broker(node: Node, listener: str) -> message.DescribeClusterBroker:
    endpoint = node.endpoint(listener)
    return {
        "broker_id": node.node_id,
        "host": endpoint.host,
        "port": endpoint.port,
        "rack": node.rack,
        "is_fenced": False,
    }
