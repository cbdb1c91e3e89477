"""ShareGroupDescribe, version 1: share groups (KIP-932) and what their members fetch.

As Kafka does it: what is not a share group is not found, and topics that were deleted are left out. Differs from Kafka:
a group that is named several times is answered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import group as group_of
from barnabas.core.errors import BarnabasError, TopicAuthorizationFailed
from barnabas.core.groups.share.describe import DescribedShareGroup, DescribedShareMember
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.edge.kafka.handlers.outcome import refused
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import SHARE_GROUP_DESCRIBE

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import share_group_describe as message

_PER_TURN: Final = 20


@serves(SHARE_GROUP_DESCRIBE, 1, 1)
async def handle(
    broker: Broker, request: message.ShareGroupDescribeRequest, asked: Asked
) -> message.ShareGroupDescribeResponse:
    """See the module."""
    is_asked = request.include_authorized_operations
    groups: dict[str, message.DescribedGroup] = {}
    async for group in in_turns(request.group_ids, per_turn=_PER_TURN, letters=len):
        if group not in groups:
            groups[group] = await _describe(broker, group, asked.session, tells_operations=is_asked)
    return {"groups": list(groups.values())}


async def _describe(broker: Broker, group: str, session: Session, *, tells_operations: bool) -> message.DescribedGroup:
    try:
        broker.access.authorize(session, Operation.DESCRIBE, group_of(group))
        described = await broker.shares.groups.describe(group)
        for name in sorted({name for member in described.members for name in _topics(broker, member)}):
            if not broker.access.sees_topic(session, Operation.DESCRIBE, name):  # one unseen hides the whole group
                raise TopicAuthorizationFailed("not allowed: describe on a topic that the group uses")
    except BarnabasError as error:
        return {"group_id": group, **refused(error), "authorized_operations": operations.NOT_ASKED}
    allowed = operations.allowed_on(broker.access, session, group_of(group), is_asked=tells_operations)
    return {**_group(broker, described), "authorized_operations": allowed}


def _group(broker: Broker, described: DescribedShareGroup) -> message.DescribedGroup:
    return {
        "error_code": 0,
        "group_id": described.group,
        "group_state": described.state.value,
        "group_epoch": described.epoch,
        "assignment_epoch": described.assignment_epoch,
        "assignor_name": described.assignor,
        "members": [_member(broker, member) for member in described.members],
    }


def _topics(broker: Broker, member: DescribedShareMember) -> list[str]:
    held = [broker.served.by_id.get(each.topic_id) for each in member.assignment]
    return [*member.topics, *(topic.name for topic in held if topic is not None)]


def _member(broker: Broker, member: DescribedShareMember) -> message.Member:
    named = [(broker.served.by_id.get(each.topic_id), each) for each in member.assignment]
    partitions: list[message.TopicPartitions] = [
        {"topic_id": each.topic_id, "topic_name": topic.name, "partitions": each.partitions}
        for topic, each in named
        if topic is not None
    ]
    return {
        "member_id": member.member_id,
        "rack_id": member.rack,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.topics,
        "assignment": {"topic_partitions": partitions},
    }
