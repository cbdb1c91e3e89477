"""EndTxn, versions 0 to 5: commit or abort. From version 5 on the producer has a new epoch afterwards (KIP-890).

Differs from Kafka: the answer comes when the markers are written, so that what was committed can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import Operation, transactional_id
from barnabas.core.errors import BarnabasError
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.fencing import code_of
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.services.transactions import EPOCHS_VERSION
from barnabas.wire.apis import END_TXN

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import end_txn as message

_EPOCHS_FROM: Final = 5


@serves(END_TXN, 0, 5)
async def handle(broker: Broker, request: message.EndTxnRequest, asked: Asked) -> message.EndTxnResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.WRITE, transactional_id(request.transactional_id))
        ended = await broker.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            is_commit=request.committed,
            version=EPOCHS_VERSION if asked.version >= _EPOCHS_FROM else 0,
        )
    except BarnabasError as error:
        return _answer(code_of(error, asked.version), NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return _answer(0, ended.producer_id, ended.producer_epoch)


def _answer(error_code: int, producer_id: int, epoch: int) -> message.EndTxnResponse:
    return {"error_code": error_code, "producer_id": producer_id, "producer_epoch": epoch}
