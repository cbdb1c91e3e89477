"""AlterPartitionReassignments, versions 0 and 1: move partitions to other nodes.

Differs from Kafka: replicas cannot be moved yet. A target equal to the current replicas succeeds, any other is refused
with INVALID_REPLICA_ASSIGNMENT; no reassignment is ever in progress, so none can be cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.reassignments import reassign
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.apis import ALTER_PARTITION_REASSIGNMENTS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import alter_partition_reassignments as message


@serves(ALTER_PARTITION_REASSIGNMENTS, 0, 1, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.AlterPartitionReassignmentsRequest, asked: Asked
) -> message.AlterPartitionReassignmentsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.ALTER, CLUSTER)
    except BarnabasError as error:
        return {**refused(error)}
    may_change_factor = request.allow_replication_factor_change
    answers: dict[str, list[message.ReassignablePartitionResponse]] = {topic.name: [] for topic in request.topics}
    wanted = ((topic.name, each) for topic in request.topics for each in topic.partitions)
    async for name, each in in_turns(wanted):
        answers[name].append(_reassign(broker, name, each, may_change_factor=may_change_factor))
    return {
        "allow_replication_factor_change": may_change_factor,
        "responses": [{"name": name, "partitions": partitions} for name, partitions in answers.items()],
        **DONE,
    }


def _reassign(
    broker: Broker, topic: str, wanted: message.ReassignablePartition, *, may_change_factor: bool
) -> message.ReassignablePartitionResponse:
    try:
        reassign(broker.image, topic, wanted.partition_index, wanted.replicas, may_change_factor=may_change_factor)
    except BarnabasError as error:
        return {"partition_index": wanted.partition_index, **refused(error)}
    return {"partition_index": wanted.partition_index, **DONE}
