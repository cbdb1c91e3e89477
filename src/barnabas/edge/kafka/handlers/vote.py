"""Vote, versions 0 to 2: a candidate asks for a vote, or whether it would get one.

See `quorum_requests` for what all requests of the quorum have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.quorum_requests import answer
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.raft_driver.wire_requests import read_vote
from barnabas.services.broker import Broker
from barnabas.wire.apis import VOTE

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import vote as message


@serves(VOTE, 0, 2, on=On.CONTROLLERS)
async def handle(broker: Broker, request: message.VoteRequest, asked: Asked) -> message.VoteResponse:
    """See the module."""
    return cast("message.VoteResponse", await answer(broker, request, asked, read_vote))
