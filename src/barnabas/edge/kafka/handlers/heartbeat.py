"""Heartbeat, versions 0 to 4: a member is alive, and learns whether its group rebalances. As Kafka does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError, CoordinatorLoadInProgress
from barnabas.core.groups.classic.messages import HeartbeatRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import HEARTBEAT

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import heartbeat as message


@serves(HEARTBEAT, 0, 4)
async def handle(broker: Broker, request: message.HeartbeatRequest, asked: Asked) -> message.HeartbeatResponse:
    """See the module."""
    error_code = 0
    try:
        broker.access.authorize(asked.session, Operation.READ, group(request.group_id))
        await broker.groups.heartbeat(
            HeartbeatRequest(
                group=request.group_id,
                generation=request.generation_id,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
            )
        )
    except CoordinatorLoadInProgress:
        pass  # its session starts over when the group is loaded
    except BarnabasError as error:
        error_code = error.kafka_code
    return {"error_code": error_code}
