"""InitProducerId, versions 0 to 5: an id and an epoch for an idempotent producer, or for one with a transactional id.

Differs from Kafka: a transaction that is open is aborted before the answer, where Kafka has the client retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.core.access.resources import CLUSTER, Operation, ResourceType, transactional_id
from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.core.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.core.transactions.initialising import Initialised, InitRequest
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.fencing import code_of
from barnabas.edge.kafka.registry import serves
from barnabas.services.broker import Broker
from barnabas.services.session import Session
from barnabas.wire.apis import INIT_PRODUCER_ID
from barnabas.wire.requests import to_ms

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import init_producer_id as message

_FENCED_FROM: Final = 4


@serves(INIT_PRODUCER_ID, 0, 5)
async def handle(
    broker: Broker, request: message.InitProducerIdRequest, asked: Asked
) -> message.InitProducerIdResponse:
    """See the module."""
    try:
        found = await _initialise(broker, request, asked.session)
    except BarnabasError as error:
        code = code_of(error, asked.version, knows_fenced_from=_FENCED_FROM)
        found, error_code = Initialised(NO_PRODUCER_ID, NO_PRODUCER_EPOCH), code
    else:
        error_code = 0
    return {
        "error_code": error_code,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
    }


def _authorize(broker: Broker, session: Session, name: str | None) -> None:
    access = broker.access
    if name is not None:
        access.authorize(session, Operation.WRITE, transactional_id(name))
    elif not access.allows_any(session, Operation.WRITE, ResourceType.TOPIC):
        access.authorize(session, Operation.IDEMPOTENT_WRITE, CLUSTER)


async def _initialise(broker: Broker, request: message.InitProducerIdRequest, session: Session) -> Initialised:
    _authorize(broker, session, request.transactional_id)
    producer_id, epoch = request.producer_id, request.producer_epoch
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
            producer_epoch=epoch,
        )
    )
