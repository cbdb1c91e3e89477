"""SyncGroup, versions 0 to 5: a member fetches its assignment, the leader brings everybody's.

The answer comes when the leader has assigned. From version 5 on a member must say its protocol.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError, InconsistentGroupProtocol
from barnabas.core.groups.classic_messages import SyncReply, SyncRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

_PROTOCOL_FROM: Final = 5


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    try:
        reply = await _sync(broker, request, asked.version)
    except BarnabasError as error:
        return {"throttle_time": 0, "error_code": error.kafka_code, "assignment": b""}
    return {
        "throttle_time": 0,
        "error_code": 0,
        "protocol_type": reply.protocol_type,
        "protocol_name": reply.protocol,
        "assignment": reply.assignment,
    }


async def _sync(broker: Broker, request: Any, version: int) -> SyncReply:
    protocol_type, protocol = getattr(request, "protocol_type", None), getattr(request, "protocol_name", None)
    if version >= _PROTOCOL_FROM and (protocol_type is None or protocol is None):
        raise InconsistentGroupProtocol("a member must say its protocol and its type")
    assignments = tuple([(each.member_id, each.assignment) async for each in in_turns(request.assignments)])
    return await broker.groups.sync(
        SyncRequest(
            group=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=getattr(request, "group_instance_id", None),
            protocol_type=protocol_type,
            protocol=protocol,
            assignments=assignments,
        )
    )
