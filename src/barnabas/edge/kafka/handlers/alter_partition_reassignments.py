"""AlterPartitionReassignments, versions 0 and 1: move partitions to other nodes, or cancel that.

What is refused leaves the others of the request untouched, as in Kafka. `allow_replication_factor_change` is that of
KIP-860. Throttles are settings: `core.replica.throttle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, NotController
from barnabas.core.metadata.reassignments import Target
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, answered_by, deadline_of, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.runtime.turns import batches
from barnabas.services.broker import Broker
from barnabas.services.controller_partitions import PER_COMMIT, ControlledPartitions, Outcome
from barnabas.wire.apis import ALTER_PARTITION_REASSIGNMENTS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import alter_partition_reassignments as message


@serves(ALTER_PARTITION_REASSIGNMENTS, 0, 1, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.AlterPartitionReassignmentsRequest, asked: Asked
) -> message.AlterPartitionReassignmentsResponse:
    """See the module."""
    may_change_factor = request.allow_replication_factor_change
    try:
        broker.access.authorize(asked.session, Operation.ALTER, CLUSTER)
        if broker.controller is None:
            raise NotController("this node is not a controller")
        broker.controller.partitions.check_active()
    except BarnabasError as error:
        return {"allow_replication_factor_change": may_change_factor, "responses": (), **refused(error)}
    deadline = deadline_of(broker, request.timeout)
    answers: dict[str, list[message.ReassignablePartitionResponse]] = {topic.name: [] for topic in request.topics}
    wanted = (
        Target(topic.name, each.partition_index, each.replicas) for topic in request.topics for each in topic.partitions
    )
    async for targets in batches(wanted, per_turn=PER_COMMIT):
        outcomes = await _reassign(broker.controller.partitions, targets, deadline, may_change_factor=may_change_factor)
        for target, outcome in zip(targets, outcomes, strict=True):
            done = refused(outcome) if isinstance(outcome, BarnabasError) else DONE
            answers[target.topic].append({"partition_index": target.partition, **done})
    return {
        "allow_replication_factor_change": may_change_factor,
        "responses": [{"name": name, "partitions": partitions} for name, partitions in answers.items()],
        **DONE,
    }


async def _reassign(
    partitions: ControlledPartitions, targets: Sequence[Target], deadline: float, *, may_change_factor: bool
) -> Sequence[Outcome]:
    try:
        async with answered_by(deadline):
            return await partitions.reassign(targets, may_change_factor=may_change_factor)
    except BarnabasError as error:
        return [error] * len(targets)
