"""ShareFetch, versions 1 and 2: a member of a share group (KIP-932) acknowledges records, and acquires more.

Version 2 can ask for no more than `max_records` (KIP-1206), and renew locks (KIP-1222). Differs from Kafka: it is
answered as soon as there is anything, whatever `min_bytes`; markers and aborted records are never acquired, so that
members need not acknowledge them as gaps; an answer has at most 8 MiB, but for a batch that is larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.groups.records import NO_TOPIC_ID
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.sharing import Leaders, TopicAccess, acks_of, code_of, text_of
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.share_fetch import Results, ShareFetchRequest
from barnabas.services.share_fetch import ShareFetched as Fetched
from barnabas.wire.apis import SHARE_FETCH
from barnabas.wire.requests import to_ms

if TYPE_CHECKING:
    from uuid import UUID

    from barnabas.edge.kafka.messages import share_fetch as message


@serves(SHARE_FETCH, 1, 2)
async def handle(broker: Broker, request: message.ShareFetchRequest, asked: Asked) -> message.ShareFetchResponse:
    """See the module."""
    session = asked.session
    try:
        broker.access.authorize(session, Operation.READ, group(request.group_id or ""))
        results = await broker.shares.fetch.fetch(session, await _request(request), TopicAccess(broker, session))
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


async def _request(request: message.ShareFetchRequest) -> ShareFetchRequest:
    limits = (request.max_bytes, request.min_bytes, request.max_records, to_ms(request.max_wait))
    if request.is_renew_ack and any(limits):
        raise InvalidRequest("a request that renews locks fetches nothing: its limits and its wait must be 0")
    if request.share_acquire_mode not in (0, 1):
        raise InvalidRequest(f"there is no acquire mode {request.share_acquire_mode}")
    forgotten = [
        (topic.topic_id or NO_TOPIC_ID, index) for topic in request.forgotten_topics_data for index in topic.partitions
    ]
    return ShareFetchRequest(
        group=request.group_id or "",
        member=request.member_id or "",
        session_epoch=request.share_session_epoch,
        acks=await acks_of(request.topics),
        forgotten=forgotten,
        max_wait_ms=to_ms(request.max_wait),
        max_bytes=request.max_bytes,
        max_records=request.max_records,
        batch_size=request.batch_size,
        is_strict=request.share_acquire_mode == 1,
        is_renewal=request.is_renew_ack,
    )


async def _responses(results: Results, leaders: Leaders) -> list[message.ShareFetchableTopicResponse]:
    by_topic: dict[UUID, list[message.PartitionData]] = {}
    async for (topic_id, index), fetched in in_turns(results.items()):
        by_topic.setdefault(topic_id, []).append(_partition(topic_id, index, fetched, leaders))
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in by_topic.items()]


def _partition(topic_id: UUID, index: int, fetched: Fetched, leaders: Leaders) -> message.PartitionData:
    return {
        "partition_index": index,
        "error_code": code_of(fetched.error),
        "error_message": text_of(fetched.error),
        "acknowledge_error_code": code_of(fetched.ack_error),
        "acknowledge_error_message": text_of(fetched.ack_error),
        "current_leader": {**leaders.name(topic_id, index, fetched.error, fetched.ack_error)},
        "records": bytes(fetched.records),
        "acquired_records": [
            {"first_offset": each.first, "last_offset": each.last, "delivery_count": each.delivery_count}
            for each in fetched.acquired
        ],
    }
