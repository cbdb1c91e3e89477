"""How an item of a request ended, and how long it may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from barnabas.core.errors import BarnabasError, RequestTimedOut
from barnabas.services.broker import Broker
from barnabas.wire.requests import to_ms

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class Outcome(TypedDict, closed=True):
        """The fields of an answer that report an error; only those, so that they can be part of any answer."""

        error_code: int
        error_message: str | None


NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"

DONE: Final[Outcome] = {"error_code": 0, "error_message": None}


def refused(error: BarnabasError) -> Outcome:
    """The error fields for a refusal."""
    return {"error_code": error.kafka_code, "error_message": str(error)}


def deadline_of(broker: Broker, timeout: timedelta) -> float:
    """When a request with this timeout must be answered, in the loop's time.

    One without a timeout gets the broker's default.
    """
    timeout_ms = to_ms(timeout)
    if timeout_ms <= 0:
        timeout_ms = broker.config.request_timeout_ms
    return asyncio.get_running_loop().time() + timeout_ms / 1000


@asynccontextmanager
async def answered_by(deadline: float) -> AsyncIterator[None]:
    """Stop waiting at the deadline; what was begun may still be completed."""
    try:
        async with asyncio.timeout_at(deadline) as scope:
            yield
    except TimeoutError:
        if not scope.expired():
            raise
        raise RequestTimedOut("not completed in time; it may still be") from None
