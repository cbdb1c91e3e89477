"""EndTxn, versions 0 to 5: commit or abort. From version 5 on the producer has a new epoch afterwards (KIP-890).

Differs from Kafka: the answer comes when the markers are written, so that what was committed can be read.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.fencing import code_of
from barnabas.services.broker import Broker
from barnabas.services.transactions import EPOCHS_VERSION
from barnabas.wire.responses import Values

_EPOCHS_FROM: Final = 5


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    try:
        ended = await broker.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            is_commit=request.committed,
            version=EPOCHS_VERSION if asked.version >= _EPOCHS_FROM else 0,
        )
    except BarnabasError as error:
        return _answer(code_of(error, asked.version), NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return _answer(0, ended.producer_id, ended.epoch)


def _answer(error_code: int, producer_id: int, epoch: int) -> Values:
    return {"throttle_time": 0, "error_code": error_code, "producer_id": producer_id, "producer_epoch": epoch}
