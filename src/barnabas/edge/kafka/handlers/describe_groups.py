"""DescribeGroups, versions 0 to 6: classic groups, with their members.

As Kafka does it: a group that is not there, or is not a classic one, is in state Dead; from version 6 on that is an
error as well. Differs from Kafka: a group that is named several times is answered once.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError, GroupIdNotFound
from barnabas.core.groups.listing import DescribedGroup, DescribedMember
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers import operations
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

_NOT_FOUND_FROM: Final = 6
_PER_TURN: Final = 50


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    is_asked = getattr(request, "include_authorized_operations", False)
    allowed = operations.OF_GROUP if is_asked else operations.NOT_ASKED
    groups: dict[str, Values] = {}
    async for group in in_turns(request.groups, per_turn=_PER_TURN, letters=len):
        if group not in groups:
            groups[group] = await _describe(broker, group, asked.version, allowed)
    return {"throttle_time": 0, "groups": list(groups.values())}


async def _describe(broker: Broker, group: str, version: int, allowed: int) -> Values:
    try:
        return {**_group(await broker.groups.describe_group(group)), "authorized_operations": allowed}
    except GroupIdNotFound as error:
        if version < _NOT_FOUND_FROM:
            return {"group_id": group, "error_code": 0, "group_state": "Dead", "authorized_operations": allowed}
        return {**_refused(group, error), "group_state": "Dead"}
    except BarnabasError as error:
        return _refused(group, error)


def _refused(group: str, error: BarnabasError) -> Values:
    return {
        "group_id": group,
        "error_code": error.kafka_code,
        "error_message": str(error),
        "authorized_operations": operations.NOT_ASKED,
    }


def _group(described: DescribedGroup) -> Values:
    return {
        "error_code": 0,
        "group_id": described.group,
        "group_state": described.state.value,
        "protocol_type": described.protocol_type,
        "protocol_data": described.protocol,
        "members": [_member(member) for member in described.members],
    }


def _member(member: DescribedMember) -> Values:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_metadata": member.metadata,
        "member_assignment": member.assignment,
    }
