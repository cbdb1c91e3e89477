"""How long the loop is held by one request, counted and not timed: between two of its turns, the calls of functions
and the blocks of memory that are freed.
"""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Held:
    """Counts calls while it is entered; `longest` is the most of them between two turns of the loop, `calls` all.
    `freed` is the most blocks that were freed between two turns, more than were allocated.
    """

    def __init__(self) -> None:
        self.longest = 0
        self.calls = 0
        self.turns = 0
        self.freed = 0
        self._calls = 0
        self._blocks = 0
        self._is_over = False

    def __enter__(self) -> "Held":
        asyncio.get_running_loop().call_soon(self._turn)
        gc.disable()
        gc.collect()  # whoever collects meanwhile finds no garbage of tests before
        self._blocks = sys.getallocatedblocks()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()
        self._note()
        self._is_over = True

    def _count(self, _: FrameType, event: str, __: Any) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

    def _turn(self) -> None:
        self._note()
        self.turns += 1
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._turn)

    def _note(self) -> None:
        self.longest = max(self.longest, self._calls)
        self.calls += self._calls
        self._calls = 0
        before, self._blocks = self._blocks, sys.getallocatedblocks()
        self.freed = max(self.freed, before - self._blocks)


async def held_by(work: Callable[[], Awaitable[T]]) -> tuple[T, Held]:
    """What some work gives, and how long it held the loop.

    Blocks are counted for the whole process, and once 76,000 were freed where it is 4,000 otherwise; nobody knows by
    whom. So of two runs the one that freed less counts. Of the calls, which are the work's own, the most of both do.
    """
    await work()  # once before, so that schemas are loaded and caches filled
    runs = []
    for _ in range(2):
        with Held() as held:
            result = await work()
        runs.append((result, held))
    result, held = min(runs, key=lambda run: run[1].freed)
    held.longest = max(each.longest for _, each in runs)
    return result, held
