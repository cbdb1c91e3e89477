"""UpdateRaftVoter, version 0: a voter of the quorum says where it listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.raft.voters import ReplicaKey, Voter
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.quorum_requests import quorum_of
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.raft_driver.wire_requests import read_listeners
from barnabas.services.broker import Broker
from barnabas.services.quorum import QuorumService
from barnabas.wire.apis import UPDATE_RAFT_VOTER

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import update_raft_voter as message


@serves(UPDATE_RAFT_VOTER, 0, 0, on=On.CONTROLLERS)
async def handle(
    broker: Broker, request: message.UpdateRaftVoterRequest, asked: Asked
) -> message.UpdateRaftVoterResponse:
    """See the module."""
    voter = Voter(ReplicaKey(request.voter_id, request.voter_directory_id), read_listeners(request.listeners))
    code = 0
    try:
        broker.access.authorize(asked.session, Operation.CLUSTER_ACTION, CLUSTER)
        versions = request.k_raft_version_feature
        if not 0 <= versions.min_supported_version <= versions.max_supported_version:
            raise InvalidRequest("a range of versions must not be negative or empty")
        await quorum_of(broker).update_voter(voter, epoch=request.current_leader_epoch, cluster_id=request.cluster_id)
    except BarnabasError as error:
        code = error.kafka_code
    return {"error_code": code, **_leader(broker.quorum)}


def _leader(quorum: QuorumService | None) -> message.UpdateRaftVoterResponse:
    """The leader that this node knows, and where that listens."""
    if quorum is None or quorum.leader_id is None:
        return {}
    found = quorum.leader_at(quorum.leader_id)
    return {
        "current_leader": {
            "leader_id": quorum.leader_id,
            "leader_epoch": quorum.epoch,
            "host": "" if found is None else found.host,
            "port": -1 if found is None else found.port,
        }
    }
