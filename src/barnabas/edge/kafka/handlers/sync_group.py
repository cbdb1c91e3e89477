"""SyncGroup, versions 0 to 5: a member gets its assignment; the leader sends those of all members.

The answer comes when the leader has assigned. From version 5 on a member must name its protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError, InconsistentGroupProtocol
from barnabas.core.groups.classic.messages import SyncReply, SyncRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import SYNC_GROUP

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import sync_group as message

_PROTOCOL_FROM: Final = 5


@serves(SYNC_GROUP, 0, 5)
async def handle(broker: Broker, request: message.SyncGroupRequest, asked: Asked) -> message.SyncGroupResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.READ, group(request.group_id))
        reply = await _sync(broker, request, asked.version)
    except BarnabasError as error:
        return {"error_code": error.kafka_code, "assignment": b""}
    return {
        "error_code": 0,
        "protocol_type": reply.protocol_type,
        "protocol_name": reply.protocol,
        "assignment": reply.assignment,
    }


async def _sync(broker: Broker, request: message.SyncGroupRequest, version: int) -> SyncReply:
    protocol_type, protocol = request.protocol_type, request.protocol_name
    if version >= _PROTOCOL_FROM and (protocol_type is None or protocol is None):
        raise InconsistentGroupProtocol("a member must name its protocol and its protocol type")
    assignments = tuple([(each.member_id, each.assignment) async for each in in_turns(request.assignments)])
    return await broker.groups.sync(
        SyncRequest(
            group=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments=assignments,
        )
    )
