"""Ports of a node that tests share: a clock that stands still, and blocking work done at once."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
NOW_MS: Final = 1_700_000_000_000


class FixedClock:
    """Always `NOW_MS`."""

    def now_ms(self) -> int:
        return NOW_MS

    def elapsed_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


class InPlace:
    """Blocking work, done at once."""

    async def run(self, function: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return function()
