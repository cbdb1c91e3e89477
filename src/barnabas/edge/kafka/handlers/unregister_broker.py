"""UnregisterBroker, version 0: remove a broker from the cluster permanently.

Its replicas stay assigned to it, as in Kafka. Differs from Kafka: a broker that is running is refused with
INVALID_REQUEST, where Kafka removes it until it registers again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.access.resources import CLUSTER, Operation
from barnabas.core.errors import BarnabasError, NotController
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.edge.kafka.registry import On, serves
from barnabas.services.broker import Broker
from barnabas.wire.apis import UNREGISTER_BROKER

if TYPE_CHECKING:
    from barnabas.edge.kafka.messages import unregister_broker as message


@serves(UNREGISTER_BROKER, 0, 0, on=On.ALL, is_forwarded=True)
async def handle(
    broker: Broker, request: message.UnregisterBrokerRequest, asked: Asked
) -> message.UnregisterBrokerResponse:
    """See the module."""
    try:
        broker.access.authorize(asked.session, Operation.ALTER, CLUSTER)
        if broker.controller is None:
            raise NotController("this node is not a controller")
        await broker.controller.unregister(request.broker_id)
    except BarnabasError as error:
        return {**refused(error)}
    return {**DONE}
