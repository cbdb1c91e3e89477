"""ListPartitionReassignments, version 0: the reassignments in progress, of some partitions or of all.

An unknown topic or partition is left out, as in Kafka, and so is one that is not being moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.reassignments import list_reassignments
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import LIST_PARTITION_REASSIGNMENTS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import list_partition_reassignments as message


@serves(LIST_PARTITION_REASSIGNMENTS, 0, 0, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.ListPartitionReassignmentsRequest, asked: Asked
) -> message.ListPartitionReassignmentsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.DESCRIBE, CLUSTER)
    except BarnabasError as error:
        return {"topics": (), **refused(error)}
    if request.topics is None:
        names = sorted(broker.image.topics)
    else:
        wanted = {topic.name: topic.partition_indexes for topic in request.topics}
        names = list(wanted)
    found: dict[str, list[message.OngoingPartitionReassignment]] = {}
    async for name in in_turns(names):
        topic = broker.image.topics.get(name)
        if topic is not None:
            partitions = tuple(topic.partitions) if request.topics is None else wanted[name]
            for each in list_reassignments(broker.image, {name: partitions}):
                found.setdefault(name, []).append(
                    {
                        "partition_index": each.partition,
                        "replicas": each.replicas,
                        "adding_replicas": each.adding,
                        "removing_replicas": each.removing,
                    }
                )
    return {"topics": [{"name": name, "partitions": partitions} for name, partitions in found.items()], **DONE}
