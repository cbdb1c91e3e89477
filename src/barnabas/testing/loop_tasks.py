"""Tasks and futures of the simulated loop, and how they and callbacks are called in traces and messages.

They hash by the number the loop gave them: asyncio keeps tasks in sets and walks through those (a TaskGroup that
cancels its tasks, `asyncio.wait`), and by `id` that order would differ from run to run.
"""

import asyncio
import functools
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final, TypeVar

from barnabas.testing.hosts import Life

T = TypeVar("T")

_SHOWN: Final = 50
_DEPTH: Final = 100


class SimulatedFuture(asyncio.Future[T]):
    """A future that hashes by its number."""

    def __init__(self, number: int, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimulatedTask(asyncio.Task[T]):
    """A task that hashes by its number and knows for which life of which host it runs."""

    _log_destroy_pending: bool  # asyncio's: whether to complain of a pending task that is let go

    def __init__(self, coro: Any, *, number: int, life: Life | None, **options: Any) -> None:
        self._number = number
        self.life = life
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


def name_coroutine(coroutine: object, number: int) -> str:
    """A task's default name: asyncio's own goes on counting from one loop to the next."""
    return f"{getattr(coroutine, '__qualname__', type(coroutine).__name__)}#{number}"


def name_callback(callback: Callable[..., Any]) -> str:
    """What a callback is, in words that are the same in every run."""
    while isinstance(callback, functools.partial):
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return getattr(callback, "__qualname__", None) or type(callback).__qualname__


def describe_tasks(tasks: Iterable[SimulatedTask[Any]]) -> str:
    """One line for each task: its name, its host, and where it waits."""
    lines = [f"\n  {_on_host(task)}{task.get_name()} at {_describe_place(task)}" for task in tasks]
    more = f"\n  and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "".join(lines[:_SHOWN]) + more


def _on_host(task: SimulatedTask[Any]) -> str:
    return f"{task.life.host_name}: " if task.life is not None else ""


def _describe_place(task: asyncio.Task[Any]) -> str:
    frame = _innermost_frame(task.get_coro())
    if frame is None:
        return "no line"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def _innermost_frame(awaitable: object) -> FrameType | None:
    """Where a suspended coroutine waits: down through the coroutines it awaits to the last that has a frame."""
    innermost = None
    for _ in range(_DEPTH):
        frame = getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None)
        if frame is None:
            break
        innermost = frame
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)
    return innermost
