"""Waiting for the sync in progress, for requests that ask for the end of a partition.

With `flush.policy=fsync` the high watermark is what is on disk. A produce with acks=1 is answered before that, so
during a sync its client would not find what it was told is written: not by the end offset, not by a timestamp, not by a
fetch there. So such a request waits until the high watermark reaches the end of the log at the time of the request, and
is never told of anything beyond it. If nothing is unsynced, that costs a comparison.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from barnabas.runtime.partition import Partition
from barnabas.runtime.turns import in_turns

# A sync takes milliseconds, on a busy disk some hundreds of them. Whoever has waited so long is told of what is on disk
# by now, well before a client gives up on its request.
SYNC_WAIT_S: Final = 5.0


class UnsyncedEnds:
    """Partitions whose ends were not on disk when this was made."""

    __slots__ = ("_left",)

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._left = {each: each.end_offset for each in partitions if each.is_behind}  # and their ends

    def __bool__(self) -> bool:
        """Whether there is anything left to wait for. Deleted partitions are not waited for."""
        if self._left:
            self._left = {each: end for each, end in self._left.items() if each.is_behind and each.high_watermark < end}
        return bool(self._left)


async def wait_synced(partitions: Iterable[Partition]) -> None:
    """Return when everything in these partitions is on disk, when that takes long, or when one of them failed."""
    waiting = _Waiting()
    try:
        async for partition in in_turns(partitions):
            waiting.add(partition)
        await waiting.wait()
    finally:
        waiting.stop()


class _Waiting:
    """Waits for several partitions at once."""

    def __init__(self) -> None:
        self._left: dict[Partition, tuple[int, int]] = {}  # where the watermark was seen, and where it has to come
        self._has_failed = False
        self._over = asyncio.Event()

    def add(self, partition: Partition) -> None:
        """Wait for the current end of a partition."""
        if partition.is_behind:
            self._left[partition] = (partition.high_watermark, partition.end_offset)
            partition.wait_for_growth(self)

    async def wait(self) -> None:
        if self._left and not self._has_failed:
            with suppress(TimeoutError):  # the watermark says how far it came
                async with asyncio.timeout(SYNC_WAIT_S):
                    await self._over.wait()

    def stop(self) -> None:
        for partition in self._left:
            partition.stop_waiting(self)

    def note_growth(self, partition: Partition) -> None:
        """A partition has grown, or can no longer be served."""
        seen, end = self._left[partition]
        high_watermark = partition.high_watermark
        if high_watermark == seen:
            self._has_failed = True
        elif partition.is_behind and high_watermark < end:
            self._left[partition] = (high_watermark, end)
            partition.wait_for_growth(self)
            return
        else:
            del self._left[partition]
        if self._has_failed or not self._left:
            self._over.set()
