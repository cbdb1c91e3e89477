"""Turns of the loop for work whose length a client chooses: a little of it, then all other work, then a little more.

The work of one turn is measured in elements, not in time, so that a seed repeats a run. All such work of a loop is in
one queue, and one item goes on in every other turn of the loop, so that a hundred large requests block it no longer at
a time than one does. The turn in between is for new work: a short request that takes two turns, one to be read and one
to be answered, waits for one piece of this work and not for two.

An await is a gap: what was looked up before a turn may be gone after it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextvars import Context
from itertools import islice
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

PER_TURN: Final = 20
"""Elements of a few microseconds each that are handled in one turn."""


LETTERS: Final = 50
"""So many letters of a name take as long as an element."""


class _Line:
    """The queue for turns of one loop."""

    __slots__ = ("_context", "_is_moving", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_moving = False
        self._context = Context()  # of nobody who waits: it moves on for all, whatever becomes of one of them

    async def wait(self) -> None:
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        if not self._is_moving:
            self._is_moving = True
            self._loop.call_soon(self._move, context=self._context)
        await waiter

    def _move(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else whoever waited was cancelled
                waiter.set_result(None)
                break
        if self._waiting:
            self._loop.call_soon(self._rest, context=self._context)
        else:
            self._is_moving = False

    def _rest(self) -> None:
        """Called in the turn of the loop in which the item that goes on does its work."""
        self._loop.call_soon(self._move, context=self._context)


_lines: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Line]] = WeakKeyDictionary()


async def next_turn() -> None:
    """Yield to all other work, and queue for a turn of the loop."""
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = _Line(loop)
    await line.wait()


async def in_turns(
    elements: Iterable[T], *, per_turn: int = PER_TURN, letters: Callable[[T], int] | None = None
) -> AsyncIterator[T]:
    """The elements, so many in each turn.

    They must not change meanwhile: pass a copy of what others change. If a name is processed letter by letter, as for
    Java's hash, `letters` returns those of an element: it may have 30,000, and counts as several elements.
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


async def batches(elements: Iterable[T], *, per_turn: int = PER_TURN) -> AsyncIterator[list[T]]:
    """The same for elements that are made as they are asked for."""
    left, is_first = iter(elements), True
    while some := list(islice(left, per_turn)):
        if not is_first:
            await next_turn()
        is_first = False
        yield some


def is_over(steps: Generator[None, None, object]) -> bool:
    """Do one step of some work now; returns whether it was the last."""
    try:
        next(steps)
    except StopIteration:
        return True
    return False


async def finish(steps: Generator[None, None, T]) -> T:
    """Do all steps of some work, each in its own turn; the first at once. Returns the result of the work."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await next_turn()
