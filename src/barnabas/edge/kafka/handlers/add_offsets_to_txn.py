"""AddOffsetsToTxn, versions 0 to 4: offsets of a group are about to be committed in a transaction."""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.fencing import code_of
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    try:
        await broker.transactions.add_offsets(
            request.transactional_id, request.producer_id, request.producer_epoch, request.group_id
        )
    except BarnabasError as error:
        return {"throttle_time": 0, "error_code": code_of(error, asked.version)}
    return {"throttle_time": 0, "error_code": 0}
