"""Waiting for the sync that is under way, on behalf of whoever asks for the end of a partition.

With `flush.policy=fsync` the high watermark is what is on disk. A produce with acks=1 is answered before that, so for
the time of a sync its client would not find what it was told is written: not by the end of the partition, not by a
time, not by a fetch there. So whoever asks waits until the watermark is where the log ended when it asked, and is never
told of anything beyond it. Where nothing is unsynced that costs a comparison.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from barnabas.runtime.partition import Partition

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

    @property
    def partitions(self) -> Iterable[Partition]:
        return self._left


async def wait_synced(partitions: Iterable[Partition]) -> None:
    """Return when all that is in these partitions now is on disk, when that takes long, or when one of them failed."""
    unsynced = Unsynced(partitions)
    if unsynced:
        await _Waiting(unsynced).wait()


class _Waiting:
    """Somebody who waits for several partitions at once."""

    def __init__(self, unsynced: Unsynced) -> None:
        self._unsynced = unsynced
        self._partitions = tuple(unsynced.partitions)
        self._over = asyncio.Event()
        self._seen = self._watermarks()

    async def wait(self) -> None:
        try:
            async with asyncio.timeout(SYNC_WAIT_S):
                self._park()
                await self._over.wait()
        except TimeoutError:
            return  # the watermark says how far it came
        finally:
            for partition in self._partitions:
                partition.stop_waiting(self)

    def note_growth(self) -> None:
        """One of them is further, or cannot be served any more."""
        before, self._seen = self._seen, self._watermarks()
        if not self._unsynced or before == self._seen:
            self._over.set()
        else:
            self._park()

    def _park(self) -> None:
        for partition in self._unsynced.partitions:
            partition.wait_for_growth(self)

    def _watermarks(self) -> list[int]:
        return [partition.high_watermark for partition in self._partitions]
