"""Heartbeat, versions 0 to 4: a member is there, and hears whether its group rebalances. As Kafka does it."""

from typing import Any

from barnabas.core.errors import BarnabasError, CoordinatorLoadInProgress
from barnabas.core.groups.classic_messages import HeartbeatRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    error_code = 0
    try:
        await broker.groups.heartbeat(
            HeartbeatRequest(
                group=request.group_id,
                generation=request.generation_id,
                member_id=request.member_id,
                instance_id=getattr(request, "group_instance_id", None),
            )
        )
    except CoordinatorLoadInProgress:
        pass  # its session starts over when the group is loaded
    except BarnabasError as error:
        error_code = error.kafka_code
    return {"throttle_time": 0, "error_code": error_code}
