"""How long the loop is held by one request, counted and not timed: the calls of functions between two of its turns."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Held:
    """Counts calls while it is entered; `longest` is the most of them between two turns of the loop, `calls` all."""

    def __init__(self) -> None:
        self.longest = 0
        self.calls = 0
        self.turns = 0
        self._calls = 0
        self._is_over = False

    def __enter__(self) -> "Held":
        asyncio.get_running_loop().call_soon(self._turn)
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
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


async def held_by(work: Callable[[], Awaitable[T]]) -> tuple[T, Held]:
    """What some work gives, and how long it held the loop."""
    await work()  # once before, so that schemas are loaded and caches filled
    with Held() as held:
        result = await work()
    return result, held
