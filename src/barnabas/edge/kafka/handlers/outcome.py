"""How an item of a request ended, and how long it may take."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from barnabas.core.errors import BarnabasError, RequestTimedOut
from barnabas.services.broker import Broker
from barnabas.wire.requests import to_ms
from barnabas.wire.responses import Values

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"
DONE: Final[Values] = {"error_code": 0, "error_message": None}


def refused(error: BarnabasError) -> Values:
    """The fields that say why something was not done."""
    return {"error_code": error.kafka_code, "error_message": str(error)}


def deadline_of(broker: Broker, request: Any) -> float:
    """When a request that has a timeout must be answered, in the loop's time. One without gets the broker's own."""
    timeout_ms = to_ms(request.timeout)
    if timeout_ms <= 0:
        timeout_ms = broker.config.request_timeout_ms
    return asyncio.get_running_loop().time() + timeout_ms / 1000


@asynccontextmanager
async def answered_by(deadline: float) -> AsyncIterator[None]:
    """Give up at the deadline; what was begun may still be done."""
    try:
        async with asyncio.timeout_at(deadline) as scope:
            yield
    except TimeoutError:
        if not scope.expired():
            raise
        raise RequestTimedOut("not done in time; it may still be") from None
