"""CreateAcls, versions 1 to 3: make rules.

There is no authorizer, so it is refused with SECURITY_DISABLED, as in Kafka without one.
"""

from typing import Any

from barnabas.core.errors import SecurityDisabled
from barnabas.edge.kafka.asked import Asked
from barnabas.edge.kafka.handlers.outcome import NO_AUTHORIZER, refused
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.wire.responses import Values


async def handle(broker: Broker, request: Any, asked: Asked) -> Values:  # noqa: ARG001 - all versions are one
    """See the module."""
    return {
        "throttle_time": 0,
        "results": [refused(SecurityDisabled(NO_AUTHORIZER)) async for _ in in_turns(request.creations)],
    }
