"""Waiting for the sync that is under way, on behalf of whoever asks for the end of a partition.

With `flush.policy=fsync` the high watermark is what is on disk. A produce with acks=1 is answered before that, so for
the time of a sync its client would not find what it was told is written: not by the end of the partition, not by a
time, not by a fetch there. So whoever asks waits until the watermark is where the log ended when it asked, and is never
told of anything beyond it. Where nothing is unsynced that costs a comparison.
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


class Unsynced:
    """Partitions whose ends are not on disk yet, as they were when this was made."""

    __slots__ = ("_left",)

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._left = {each: each.end_offset for each in partitions if each.is_behind}  # and their ends

    def __bool__(self) -> bool:
        """Whether there is anything left to wait for. One that is gone is not waited for."""
        if self._left:
            self._left = {each: end for each, end in self._left.items() if each.is_behind and each.high_watermark < end}
        return bool(self._left)


async def wait_synced(partitions: Iterable[Partition]) -> None:
    """Return when all that is in these partitions now is on disk, when that takes long, or when one of them failed."""
    waiting = _Waiting()
    try:
        async for partition in in_turns(partitions):
            waiting.add(partition)
        await waiting.wait()
    finally:
        waiting.stop()


class _Waiting:
    """Somebody who waits for several partitions at once, and hears of each of them by itself."""

    def __init__(self) -> None:
        self._left: dict[Partition, tuple[int, int]] = {}  # where the watermark was seen, and where it has to come
        self._has_failed = False
        self._over = asyncio.Event()

    def add(self, partition: Partition) -> None:
        """Wait for what is in a partition now."""
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
        """One of them is further, or cannot be served any more."""
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
