"""AddOffsetsToTxn, versions 0 to 4: offsets of a group are about to be committed in a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import Operation, group, transactional_id
from barnabas.core.errors import BarnabasError
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.fencing import code_of
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import ADD_OFFSETS_TO_TXN

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import add_offsets_to_txn as message


@serves(ADD_OFFSETS_TO_TXN, 0, 4)
async def handle(
    broker: Broker, request: message.AddOffsetsToTxnRequest, asked: Asked
) -> message.AddOffsetsToTxnResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.WRITE, transactional_id(request.transactional_id))
        broker.access.authorize(asked.session, Operation.READ, group(request.group_id))
        await broker.transactions.add_offsets(
            request.transactional_id, request.producer_id, request.producer_epoch, request.group_id
        )
    except BarnabasError as error:
        return {"error_code": code_of(error, asked.version)}
    return {"error_code": 0}
