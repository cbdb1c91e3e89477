"""AddRaftVoter, versions 0 to 1: have an observer of the quorum vote.

As in Kafka the node is asked first, at the address that the request names, whether it knows this kraft.version.
Differs from Kafka: it is refused with REQUEST_TIMED_OUT at once if the observer has not caught up, where Kafka waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.core.raft.voters import ReplicaKey, Voter
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.edge.kafka.handlers.quorum_requests import quorum_of
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.raft_driver.wire_requests import read_listeners
from barnabas.services.broker import Broker
from barnabas.wire.apis import ADD_RAFT_VOTER

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import add_raft_voter as message


@serves(ADD_RAFT_VOTER, 0, 1, on=On.ALL, is_forwarded=True)
async def handle(broker: Broker, request: message.AddRaftVoterRequest, asked: Asked) -> message.AddRaftVoterResponse:
    """See the module."""
    voter = Voter(ReplicaKey(request.voter_id, request.voter_directory_id), read_listeners(request.listeners))
    try:
        broker.access.authorize(asked.session, Operation.ALTER, CLUSTER)
        async with answered_by(deadline_of(broker, request.timeout)):
            await quorum_of(broker).add_voter(
                voter, cluster_id=request.cluster_id, is_awaited=request.ack_when_committed
            )
    except BarnabasError as error:
        return {**refused(error)}
    return {**DONE}
