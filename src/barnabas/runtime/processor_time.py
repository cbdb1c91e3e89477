"""How much processor time of the loop some work takes: what it does now, and in every step of a coroutine.

What other work does while a coroutine waits is not counted, nor what threads do for it.
"""

import time
from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType
from typing import Any, Final, TypeVar

T = TypeVar("T")
Seconds = Callable[[], float]

thread_seconds: Final[Seconds] = time.thread_time
"""The processor time of the thread of the loop."""


def measured(do: Callable[[], T], spend: Callable[[float], None], *, seconds: Seconds = thread_seconds) -> T:
    """Do something, and tell what it took; if that is a coroutine, also what each of its steps takes."""
    begun_s = seconds()
    try:
        result = do()
    finally:
        spend(seconds() - begun_s)
    if isinstance(result, CoroutineType):
        return _measured_work(result, spend, seconds)  # type: ignore[return-value]  # a coroutine of the same result
    return result


async def _measured_work(work: Coroutine[Any, Any, Any], spend: Callable[[float], None], seconds: Seconds) -> Any:
    return await _Steps(work, spend, seconds)


class _Steps:
    """Runs a coroutine step by step."""

    __slots__ = ("_seconds", "_spend", "_work")

    def __init__(self, work: Coroutine[Any, Any, Any], spend: Callable[[float], None], seconds: Seconds) -> None:
        self._work = work
        self._spend = spend
        self._seconds = seconds

    def __await__(self) -> Generator[Any, Any, Any]:
        work = self._work
        step: Callable[[], Any] = lambda: work.send(None)  # noqa: E731
        while True:
            begun_s = self._seconds()
            try:
                awaited = step()
            except StopIteration as end:
                return end.value
            finally:
                self._spend(self._seconds() - begun_s)
            try:
                sent = yield awaited
            except BaseException as error:  # noqa: BLE001: whatever is thrown in belongs to the work, a cancellation too
                step = _thrower(work, error)
            else:
                step = _sender(work, sent)


def _sender(work: Coroutine[Any, Any, Any], value: Any) -> Callable[[], Any]:
    return lambda: work.send(value)


def _thrower(work: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: work.throw(error)
