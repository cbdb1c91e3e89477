"""ElectLeaders, versions 0 to 2: elect the preferred replica, or with an unclean election any replica.

For all partitions, the answer names, as in Kafka, only those where an election was needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, ElectionNotNeeded, InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.access import refusal_of
from barnabas.services.broker import Broker
from barnabas.services.elections import ElectionType, elect
from barnabas.wire.apis import ELECT_LEADERS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import elect_leaders as message


@serves(ELECT_LEADERS, 0, 2, on=On.ALL, is_forwarded=True)
async def handle(broker: Broker, request: message.ElectLeadersRequest, asked: Asked) -> message.ElectLeadersResponse:
    """See the module."""
    is_all = request.topic_partitions is None
    if request.topic_partitions is None:
        wanted = [(topic.name, tuple(topic.partitions)) for topic in broker.image.topics.values()]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    if not broker.access.allows(asked.session, Operation.ALTER, CLUSTER):
        return _refuse_all(refusal_of(Operation.ALTER, CLUSTER), wanted)
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        return _refuse_all(InvalidRequest(f"election type {request.election_type} does not exist"), wanted)
    deadline = deadline_of(broker, request.timeout)
    results: list[message.ReplicaElectionResult] = []
    answers: list[message.PartitionResult] = []
    places = ((topic, partition) for topic, partitions in wanted for partition in (None, *partitions))
    async for topic, partition in in_turns(places):
        if partition is None:
            answers = []
            results.append({"topic": topic, "partition_result": answers})
            continue
        answer = await _elect(broker, kind, topic, partition, deadline)
        if not is_all or answer["error_code"] != ElectionNotNeeded.kafka_code:
            answers.append(answer)
    return {"error_code": 0, "replica_election_results": results}


async def _elect(
    broker: Broker, kind: ElectionType, topic: str, partition: int, deadline: float
) -> message.PartitionResult:
    try:
        async with answered_by(deadline):
            await elect(broker.metadata, kind, topic, partition)
    except BarnabasError as error:
        return {"partition_id": partition, **refused(error)}
    return {"partition_id": partition, **DONE}


def _refuse_all(error: BarnabasError, wanted: list[tuple[str, tuple[int, ...]]]) -> message.ElectLeadersResponse:
    results: list[message.ReplicaElectionResult] = [
        {"topic": topic, "partition_result": [{"partition_id": each, **refused(error)} for each in partitions]}
        for topic, partitions in wanted
    ]
    return {"error_code": error.kafka_code, "replica_election_results": results}
