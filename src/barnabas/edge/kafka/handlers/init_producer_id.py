"""InitProducerId, versions 0 to 5: an id and an epoch for an idempotent producer, or for one with a transactional id.

Differs from Kafka: a transaction that is open is aborted before the answer, where Kafka has the client ask again.
"""

from typing import Any, Final

from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.core.transactions.initialising import Initialised, InitRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.fencing import code_of
from barnabas.services.broker import Broker
from barnabas.wire.requests import to_ms
from barnabas.wire.responses import Values

_FENCED_FROM: Final = 4


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:
    """See the module."""
    try:
        found = await _initialise(broker, request)
    except BarnabasError as error:
        code = code_of(error, asked.version, knows_fenced_from=_FENCED_FROM)
        found, error_code = Initialised(NO_PRODUCER_ID, NO_PRODUCER_EPOCH), code
    else:
        error_code = 0
    return {
        "throttle_time": 0,
        "error_code": error_code,
        "producer_id": found.producer_id,
        "producer_epoch": found.epoch,
    }


async def _initialise(broker: Broker, request: Any) -> Initialised:
    producer_id = getattr(request, "producer_id", NO_PRODUCER_ID)
    epoch = getattr(request, "producer_epoch", NO_PRODUCER_EPOCH)
    if (producer_id == NO_PRODUCER_ID) is not (epoch == NO_PRODUCER_EPOCH):
        raise InvalidRequest("a producer has both an id and an epoch, or neither")
    if request.transactional_id is None:
        # The id and epoch that the producer had, if it names them, count for transactions alone.
        return Initialised(await broker.producer_ids.take(), 0)
    return await broker.transactions.init_producer(
        InitRequest(
            transactional_id=request.transactional_id,
            timeout_ms=to_ms(request.transaction_timeout),
            producer_id=producer_id,
            epoch=epoch,
        )
    )
