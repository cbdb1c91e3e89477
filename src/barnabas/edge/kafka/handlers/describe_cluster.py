"""DescribeCluster, versions 0 to 2: the nodes of the cluster and its controller.

To clients: the brokers, fenced ones on request, and where to send changes. Differs from Kafka: the node named as
controller is the controller if it is a broker, not any node.

Through a listener of controllers: the voters and their leader, as in Kafka for those who may alter the cluster. Differs
from Kafka: controllers are the voters, found where the quorum finds them; one without a known listener is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, MismatchedEndpointType, UnsupportedEndpointType
from barnabas.core.metadata.image import Node
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.edge.kafka.handlers.alive import controller_for_clients
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.services.session import Session
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
    session = asked.session
    try:
        if session.is_for_controllers:
            broker.access.authorize(session, Operation.ALTER, CLUSTER)
        _check_endpoints(request.endpoint_type, session)
    except BarnabasError as error:
        return {**refused(error)}
    if session.is_for_controllers:
        controller_id, nodes = broker.metadata.quorum.leader_id, list(_controllers(broker, session))
    else:
        is_all = request.include_fenced_brokers
        controller_id = controller_for_clients(broker)
        nodes = [
            _broker(node, session.listener) for node in broker.image.nodes.values() if is_all or not node.is_fenced
        ]
    return {
        "endpoint_type": request.endpoint_type,
        "cluster_id": broker.image.cluster_id or "",
        "controller_id": controller_id,
        "brokers": nodes,
        "cluster_authorized_operations": operations.allowed_on_cluster(
            broker.access, session, is_asked=request.include_cluster_authorized_operations
        ),
        **DONE,
    }


def _check_endpoints(kind: int, session: Session) -> None:
    if kind not in (_BROKERS, _CONTROLLERS):
        raise UnsupportedEndpointType(f"endpoint type {kind} does not exist")
    if kind == _BROKERS and session.is_for_controllers:
        raise MismatchedEndpointType(
            "this is the endpoint of a controller: ask it for controllers (2), not brokers (1)"
        )
    if kind == _CONTROLLERS and not session.is_for_controllers:
        raise MismatchedEndpointType("this is the endpoint of a broker: ask it for brokers (1), not controllers (2)")


def _broker(node: Node, listener: str) -> message.DescribeClusterBroker:
    endpoint = node.endpoint(listener)
    return {
        "broker_id": node.node_id,
        "host": endpoint.host,
        "port": endpoint.port,
        "rack": node.rack,
        "is_fenced": node.is_fenced,
    }


def _controllers(broker: Broker, session: Session) -> Iterator[message.DescribeClusterBroker]:
    """The voters, at the listener that the client came through, else at their first."""
    for voter in broker.metadata.voters.voters:
        node_id = voter.key.node_id
        named = [(each.host, each.port) for each in voter.endpoints if each.listener == session.listener]
        any_of_them = [(each.host, each.port) for each in voter.endpoints]
        own = [session.local[:2]] if node_id == broker.config.node_id else []  # the client has found it there
        for host, port in (*named, *any_of_them, *own)[:1]:
            yield {"broker_id": node_id, "host": host, "port": port}
