"""JoinGroup, versions 0 to 9: become a member of a group, or of its next generation.

The answer is sent when the generation is complete, so it may take as long as the rebalance timeout. Versions below 4 do
not know MEMBER_ID_REQUIRED and join at once; version 0 has no rebalance timeout, its session's counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation, group
from barnabas.core.errors import BarnabasError, MemberIdRequired
from barnabas.core.groups.classic.messages import JoinReply, JoinRequest, Protocol
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import JOIN_GROUP
from barnabas.wire.requests import to_ms

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import join_group as message

_REBALANCE_TIMEOUT_FROM: Final = 1
_MEMBER_ID_REQUIRED_FROM: Final = 4
_NULL_PROTOCOL_FROM: Final = 7
_SKIPS_ASSIGNMENT_FROM: Final = 9


@serves(JOIN_GROUP, 0, 9)
async def handle(broker: Broker, request: message.JoinGroupRequest, asked: Asked) -> message.JoinGroupResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.READ, group(request.group_id))
        reply = await broker.groups.join(_request(request, asked))
    except BarnabasError as error:
        return _refused(request, error, asked.version)
    return {"error_code": 0, **_reply(reply, asked.version)}


def _request(request: message.JoinGroupRequest, asked: Asked) -> JoinRequest:
    has_timeout = asked.version >= _REBALANCE_TIMEOUT_FROM
    return JoinRequest(
        group=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=asked.session.client_id or "",
        client_host=asked.session.client_host,
        session_timeout_ms=to_ms(request.session_timeout),
        rebalance_timeout_ms=to_ms(request.rebalance_timeout if has_timeout else request.session_timeout),
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        requires_member_id=asked.version >= _MEMBER_ID_REQUIRED_FROM,
        skips_assignment=asked.version >= _SKIPS_ASSIGNMENT_FROM,
    )


def _reply(reply: JoinReply, version: int) -> message.JoinGroupResponse:
    return {
        "generation_id": reply.generation,
        "protocol_type": reply.protocol_type,
        "protocol_name": _protocol_name(reply.protocol, version),
        "leader": reply.leader or "",
        "skip_assignment": reply.skip_assignment,
        "member_id": reply.member_id,
        "members": [
            {"member_id": member.member_id, "group_instance_id": member.instance_id, "metadata": member.metadata}
            for member in reply.members
        ],
    }


def _refused(request: message.JoinGroupRequest, error: BarnabasError, version: int) -> message.JoinGroupResponse:
    return {
        "error_code": error.kafka_code,
        "generation_id": -1,
        "protocol_name": _protocol_name(None, version),
        "leader": "",
        "member_id": error.member_id if isinstance(error, MemberIdRequired) else request.member_id,
    }


def _protocol_name(name: str | None, version: int) -> str | None:
    return (name or None) if version >= _NULL_PROTOCOL_FROM else (name or "")
