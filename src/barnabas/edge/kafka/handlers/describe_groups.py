"""DescribeGroups, versions 0 to 6: classic groups, with their members.

As Kafka does it: a group that does not exist, or is not a classic one, is in state Dead; from version 6 on that is an
error as well. Differs from Kafka: a group that is named several times is answered once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import group as group_of
from barnabas.core.errors import BarnabasError, GroupIdNotFound
from barnabas.core.groups.listing import DescribedGroup, DescribedMember
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import DESCRIBE_GROUPS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import describe_groups as message

_NOT_FOUND_FROM: Final = 6
_PER_TURN: Final = 20


@serves(DESCRIBE_GROUPS, 0, 6)
async def handle(
    broker: Broker, request: message.DescribeGroupsRequest, asked: Asked
) -> message.DescribeGroupsResponse:
    """See the module."""
    is_asked = request.include_authorized_operations
    groups: dict[str, message.DescribedGroup] = {}
    async for group in in_turns(request.groups, per_turn=_PER_TURN, letters=len):
        if group not in groups:
            groups[group] = await _describe(broker, group, asked, tells_operations=is_asked)
    return {"groups": list(groups.values())}


async def _describe(broker: Broker, group: str, asked: Asked, *, tells_operations: bool) -> message.DescribedGroup:
    session, resource = asked.session, group_of(group)
    allowed = operations.NOT_ASKED
    try:
        broker.access.authorize(session, Operation.DESCRIBE, resource)
        allowed = operations.allowed_on(broker.access, session, resource, is_asked=tells_operations)
        return {**_group(await broker.groups.describe_group(group)), "authorized_operations": allowed}
    except GroupIdNotFound as error:
        if asked.version < _NOT_FOUND_FROM:
            return {"group_id": group, "error_code": 0, "group_state": "Dead", "authorized_operations": allowed}
        return {**_refused(group, error), "group_state": "Dead"}
    except BarnabasError as error:
        return _refused(group, error)


def _refused(group: str, error: BarnabasError) -> message.DescribedGroup:
    return {
        "group_id": group,
        "error_code": error.kafka_code,
        "error_message": str(error),
        "authorized_operations": operations.NOT_ASKED,
    }


def _group(described: DescribedGroup) -> message.DescribedGroup:
    return {
        "error_code": 0,
        "group_id": described.group,
        "group_state": described.state.value,
        "protocol_type": described.protocol_type,
        "protocol_data": described.protocol,
        "members": [_member(member) for member in described.members],
    }


def _member(member: DescribedMember) -> message.DescribedGroupMember:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata,
        "member_assignment": member.assignment,
    }
