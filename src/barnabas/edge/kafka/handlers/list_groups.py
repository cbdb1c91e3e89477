"""ListGroups, versions 0 to 5: the groups that this node coordinates, by state (from 4 on) and type (from 5 on).

As Kafka does it: filters do not mind case, and one that names no state or type lets nothing through.
"""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    states = {state.strip().lower() for state in getattr(request, "states_filter", ())}
    types = {type_.lower() for type_ in getattr(request, "types_filter", ())}
    try:
        listed = await broker.groups.list_groups()
    except BarnabasError as error:
        return {"throttle_time": 0, "error_code": error.kafka_code}
    groups = [
        {
            "group_id": group.group,
            "protocol_type": group.protocol_type,
            "group_state": group.state,
            "group_type": group.type.value,
        }
        async for group in in_turns(listed)
        if (not states or group.state.lower() in states) and (not types or group.type.value.lower() in types)
    ]
    return {"throttle_time": 0, "error_code": 0, "groups": groups}
