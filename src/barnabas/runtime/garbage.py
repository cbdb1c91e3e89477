"""Looking for garbage without holding the loop.

Python looks through all objects it has whenever a quarter has come to them: a tenth of a second for a million, which
ten thousand partitions have, and one large request while it is answered. Here only what is new is looked through, a
bounded number of objects at a time. What is still used then is set aside (`gc.freeze`) and not looked at again.

That is enough where nothing that lasts dies in a cycle, and requests see to that: what is kept of an error has no
traceback. What does all the same is found when very much was set aside: then everything is looked through, once.
"""

import asyncio
import gc
from typing import Any, Final

THRESHOLDS: Final = (2000, 10, 5)
"""New objects in a first look, of those looks in a second, of those in a third: at most some 100,000 objects, which is
some ten milliseconds.
"""

MAX_NEW_SET_ASIDE: Final = 500_000
"""Objects, beyond twice what there was when everything was looked through."""

ROUNDS_PER_COUNT: Final = 16
"""Counting what is set aside takes a while itself."""


class Collector:
    """Python's collector, kept short. One for a process, from when it serves."""

    def __init__(self, *, max_new_set_aside: int = MAX_NEW_SET_ASIDE, rounds_per_count: int = ROUNDS_PER_COUNT) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_new = max_new_set_aside
        self._rounds_per_count = rounds_per_count
        self._rounds = 0
        self._known = 0  # what was set aside when everything was looked through
        self._is_soon = False

    def start(self) -> None:
        """Set aside all there is, and begin to look through what comes."""
        gc.set_threshold(*THRESHOLDS)
        gc.freeze()
        self._known = gc.get_freeze_count()
        gc.callbacks.append(self._note)
        gc.enable()

    def stop(self) -> None:
        """Leave Python to itself."""
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        """Called by Python, on whatever thread, around each look."""
        if phase != "stop" or info["generation"] < 2:
            return
        gc.freeze()
        self._rounds += 1
        if self._rounds % self._rounds_per_count or self._is_soon:
            return
        if gc.get_freeze_count() > 2 * self._known + self._max_new:
            self._is_soon = True
            self._loop.call_soon_threadsafe(self._look_through_all)

    def _look_through_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.collect()  # of nothing: Python waits for a quarter of what the last one left
        self._known = gc.get_freeze_count()
        self._is_soon = False
