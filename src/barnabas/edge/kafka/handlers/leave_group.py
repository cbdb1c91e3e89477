"""LeaveGroup, versions 0 to 5: members leave at once. Versions below 3 have one member, the sender.

Differs from Kafka: a request has at most 10,000 members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError, InvalidRequest, UnknownMemberId
from barnabas.core.groups.classic.messages import LeaveRequest, LeavingMember, LeftMember
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.runtime.letting_go import let_go_flat
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import LEAVE_GROUP

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import leave_group as message

MAX_MEMBERS: Final = 10_000  # they leave in one step
_BATCHED_FROM: Final = 3


@serves(LEAVE_GROUP, 0, 5)
async def handle(broker: Broker, request: message.LeaveGroupRequest, asked: Asked) -> message.LeaveGroupResponse:
    """See the module."""
    if asked.version < _BATCHED_FROM:
        members: tuple[LeavingMember, ...] = (LeavingMember(request.member_id),)
    else:
        members = tuple(
            [LeavingMember(member.member_id, member.group_instance_id) async for member in in_turns(request.members)]
        )
    try:
        broker.access.authorize(asked.session, Operation.READ, group(request.group_id))
        if len(members) > MAX_MEMBERS:
            raise InvalidRequest(f"{len(members)} members in one request; the maximum is {MAX_MEMBERS}")
        left = await broker.groups.leave(LeaveRequest(group=request.group_id, members=members))
    except UnknownMemberId as error:  # there is no such group
        gone = error.with_traceback(None)
        left = tuple(LeftMember(member.member_id, member.instance_id, gone) for member in members)
    except BarnabasError as error:
        let_go_flat(members)
        return {"error_code": error.kafka_code}
    if asked.version < _BATCHED_FROM:
        return {"error_code": _code(left[0])}
    answers = [_member(member) async for member in in_turns(left)]
    let_go_flat(members, left)
    return {"error_code": 0, "members": answers}


def _member(member: LeftMember) -> message.MemberResponse:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "error_code": _code(member),
    }


def _code(member: LeftMember) -> int:
    return 0 if member.error is None else member.error.kafka_code
