"""AlterPartitionReassignments, versions 0 and 1: have partitions on other nodes.

Differs from Kafka: replicas cannot be moved yet. A target that is what a partition has already is done, another one is
refused with INVALID_REPLICA_ASSIGNMENT; nothing is ever in progress, so nothing can be cancelled.
"""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.reassignments import reassign
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - version 0 has a default
    """See the module."""
    may_change_factor = getattr(request, "allow_replication_factor_change", True)
    answers: dict[str, list[Values]] = {topic.name: [] for topic in request.topics}
    wanted = ((topic.name, each) for topic in request.topics for each in topic.partitions)
    async for name, each in in_turns(wanted):
        answers[name].append(_reassign(broker, name, each, may_change_factor=may_change_factor))
    return {
        "throttle_time": 0,
        "allow_replication_factor_change": may_change_factor,
        "responses": [{"name": name, "partitions": partitions} for name, partitions in answers.items()],
        **DONE,
    }


def _reassign(broker: Broker, topic: str, wanted: Any, *, may_change_factor: bool) -> Values:
    try:
        reassign(broker.image, topic, wanted.partition_index, wanted.replicas, may_change_factor=may_change_factor)
    except BarnabasError as error:
        return {"partition_index": wanted.partition_index, **refused(error)}
    return {"partition_index": wanted.partition_index, **DONE}
