"""AllocateProducerIds, version 0: a block of producer ids for a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, NotController
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import ALLOCATE_PRODUCER_IDS

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import allocate_producer_ids as message


@serves(ALLOCATE_PRODUCER_IDS, 0, 0, on=On.CONTROLLERS)
async def handle(
    broker: Broker, request: message.AllocateProducerIdsRequest, asked: Asked
) -> message.AllocateProducerIdsResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.CLUSTER_ACTION, CLUSTER)
        if broker.controller is None:
            raise NotController("this node is not a controller")
        block = await broker.controller.allocate_producer_ids(request.broker_id, request.broker_epoch)
    except BarnabasError as error:
        return {"error_code": error.kafka_code, "producer_id_start": 0, "producer_id_len": 0}
    return {"error_code": 0, "producer_id_start": block.start, "producer_id_len": len(block)}
