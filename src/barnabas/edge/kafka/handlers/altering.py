"""What AlterConfigs and IncrementalAlterConfigs have in common: each resource is altered, or refused, alone."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from barnabas.core.errors import BarnabasError, InvalidRequest
from barnabas.edge.kafka.handlers.outcome import DONE, refused
from barnabas.runtime.turns import in_turns
from barnabas.services.broker import Broker
from barnabas.services.configs import Decide, alter
from barnabas.wire.responses import Values

_PER_TURN: Final = 10


async def alter_each(broker: Broker, request: Any, decider: Callable[[Any], Decide | None]) -> Values:
    """Alter all resources of a request; `decider` makes of one what decides its change, None if it is made already."""
    counts: Counter[tuple[int, str]] = Counter()
    async for resource in in_turns(request.resources):
        counts[resource.resource_type, resource.resource_name] += 1
    answers = []
    async for resource in in_turns(request.resources, per_turn=_PER_TURN):
        key = (resource.resource_type, resource.resource_name)
        try:
            if counts[key] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            decide = decider(resource)
            if decide is not None:
                await alter(broker.metadata, decide, validate_only=request.validate_only)
            outcome = DONE
        except BarnabasError as error:
            outcome = refused(error)
        answers.append({"resource_type": key[0], "resource_name": key[1], **outcome})
    return {"throttle_time": 0, "responses": answers}
