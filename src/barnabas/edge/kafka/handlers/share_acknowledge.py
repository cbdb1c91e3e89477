"""ShareAcknowledge, versions 1 and 2: a member of a share group (KIP-932) says what it has done with records.

Answered when that is written. Version 2 can renew locks (KIP-1222).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.sharing import Leaders, TopicAccess, acks_of, code_of, text_of
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.share_fetch import Results, ShareFetchRequest
from barnabas.wire.apis import SHARE_ACKNOWLEDGE

if TYPE_CHECKING:
    from uuid import UUID

    from barnabas.edge.kafka.messages import share_acknowledge as message


@serves(SHARE_ACKNOWLEDGE, 1, 2)
async def handle(
    broker: Broker, request: message.ShareAcknowledgeRequest, asked: Asked
) -> message.ShareAcknowledgeResponse:
    """See the module."""
    session = asked.session
    try:
        broker.access.authorize(session, Operation.READ, group(request.group_id or ""))
        wanted = ShareFetchRequest(
            group=request.group_id or "",
            member=request.member_id or "",
            session_epoch=request.share_session_epoch,
            acks=await acks_of(request.topics),
            is_renewal=request.is_renew_ack,
        )
        results = await broker.shares.fetch.acknowledge(session, wanted, TopicAccess(broker, session))
    except BarnabasError as error:
        return {**refused(error), "acquisition_lock_timeout": 0, "responses": [], "node_endpoints": []}
    leaders = Leaders(broker, session)
    responses = await _responses(results, leaders)
    return {
        **DONE,
        "acquisition_lock_timeout": broker.shares.fetch.lock_timeout_ms(request.group_id or ""),
        "responses": responses,
        "node_endpoints": [
            {"node_id": each.node_id, "host": each.host, "port": each.port, "rack": each.rack}
            for each in leaders.endpoints()
        ],
    }


async def _responses(results: Results, leaders: Leaders) -> list[message.ShareAcknowledgeTopicResponse]:
    by_topic: dict[UUID, list[message.PartitionData]] = {}
    async for (topic_id, index), result in in_turns(results.items()):
        by_topic.setdefault(topic_id, []).append(
            {
                "partition_index": index,
                "error_code": code_of(result.ack_error),
                "error_message": text_of(result.ack_error),
                "current_leader": {**leaders.name(topic_id, index, result.ack_error)},
            }
        )
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in by_topic.items()]
