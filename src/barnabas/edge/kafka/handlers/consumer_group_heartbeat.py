"""ConsumerGroupHeartbeat, versions 0 and 1: all that a member of a consumer group (KIP-848) says and hears.

Regular expressions are there from version 1 on, and so is the rule that a member names itself.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.core.groups.consumer_messages import ConsumerHeartbeat
from barnabas.core.groups.records import NO_TOPIC_ID, TopicPartitions
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import refused
from barnabas.services.broker import Broker
from barnabas.wire.requests import to_ms
from barnabas.wire.responses import Values

_NAMES_ITSELF_FROM: Final = 1


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    try:
        reply = await broker.groups.consumer_heartbeat(_request(request, asked))
    except BarnabasError as error:
        return {"throttle_time": 0, **refused(error)}
    return {
        "throttle_time": 0,
        "error_code": 0,
        "member_id": reply.member_id,
        "member_epoch": reply.member_epoch,
        "heartbeat_interval": reply.heartbeat_interval_ms,
        "assignment": None if reply.assignment is None else {"topic_partitions": _partitions(reply.assignment)},
    }


def _request(request: Any, asked: Asked) -> ConsumerHeartbeat:
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
        regex=getattr(request, "subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=None if owned is None else tuple(_owned(each) for each in owned),
        client_id=asked.client_id or "",
        client_host=asked.client_host,
        names_itself=asked.version >= _NAMES_ITSELF_FROM,
    )


def _owned(owned: Any) -> TopicPartitions:
    return TopicPartitions(owned.topic_id or NO_TOPIC_ID, tuple(owned.partitions))


def _partitions(assignment: tuple[TopicPartitions, ...]) -> list[Values]:
    return [{"topic_id": each.topic_id, "partitions": each.partitions} for each in assignment]
