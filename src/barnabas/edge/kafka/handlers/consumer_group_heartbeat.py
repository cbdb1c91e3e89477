"""ConsumerGroupHeartbeat, versions 0 and 1: the whole protocol of a member of a consumer group (KIP-848).

From version 1 on it has regular expressions, and members choose their own ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError
from barnabas.core.groups.consumer.messages import ConsumerHeartbeat
from barnabas.core.groups.records import NO_TOPIC_ID, TopicPartitions
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import refused
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import CONSUMER_GROUP_HEARTBEAT
from barnabas.wire.requests import to_ms

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import consumer_group_heartbeat as message

_NAMES_ITSELF_FROM: Final = 1


@serves(CONSUMER_GROUP_HEARTBEAT, 0, 1)
async def handle(
    broker: Broker, request: message.ConsumerGroupHeartbeatRequest, asked: Asked
) -> message.ConsumerGroupHeartbeatResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.READ, group(request.group_id))
        if not broker.access.is_open:
            async for name in in_turns(request.subscribed_topic_names or ()):
                broker.access.authorize_topic(asked.session, Operation.DESCRIBE, name)
        reply = await broker.groups.consumer_heartbeat(_request(request, asked), asked.session)
    except BarnabasError as error:
        return {**refused(error)}
    return {
        "error_code": 0,
        "member_id": reply.member_id,
        "member_epoch": reply.member_epoch,
        "heartbeat_interval": reply.heartbeat_interval_ms,
        "assignment": None if reply.assignment is None else {"topic_partitions": _partitions(reply.assignment)},
    }


def _request(request: message.ConsumerGroupHeartbeatRequest, asked: Asked) -> ConsumerHeartbeat:
    topics = request.subscribed_topic_names
    owned = request.topic_partitions
    return ConsumerHeartbeat(
        group=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack=request.rack_id,
        rebalance_timeout_ms=to_ms(request.rebalance_timeout),
        topics=None if topics is None else tuple(topics),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owned is None else tuple(_owned(each) for each in owned),
        client_id=asked.session.client_id or "",
        client_host=asked.session.client_host,
        names_itself=asked.version >= _NAMES_ITSELF_FROM,
    )


def _owned(owned: message.TopicPartitions) -> TopicPartitions:
    return TopicPartitions(owned.topic_id or NO_TOPIC_ID, tuple(owned.partitions))


def _partitions(assignment: tuple[TopicPartitions, ...]) -> list[message.TopicPartitionsAnswer]:
    return [{"topic_id": each.topic_id, "partitions": each.partitions} for each in assignment]
