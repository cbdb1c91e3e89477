"""DeleteGroups, versions 0 to 2: delete groups without members, with their offsets.

As Kafka does it, except that very many offsets are deleted some at a time: if a member joins meanwhile, the rest is
kept, and the answer is that the group is not empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation
from barnabas.core.access.resources import group as group_of
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import DELETE_GROUPS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import delete_groups as message

_PER_TURN: Final = 20


@serves(DELETE_GROUPS, 0, 2)
async def handle(broker: Broker, request: message.DeleteGroupsRequest, asked: Asked) -> message.DeleteGroupsResponse:
    """See the module."""
    codes: dict[str, int] = {}
    async for group in in_turns(request.groups_names, per_turn=_PER_TURN, letters=len):
        if group not in codes:
            codes[group] = await _delete(broker, group, asked.session)
    results: list[message.DeletableGroupResult] = [
        {"group_id": group, "error_code": code} async for group, code in in_turns(codes.items())
    ]
    return {"results": results}


async def _delete(broker: Broker, group: str, session: Session) -> int:
    try:
        broker.access.authorize(session, Operation.DELETE, group_of(group))
        await broker.shares.groups.prepare_deletion(group)
        await broker.groups.delete_group(group)
    except BarnabasError as error:
        return error.kafka_code
    return 0
