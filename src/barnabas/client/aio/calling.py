"""Calls that block, made in a thread for a task.

A call that has begun cannot be taken back: a task that is cancelled meanwhile leaves it to end by itself. In a lane of
one thread calls never overlap, so whoever comes next waits for that.
"""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Lane:
    """One thread, for calls one after the other, or a few; started when they are needed."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._executor = ThreadPoolExecutor(threads, name)

    async def call(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        """What the function returns. If the caller is cancelled the call goes on, and what it returns is lost."""
        return await asyncio.shield(self.begin(function, *arguments, **named))

    def begin(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> "asyncio.Future[R]":
        """Make the call as soon as those before have ended."""
        future = asyncio.get_running_loop().run_in_executor(
            self._executor, functools.partial(function, *arguments, **named)
        )
        future.add_done_callback(_note_seen)
        return future

    def end(self) -> None:
        """The thread ends after the calls that are under way."""
        self._executor.shutdown(wait=False)


def _note_seen(future: "asyncio.Future[R]") -> None:
    """The failure of a call that nobody waits for any more is nobody's."""
    if not future.cancelled():
        future.exception()
