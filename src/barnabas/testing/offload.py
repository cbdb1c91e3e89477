"""Blocking work in simulation: run in place, later by a seeded virtual delay, so that other tasks come in between."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

MAX_DELAY_S: Final = 0.01


class SimulatedOffload:
    """`runtime.offload.Offload` without threads.

    Jobs handed over together finish in any order. As with a thread, giving up the wait does not stop a job
    that has begun: whether it had is left to chance.
    """

    def __init__(self, random: Random, *, max_delay_s: float = MAX_DELAY_S) -> None:
        self._random = random
        self.max_delay_s = max_delay_s  # may change under way: a disk that becomes slow
        self.outstanding = 0
        self.max_outstanding = 0
        self.finished = 0

    async def run(self, function: Callable[[], T]) -> T:
        """What `function` returns or raises, some virtual time from now."""
        return await self.start(asyncio.get_running_loop(), function)

    def start(self, loop: asyncio.AbstractEventLoop, function: Callable[[], T]) -> asyncio.Future[T]:
        """Have `function` run later on `loop`; its outcome comes by the future."""
        outcome: asyncio.Future[T] = loop.create_future()
        self.outstanding += 1
        self.max_outstanding = max(self.max_outstanding, self.outstanding)
        loop.call_later(self._random.uniform(0, self.max_delay_s), self._finish, function, outcome)
        return outcome

    def _finish(self, function: Callable[[], T], outcome: asyncio.Future[T]) -> None:
        self.outstanding -= 1
        if outcome.cancelled() and self._random.random() < 0.5:
            return  # it had not begun
        try:
            result = function()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if not outcome.cancelled():
                outcome.set_exception(error)
        else:
            if not outcome.cancelled():
                outcome.set_result(result)
        self.finished += 1
