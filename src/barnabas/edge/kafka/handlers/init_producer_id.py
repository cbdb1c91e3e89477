"""InitProducerId, versions 0 to 5: an id for an idempotent producer.

Differs from Kafka: a transactional id is refused with NOT_COORDINATOR, as transactions are not served yet.
"""

from typing import Any

from barnabas.core.errors import BarnabasError, InvalidRequest, NotCoordinator
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.edge.kafka.asked import Asked
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - fields have defaults
    """See the module."""
    try:
        _check(request)
        producer_id = await broker.producer_ids.take()
    except BarnabasError as error:
        return {
            "throttle_time": 0,
            "error_code": error.kafka_code,
            "producer_id": NO_PRODUCER_ID,
            "producer_epoch": NO_PRODUCER_EPOCH,
        }
    # The id and epoch that the producer had, if it names them, count for transactions alone.
    return {"throttle_time": 0, "error_code": 0, "producer_id": producer_id, "producer_epoch": 0}


def _check(request: Any) -> None:
    has_id = getattr(request, "producer_id", NO_PRODUCER_ID) != NO_PRODUCER_ID
    has_epoch = getattr(request, "producer_epoch", NO_PRODUCER_EPOCH) != NO_PRODUCER_EPOCH
    if has_id is not has_epoch:
        raise InvalidRequest("a producer has both an id and an epoch, or neither")
    if request.transactional_id == "":
        raise InvalidRequest("a transactional id cannot be empty")
    if request.transactional_id is not None:
        raise NotCoordinator("transactions are not served yet")
