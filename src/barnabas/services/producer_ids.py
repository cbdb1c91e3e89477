"""Ids for idempotent producers: assigned one by one from blocks that the controller allocates to this broker."""

import asyncio

from barnabas.core.errors import (
    BrokerIdNotRegistered,
    ControllerBusy,
    CoordinatorLoadInProgress,
    NotController,
    PeerError,
    RequestTimedOut,
    StaleBrokerEpoch,
)
from barnabas.services.membership import Membership


class ProducerIds:
    """The ids of the node's current block; a crash loses the rest of it, and no id is given twice."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._block = range(0)
        self._lock = asyncio.Lock()

    async def take(self) -> int:
        """A new producer id."""
        async with self._lock:
            if not self._block:
                self._block = await self._next_block()
            producer_id, self._block = self._block[0], self._block[1:]
            return producer_id

    async def _next_block(self) -> range:
        """Without a controller the client tries again: it takes this refusal, and no other, for one that passes."""
        try:
            return await self._membership.allocate_producer_ids()
        except (NotController, ControllerBusy, RequestTimedOut, PeerError) as refusal:
            raise CoordinatorLoadInProgress(f"no producer ids can be had from the controller now: {refusal}") from None
        except (StaleBrokerEpoch, BrokerIdNotRegistered) as refusal:
            raise CoordinatorLoadInProgress(f"this broker registers again: {refusal}") from None
