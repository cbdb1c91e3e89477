"""The requests that wait for records of one partition to be acknowledged.

Of many acknowledgements that are due at once, as with a client that pipelines, some are made in each turn of the loop.

Invariants: waiters are in the order of their offsets; each is called once, or has given up.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from barnabas.core.errors import BarnabasError

ACKS_PER_TURN: Final = 32  # of some ten microseconds each

AckCallback = Callable[[BarnabasError | None], None]


class Acks:
    """Callbacks by the offset below which everything must be acknowledged."""

    __slots__ = ("_acked_offset", "_is_calling", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, AckCallback]] = deque()
        self._acked_offset = 0
        self._is_calling = False  # more of them are called in the next turn

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, callback: AckCallback) -> None:
        """Call back when everything below `end_offset` is acknowledged, or cannot be."""
        waiting = self._waiting
        if waiting and waiting[-1][0] > end_offset:  # a retry of something older than what others wait for
            self._waiting = deque(sorted([*waiting, (end_offset, callback)], key=lambda each: each[0]))
        else:
            waiting.append((end_offset, callback))

    def forget(self, end_offset: int, callback: AckCallback) -> None:
        """Do not call back: the waiter has given up. Does nothing if it was called already."""
        with suppress(ValueError):
            self._waiting.remove((end_offset, callback))  # quick: whoever came first gives up first

    def acknowledge(self, acked_offset: int) -> None:
        """Everything below an offset is acknowledged: call the waiters for that, some of them in each turn."""
        self._acked_offset = acked_offset
        if self._waiting and not self._is_calling:
            self._call_some()

    def _call_some(self) -> None:
        waiting = self._waiting
        due: list[AckCallback] = []
        while waiting and waiting[0][0] <= self._acked_offset and len(due) < ACKS_PER_TURN:
            due.append(waiting.popleft()[1])
        # The newest first: a connection sends its answers in order, so with the oldest all of them leave, in one write.
        for callback in reversed(due):
            callback(None)
        waiting = self._waiting  # looked up again: a callback may lead to another wait, and so to another queue
        self._is_calling = bool(waiting and waiting[0][0] <= self._acked_offset)
        if self._is_calling:
            asyncio.get_running_loop().call_soon(self._call_some)

    def fail(self, error: BarnabasError) -> None:
        """Nothing more is acknowledged: fail the remaining waiters, except those whose records are acknowledged."""
        waiting, self._waiting = self._waiting, deque()
        for end_offset, callback in waiting:
            callback(None if end_offset <= self._acked_offset else error)
