"""ListPartitionReassignments, version 0: the reassignments in progress. There never are any.

An unknown topic or partition is left out, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import LIST_PARTITION_REASSIGNMENTS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import list_partition_reassignments as message


@serves(LIST_PARTITION_REASSIGNMENTS, 0, 0, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, _request: message.ListPartitionReassignmentsRequest, asked: Asked
) -> message.ListPartitionReassignmentsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.DESCRIBE, CLUSTER)
    except BarnabasError as error:
        return {"topics": (), **refused(error)}
    return {"topics": (), **DONE}
