"""UnregisterBroker, version 0: take a broker out of the cluster for good.

Differs from Kafka: one that is running is refused with INVALID_REQUEST, where Kafka takes it out until it registers
again. A cluster is one node, so only an unknown one can be asked for beside it.
"""

from typing import Any

from barnabas.core.errors import BarnabasError
from barnabas.core.metadata.cluster import unregister_node
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - there is one version
    """See the module."""
    try:
        await broker.metadata.commit(lambda image: unregister_node(image, request.broker_id))
    except BarnabasError as error:
        return {"throttle_time": 0, **refused(error)}
    return {"throttle_time": 0, **DONE}
