"""ListGroups, versions 0 to 5: the groups that this node coordinates, by state (from 4 on) and type (from 5 on).

As Kafka does it: filters ignore case, and an unknown state or type matches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.access.resources import group as group_of
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import LIST_GROUPS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import list_groups as message


@serves(LIST_GROUPS, 0, 5)
async def handle(broker: Broker, request: message.ListGroupsRequest, asked: Asked) -> message.ListGroupsResponse:
    """See the module."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    try:
        listed = await broker.groups.list_groups()
    except BarnabasError as error:
        return {"error_code": error.kafka_code}
    access, session = broker.access, asked.session
    sees_all = access.allows_unnamed(session, Operation.DESCRIBE, CLUSTER)
    groups: list[message.ListedGroup] = [
        {
            "group_id": group.group,
            "protocol_type": group.protocol_type,
            "group_state": group.state,
            "group_type": group.type.value,
        }
        async for group in in_turns(listed)
        if (not states or group.state.lower() in states) and (not types or group.type.value.lower() in types)
        if sees_all or access.allows_unnamed(session, Operation.DESCRIBE, group_of(group.group))
    ]
    return {"error_code": 0, "groups": groups}
