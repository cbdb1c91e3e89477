"""ElectLeaders, versions 0 to 2: have the preferred replica, or in need any replica, lead.

Asked for all partitions, it answers, as Kafka does, of those alone where an election was needed.
"""

from typing import Any

from barnabas.core.errors import BarnabasError, ElectionNotNeeded, InvalidRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.elections import ElectionType, elect
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - version 0 has a default
    """See the module."""
    is_all = request.topic_partitions is None
    if is_all:
        wanted = [(topic.name, tuple(topic.partitions)) for topic in broker.image.topics.values()]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    try:
        kind = ElectionType(getattr(request, "election_type", ElectionType.PREFERRED))
    except ValueError:
        return _refuse_all(InvalidRequest(f"election type {request.election_type} does not exist"), wanted)
    deadline = deadline_of(broker, request)
    results: list[Values] = []
    places = ((topic, partition) for topic, partitions in wanted for partition in (None, *partitions))
    async for topic, partition in in_turns(places):
        if partition is None:
            results.append({"topic": topic, "partition_result": []})
            continue
        answer = await _elect(broker, kind, topic, partition, deadline)
        if not is_all or answer["error_code"] != ElectionNotNeeded.kafka_code:
            results[-1]["partition_result"].append(answer)
    return {"throttle_time": 0, "error_code": 0, "replica_election_results": results}


async def _elect(broker: Broker, kind: ElectionType, topic: str, partition: int, deadline: float) -> Values:
    try:
        async with answered_by(deadline):
            await elect(broker.metadata, kind, topic, partition)
    except BarnabasError as error:
        return {"partition_id": partition, **refused(error)}
    return {"partition_id": partition, **DONE}


def _refuse_all(error: BarnabasError, wanted: list[tuple[str, tuple[int, ...]]]) -> Values:
    results = [
        {"topic": topic, "partition_result": [{"partition_id": each, **refused(error)} for each in partitions]}
        for topic, partitions in wanted
    ]
    return {"throttle_time": 0, "error_code": error.kafka_code, "replica_election_results": results}
