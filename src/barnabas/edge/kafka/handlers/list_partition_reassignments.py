"""ListPartitionReassignments, version 0: which partitions are on their way to other nodes. None ever is.

An unknown topic or partition is left out, as in Kafka.
"""

from typing import Any

from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import DONE
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - the answer is always the same
    """See the module."""
    return {"throttle_time": 0, "topics": (), **DONE}
