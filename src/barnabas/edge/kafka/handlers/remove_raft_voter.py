"""RemoveRaftVoter, version 0: have a voter of the quorum vote no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.core.raft.voters import ReplicaKey
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.handlers.quorum_requests import quorum_of
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import REMOVE_RAFT_VOTER

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import remove_raft_voter as message


@serves(REMOVE_RAFT_VOTER, 0, 0, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.RemoveRaftVoterRequest, asked: Asked
) -> message.RemoveRaftVoterResponse:
    """See the module."""
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    try:
        broker.access.authorize(asked.session, Operation.ALTER, CLUSTER)
        await quorum_of(broker).remove_voter(key, cluster_id=request.cluster_id)
    except BarnabasError as error:
        return {**refused(error)}
    return {**DONE}
