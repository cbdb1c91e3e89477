"""Ids for idempotent producers: assigned one by one from blocks reserved in the metadata log."""

import asyncio
from typing import Final

from barnabas.core.metadata.cluster import allocate_producer_ids
from barnabas.runtime.cluster_metadata import ClusterMetadata

BLOCK: Final = 1000


class ProducerIds:
    """The ids of the node's current block; a crash loses the rest of it, and no id is given twice."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        self._block = range(0)
        self._lock = asyncio.Lock()

    async def take(self) -> int:
        """A new producer id."""
        async with self._lock:
            if not self._block:
                self._block = await self._metadata.commit(lambda image: allocate_producer_ids(image, BLOCK))
            producer_id, self._block = self._block[0], self._block[1:]
            return producer_id
