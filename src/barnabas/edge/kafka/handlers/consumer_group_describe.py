"""ConsumerGroupDescribe, versions 0 and 1: consumer groups (KIP-848), with what members have and are to have.

As Kafka does it: what is not a consumer group is not found, and topics that were deleted are left out. Differs from
Kafka: a group that is named several times is answered once.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.core.groups.consumer_describe import DescribedConsumerGroup, DescribedConsumerMember
from barnabas.core.groups.records import TopicPartitions
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.edge.kafka.handlers.outcome import refused
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

_PER_TURN: Final = 50


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    allowed = operations.OF_GROUP if request.include_authorized_operations else operations.NOT_ASKED
    groups: dict[str, Values] = {}
    async for group in in_turns(request.group_ids, per_turn=_PER_TURN, letters=len):
        if group not in groups:
            groups[group] = await _describe(broker, group, allowed)
    return {"throttle_time": 0, "groups": list(groups.values())}


async def _describe(broker: Broker, group: str, allowed: int) -> Values:
    try:
        described = await broker.groups.describe_consumer_group(group)
    except BarnabasError as error:
        return {"group_id": group, **refused(error), "authorized_operations": operations.NOT_ASKED}
    return {**_group(broker, described), "authorized_operations": allowed}


def _group(broker: Broker, described: DescribedConsumerGroup) -> Values:
    return {
        "error_code": 0,
        "group_id": described.group,
        "group_state": described.state.value,
        "group_epoch": described.epoch,
        "assignment_epoch": described.assignment_epoch,
        "assignor_name": described.assignor,
        "members": [_member(broker, member) for member in described.members],
    }


def _member(broker: Broker, member: DescribedConsumerMember) -> Values:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topics,
        "subscribed_topic_regex": member.regex,
        "assignment": {"topic_partitions": _partitions(broker, member.assignment)},
        "target_assignment": {"topic_partitions": _partitions(broker, member.target)},
        "member_type": 0 if member.is_classic else 1,
    }


def _partitions(broker: Broker, held: tuple[TopicPartitions, ...]) -> list[Values]:
    named = [(broker.served.by_id.get(each.topic_id), each) for each in held]
    return [
        {"topic_id": each.topic_id, "topic_name": topic.name, "partitions": each.partitions}
        for topic, each in named
        if topic is not None
    ]
