"""Envelopes: a request with its caller, on its way from the node that was asked to the active controller.

Its answer is given out when this node has applied all that the controller had applied by then, so that whoever asked
finds here what was answered. A request that no controller took may be sent again; one whose answer is lost may have
been carried out, and is sent again only if that does no harm.
"""

import asyncio
import ipaddress
from contextlib import suppress
from typing import Any, Final, NamedTuple

from barnabas.core.errors import (
    ControllerBusy,
    ForwardingRefused,
    NotController,
    PeerError,
    RequestTimedOut,
    UnsupportedVersion,
)
from barnabas.runtime.log_lines import get_logger
from barnabas.services.broker import Broker
from barnabas.services.session import Principal, Session
from barnabas.wire.apis import ENVELOPE
from barnabas.wire.principal import PrincipalData, write_principal

log = get_logger("barnabas.forwarding")

MAX_WAITING: Final = 256
"""The most requests of a node that wait for the controller; any more are refused, and clients retry."""
LANES: Final = 8
"""Connections to the controller, opened as they are needed: a node answers the requests of one connection in turn."""

_NO_HOST: Final = bytes(4)  # of a client whose address is none of the internet's
_ANSWERED_UP_TO: Final = -1  # by a controller that does not say what it has applied


class Caller(NamedTuple):
    """Who asked this node."""

    principal: Principal
    host: str

    @classmethod
    def of(cls, session: Session) -> "Caller":
        return cls(session.principal, session.peer[0])


NODE_ITSELF: Final = Caller(Principal("Node", "itself"), "")
"""For what a node asks of its own accord. No client logs in as one of this kind; and only a node, or who may do what
nodes do, can send an envelope, and name its caller.
"""


class Envelopes:
    """Sends the requests of a node, each in an envelope. Only for a broker that has a link."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lanes = [0] * LANES  # how many wait in each

    async def send(
        self,
        request: bytes,
        caller: Caller,
        *,
        deadline: float,
        search_until: float | None = None,
        may_repeat: bool = False,
        is_read: bool = False,
    ) -> bytes:
        """The controller's answer to a request, both frames without their length; applied here, unless it `is_read`.

        `search_until`: when to give up looking for a controller, if that is before the deadline.

        `NotController` or `ControllerBusy`: it was not carried out. `RequestTimedOut`: nobody knows.
        """
        if sum(self._lanes) >= MAX_WAITING:
            raise ControllerBusy(f"{MAX_WAITING} requests of this node already wait for the controller; try again")
        lane = self._lanes.index(min(self._lanes))
        self._lanes[lane] += 1
        try:
            now = asyncio.get_running_loop().time()
            answer = await self._ask(
                lane,
                request,
                caller,
                timeout_s=deadline - now,
                search_s=None if search_until is None else search_until - now,
                may_repeat=may_repeat,
            )
            if not is_read:
                await self._wait_applied(answer.metadata_offset, deadline)
        finally:
            self._lanes[lane] -= 1
        return bytes(answer.response_data or b"")

    async def _ask(
        self,
        lane: int,
        request: bytes,
        caller: Caller,
        *,
        timeout_s: float,
        search_s: float | None,
        may_repeat: bool,
    ) -> Any:
        link = self._broker.link
        assert link is not None
        values = {
            "request_data": request,
            "request_principal": write_principal(PrincipalData(*caller.principal)),
            "client_host_address": packed_host(caller.host),
        }
        try:
            answer = await link.ask(
                ENVELOPE.key,
                values,
                timeout_s=timeout_s,
                search_s=search_s,
                purpose=f"forward {lane}",
                may_repeat=may_repeat,
            )
        except PeerError as error:
            raise RequestTimedOut(f"the controller may have carried this out or not: {error}") from error
        if answer.error_code:
            log.error("the controller refused the envelope of a request: error %d", answer.error_code)
            if answer.error_code == UnsupportedVersion.kafka_code:
                raise UnsupportedVersion("the controller does not support this version of the request")
            raise ForwardingRefused(f"the controller refused the envelope of this request: error {answer.error_code}")
        return answer

    async def _wait_applied(self, end_offset: int, deadline: float) -> None:
        if end_offset <= max(self._broker.metadata.applied_offset, _ANSWERED_UP_TO):
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self._broker.metadata.wait_applied(end_offset)
        except TimeoutError:
            raise RequestTimedOut("the controller has answered, but this node has not applied that in time") from None


def packed_host(host: str) -> bytes:
    """An address as it is in an envelope."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.partition("%")[0]).packed
    return _NO_HOST


def is_not_taken(codes: frozenset[int]) -> bool:
    """Whether an answer with these error codes says that its node does not lead, and that nothing was done."""
    return bool(codes & _ELSEWHERE) and not codes & _MAY_BE_DONE


_ELSEWHERE: Final = frozenset({NotController.kafka_code, 6})  # 6: NOT_LEADER_OR_FOLLOWER, as DescribeQuorum says it
_MAY_BE_DONE: Final = frozenset({0, RequestTimedOut.kafka_code, 56, -1})  # 56: KAFKA_STORAGE_ERROR


def codes_in(values: Any) -> frozenset[int]:
    """The error codes of an answer: those of its items, or its own if it has none; its own, too, if it is an error."""
    if isinstance(values, (list, tuple)):
        return frozenset[int]().union(*(codes_in(each) for each in values))
    if not isinstance(values, dict):
        return frozenset()
    codes = codes_in(list(values.values()))
    own = values.get("error_code")
    return codes if own is None or (own == 0 and codes) else codes | {own}
