"""BrokerHeartbeat, versions 0 and 1: a broker is there, is fenced or let in, and leaves.

Differs from Kafka: a broker has one data directory, and stops when that is lost; one that says that a directory is
offline is fenced as if it had asked for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, NotController
from barnabas.core.metadata.brokers import Heartbeat
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import BROKER_HEARTBEAT

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import broker_heartbeat as message


@serves(BROKER_HEARTBEAT, 0, 1, on=On.CONTROLLERS)
async def handle(
    broker: Broker, request: message.BrokerHeartbeatRequest, asked: Asked
) -> message.BrokerHeartbeatResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.CLUSTER_ACTION, CLUSTER)
        if broker.controller is None:
            raise NotController("this node is not a controller")
        reply = await broker.controller.heartbeat(
            Heartbeat(
                node_id=request.broker_id,
                epoch=request.broker_epoch,
                metadata_offset=request.current_metadata_offset,
                wants_fence=request.want_fence or bool(request.offline_log_dirs),
                wants_shutdown=request.want_shut_down,
            )
        )
    except BarnabasError as error:
        return {"error_code": error.kafka_code, "is_caught_up": False, "is_fenced": True, "should_shut_down": False}
    return {
        "error_code": 0,
        "is_caught_up": reply.is_caught_up,
        "is_fenced": reply.is_fenced,
        "should_shut_down": reply.should_shut_down,
        "lease_ms": reply.lease_ms,
        "decided_offset": reply.decided_offset,
    }
