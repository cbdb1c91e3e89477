"""EndQuorumEpoch, versions 0 to 1: a leader resigns.

See `quorum_requests` for what all requests of the quorum have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.quorum_requests import answer
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.raft_driver.wire_requests import read_end_epoch, read_listeners
from barnabas.services.broker import Broker
from barnabas.wire.apis import END_QUORUM_EPOCH

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import end_quorum_epoch as message


@serves(END_QUORUM_EPOCH, 0, 1, on=On.CONTROLLERS)
async def handle(
    broker: Broker, request: message.EndQuorumEpochRequest, asked: Asked
) -> message.EndQuorumEpochResponse:
    """See the module."""
    endpoints = read_listeners(request.leader_endpoints)
    answered = await answer(broker, request, asked, read_end_epoch, endpoints=endpoints)
    return cast("message.EndQuorumEpochResponse", answered)
