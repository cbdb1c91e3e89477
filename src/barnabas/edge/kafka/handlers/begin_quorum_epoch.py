"""BeginQuorumEpoch, versions 0 to 1: a leader announces itself.

See `quorum_requests` for what all requests of the quorum have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.quorum_requests import answer
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.raft_driver.wire_requests import read_begin_epoch, read_listeners
from barnabas.services.broker import Broker
from barnabas.wire.apis import BEGIN_QUORUM_EPOCH

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import begin_quorum_epoch as message


@serves(BEGIN_QUORUM_EPOCH, 0, 1, on=On.CONTROLLERS)
async def handle(
    broker: Broker, request: message.BeginQuorumEpochRequest, asked: Asked
) -> message.BeginQuorumEpochResponse:
    """See the module."""
    endpoints = read_listeners(request.leader_endpoints)
    answered = await answer(broker, request, asked, read_begin_epoch, endpoints=endpoints)
    return cast("message.BeginQuorumEpochResponse", answered)
