"""Turns of the loop for work whose length a client chooses: a little of it, then everybody else, then a little more.

What is done between two turns is counted in elements, not in time, so that a seed repeats a run. All such work of a
loop stands in one line, and one is let on in every other turn of the loop, so that a hundred large requests hold it no
longer at a time than one does. The turn in between is for what has come meanwhile: a short request that takes two
turns, one to be read and one to be answered, waits for one piece of this work and not for two.

An await is a gap: what was looked up before a turn may be gone after it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

PER_TURN: Final = 50
"""Elements of a few microseconds each that are seen to in one turn."""


LETTERS: Final = 50
"""So many of a name take as long as an element."""


class _Line:
    """Who waits for a turn of one loop."""

    __slots__ = ("_is_moving", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_moving = False

    async def wait(self) -> None:
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        if not self._is_moving:
            self._is_moving = True
            self._loop.call_soon(self._move)
        await waiter

    def _move(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else whoever waited was cancelled
                waiter.set_result(None)
                break
        if self._waiting:
            self._loop.call_soon(self._rest)
        else:
            self._is_moving = False

    def _rest(self) -> None:
        """Called in the turn of the loop in which the one who was let on does its work."""
        self._loop.call_soon(self._move)


_lines: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Line]] = WeakKeyDictionary()


async def next_turn() -> None:
    """Let everybody else on, and wait in line for a turn of the loop."""
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = _Line(loop)
    await line.wait()


async def in_turns(
    elements: Iterable[T], *, per_turn: int = PER_TURN, letters: Callable[[T], int] | None = None
) -> AsyncIterator[T]:
    """The elements, so many in each turn. They must not change meanwhile: of what others change give a copy.

    Where a name is gone over letter by letter, as Java's hash of it is, `letters` are those of an element: it may have
    30,000, and counts for as many elements as that takes.
    """
    left = per_turn
    for element in elements:
        if left <= 0:
            await next_turn()
            left = per_turn
        left -= 1 if letters is None else 1 + letters(element) // LETTERS
        yield element


async def pieces(elements: Sequence[T], *, per_turn: int = PER_TURN) -> AsyncIterator[Sequence[T]]:
    """Slices of the elements, one in each turn."""
    for first in range(0, len(elements), per_turn):
        if first:
            await next_turn()
        yield elements[first : first + per_turn]


def is_over(steps: Generator[None, None, object]) -> bool:
    """Take one step of some work, here and now; whether it was the last."""
    try:
        next(steps)
    except StopIteration:
        return True
    return False


async def finish(steps: Generator[None, None, T]) -> T:
    """Take all steps of some work, each in a turn of its own; the first at once. Gives what the work returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await next_turn()
