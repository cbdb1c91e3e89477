"""DeleteGroups, versions 0 to 2: remove groups without members, with their offsets.

As Kafka does it, but for a group of very many offsets, which go some at a time: a member that joins meanwhile keeps the
others, and the answer is that the group is not empty.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

_PER_TURN: Final = 50


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    codes: dict[str, int] = {}
    async for group in in_turns(request.groups_names, per_turn=_PER_TURN, letters=len):
        if group not in codes:
            codes[group] = await _delete(broker, group)
    results = [{"group_id": group, "error_code": code} async for group, code in in_turns(codes.items())]
    return {"throttle_time": 0, "results": results}


async def _delete(broker: Broker, group: str) -> int:
    try:
        await broker.groups.delete_group(group)
    except BarnabasError as error:
        return error.kafka_code
    return 0
