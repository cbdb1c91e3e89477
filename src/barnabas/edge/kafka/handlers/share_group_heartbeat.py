"""ShareGroupHeartbeat, version 1: the whole protocol of a member of a share group (KIP-932).

Differs from Kafka: a member that joins is assigned partitions at once if their state can be made soon, where Kafka
assigns them with the next heartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError
from barnabas.core.groups.share.messages import ShareHeartbeat
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import refused
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.features import check_shares
from barnabas.wire.apis import SHARE_GROUP_HEARTBEAT

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import share_group_heartbeat as message


@serves(SHARE_GROUP_HEARTBEAT, 1, 1)
async def handle(
    broker: Broker, request: message.ShareGroupHeartbeatRequest, asked: Asked
) -> message.ShareGroupHeartbeatResponse:
    """See the module."""
    try:
        check_shares(broker.image)
        broker.access.authorize(asked.session, Operation.READ, group(request.group_id))
        if not broker.access.is_open:
            async for name in in_turns(request.subscribed_topic_names or ()):
                broker.access.authorize_topic(asked.session, Operation.DESCRIBE, name)
        topics = request.subscribed_topic_names
        reply = await broker.shares.groups.heartbeat(
            ShareHeartbeat(
                group=request.group_id,
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                rack=request.rack_id,
                topics=None if topics is None else tuple(topics),
                client_id=asked.session.client_id or "",
                client_host=asked.session.client_host,
            )
        )
    except BarnabasError as error:
        return {**refused(error)}
    assigned = reply.assignment
    return {
        "error_code": 0,
        "member_id": reply.member_id,
        "member_epoch": reply.member_epoch,
        "heartbeat_interval": reply.heartbeat_interval_ms,
        "assignment": None
        if assigned is None
        else {"topic_partitions": [{"topic_id": each.topic_id, "partitions": each.partitions} for each in assigned]},
    }
