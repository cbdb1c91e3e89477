"""ElectLeaders, versions 0 to 2: elect the preferred replica, or with an unclean election any replica.

For all partitions, the answer names, as in Kafka, only those where an election was needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, ElectionNotNeeded, InvalidRequest, NotController
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import batches
from barnabas.services.access import refusal_of
from barnabas.services.broker import Broker
from barnabas.services.controller_partitions import PER_COMMIT, ElectionType, Outcome
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
        return _refuse_all(refusal_of(Operation.ALTER, CLUSTER), [] if is_all else wanted)
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        return _refuse_all(InvalidRequest(f"election type {request.election_type} does not exist"), wanted)
    deadline = deadline_of(broker, request.timeout)
    answers: dict[str, list[message.PartitionResult]] = {topic: [] for topic, _ in wanted}
    places = ((topic, partition) for topic, partitions in wanted for partition in partitions)
    async for some in batches(places, per_turn=PER_COMMIT):
        for (topic, partition), outcome in zip(some, await _elect(broker, kind, some, deadline), strict=True):
            if not is_all or not isinstance(outcome, ElectionNotNeeded):
                done = refused(outcome) if isinstance(outcome, BarnabasError) else DONE
                answers[topic].append({"partition_id": partition, **done})
    results: list[message.ReplicaElectionResult] = [
        {"topic": topic, "partition_result": partitions} for topic, partitions in answers.items()
    ]
    return {"error_code": 0, "replica_election_results": results}


async def _elect(
    broker: Broker, kind: ElectionType, places: Sequence[tuple[str, int]], deadline: float
) -> Sequence[Outcome]:
    try:
        if broker.controller is None:
            raise NotController("this node is not a controller")
        async with answered_by(deadline):
            return await broker.controller.partitions.elect(kind, places)
    except BarnabasError as error:
        return [error] * len(places)


def _refuse_all(error: BarnabasError, wanted: list[tuple[str, tuple[int, ...]]]) -> message.ElectLeadersResponse:
    results: list[message.ReplicaElectionResult] = [
        {"topic": topic, "partition_result": [{"partition_id": each, **refused(error)} for each in partitions]}
        for topic, partitions in wanted
    ]
    return {"error_code": error.kafka_code, "replica_election_results": results}
