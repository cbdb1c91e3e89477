"""The requests of the quorum, which come through listeners for controllers: Vote, BeginQuorumEpoch, EndQuorumEpoch,
FetchSnapshot, and the Fetch of the metadata log.

As Kafka does it: another cluster, other partitions than that of the metadata log, and what has nothing to do with the
quorum are errors of the whole answer; what Raft refuses is an error of the partition, with the leader that this node
knows and where that listens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, NotController
from barnabas.core.raft.messages import Request
from barnabas.core.raft.voters import VoterEndpoint
from barnabas.edge.kafka.asked import Asked
from barnabas.runtime.raft_driver import wire_answers, wire_requests
from barnabas.runtime.raft_driver.wire_requests import AskedNode
from barnabas.services.broker import Broker
from barnabas.services.quorum import QuorumService
from barnabas.wire.writing import Values

Read = Callable[[Any, AskedNode], Request]


def quorum_of(broker: Broker) -> QuorumService:
    """This node's part in the quorum."""
    if broker.quorum is None:
        raise NotController("this node takes no part in the quorum")
    return broker.quorum


async def answer(
    broker: Broker, message: Any, asked: Asked, read: Read, *, endpoints: Sequence[VoterEndpoint] = ()
) -> dict[str, Any]:
    """Carry out a request of the quorum; its refusals that concern the whole message are in the answer."""
    try:
        broker.access.authorize(asked.session, Operation.CLUSTER_ACTION, CLUSTER)
        quorum = quorum_of(broker)
        request = read(message, AskedNode(quorum.cluster_id, quorum.replica))
        answered = await quorum.handle(request, endpoints=endpoints)
    except BarnabasError as error:
        return refused(error)
    leader = quorum.leader_at(answered.response.leader_id)
    return {**wire_answers.write(answered, leader, log_start_offset=quorum.log_start_offset)}


def refused(error: BarnabasError) -> dict[str, Any]:
    """An answer that is nothing but an error: these messages have no text for it."""
    return {"error_code": error.kafka_code}


async def fetch_metadata(broker: Broker, request: Any, asked: Asked) -> Values:
    """Fetch, versions 4 to 18, on a listener for controllers: of the metadata log, for the nodes of the quorum."""
    return await answer(broker, request, asked, wire_requests.read_fetch)
