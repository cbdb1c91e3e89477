"""LeaveGroup, versions 0 to 5: members leave at once. Versions below 3 are of one member, the one that asks.

Differs from Kafka: a request is of at most 10,000 members.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError, InvalidRequest, UnknownMemberId
from barnabas.core.groups.classic_messages import LeaveRequest, LeavingMember, LeftMember
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values

MAX_MEMBERS: Final = 10_000  # they leave in one step
_BATCHED_FROM: Final = 3


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    if asked.version < _BATCHED_FROM:
        members: tuple[LeavingMember, ...] = (LeavingMember(request.member_id),)
    else:
        members = tuple(
            [LeavingMember(member.member_id, member.group_instance_id) async for member in in_turns(request.members)]
        )
    try:
        if len(members) > MAX_MEMBERS:
            raise InvalidRequest(f"{len(members)} members are to leave; at most {MAX_MEMBERS} can in one request")
        left = await broker.groups.leave(LeaveRequest(group=request.group_id, members=members))
    except UnknownMemberId as error:  # there is no such group
        gone = error.with_traceback(None)
        left = tuple(LeftMember(member.member_id, member.instance_id, gone) for member in members)
    except BarnabasError as error:
        return {"throttle_time": 0, "error_code": error.kafka_code}
    if asked.version < _BATCHED_FROM:
        return {"throttle_time": 0, "error_code": _code(left[0])}
    return {"throttle_time": 0, "error_code": 0, "members": [_member(member) async for member in in_turns(left)]}


def _member(member: LeftMember) -> Values:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "error_code": _code(member),
    }


def _code(member: LeftMember) -> int:
    return 0 if member.error is None else member.error.kafka_code
