"""Ids for idempotent producers: given out one by one from blocks that the metadata log has set aside."""

import asyncio
from typing import Final

from barnabas.core.metadata.cluster import allocate_producer_ids
from barnabas.runtime.metadata_log import MetadataLog

BLOCK: Final = 1000


class ProducerIds:
    """The ids of the node's current block; a crash loses the rest of it, and no id is given twice."""

    def __init__(self, metadata: MetadataLog) -> None:
        self._metadata = metadata
        self._block = range(0)
        self._lock = asyncio.Lock()

    async def take(self) -> int:
        """A producer id that nobody has."""
        async with self._lock:
            if not self._block:
                self._block = await self._metadata.commit(lambda image: allocate_producer_ids(image, BLOCK))
            producer_id, self._block = self._block[0], self._block[1:]
            return producer_id
