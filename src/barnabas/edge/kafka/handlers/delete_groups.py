"""DeleteGroups, versions 0 to 2: remove groups without members, with their offsets. As Kafka does it."""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    results = [
        {"group_id": group, "error_code": await _delete(broker, group)} for group in dict.fromkeys(request.groups_names)
    ]
    return {"throttle_time": 0, "results": results}


async def _delete(broker: Broker, group: str) -> int:
    try:
        await broker.groups.delete_group(group)
    except BarnabasError as error:
        return error.kafka_code
    return 0
