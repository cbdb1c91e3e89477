"""Garbage collection without blocking the loop.

Python examines all objects whenever their number has grown by a quarter: a tenth of a second for a million, which ten
thousand partitions have, and one large request while it is answered. Here only new objects are examined, a bounded
number at a time. Those still in use are frozen (`gc.freeze`) and not examined again.

That is enough where nothing that lasts dies in a cycle, and requests see to that: what is kept of an error has no
traceback. Cycles that exist nevertheless are found when many objects are frozen: then everything is examined, at a
moment when the process has little to do. A process that is always busy does without, until very many are frozen.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any, Final

THRESHOLDS: Final = (1000, 2, 2)
"""The thresholds of Python's three generations."""

MOST_NEW: Final = (THRESHOLDS[0] + 1) * ((THRESHOLDS[1] + 2) * (THRESHOLDS[2] + 1) + 1)
"""Objects in a collection of the oldest generation: about a millisecond. Every collection delays some request."""

MAX_NEW_SET_ASIDE: Final = 500_000
"""Objects, beyond twice the number at the last full collection. Then the next quiet moment is used."""

BUSY_TIMES: Final = 8
"""At so many times that number a full collection no longer waits."""

ROUNDS_PER_COUNT: Final = 160
"""At least. Counting the frozen objects takes a while itself."""

QUIET_S: Final = 1.0
QUIET_PART: Final = 0.02
"""A process that has used no more of a processor than this is quiet."""


class Collector:
    """Python's collector, kept short. One for a process, from when it serves."""

    def __init__(
        self,
        *,
        max_new_set_aside: int = MAX_NEW_SET_ASIDE,
        rounds_per_count: int = ROUNDS_PER_COUNT,
        used_s: Callable[[], float] = time.process_time,
        quiet_s: float = QUIET_S,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_new = max_new_set_aside
        self._rounds_per_count = rounds_per_count
        self._used_s = used_s  # how long the processor has worked for this process
        self._quiet_s = quiet_s
        self._rounds = rounds_per_count  # until what is set aside is counted
        self._known = 0  # what was set aside when everything was looked through
        self._is_due = False
        self._watch: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Freeze all objects, and collect among new ones from now on."""
        gc.set_threshold(*THRESHOLDS)
        gc.freeze()
        # Of next to nothing: Python puts off a third look until a quarter of what the last one left is new.
        gc.collect()
        self._known = gc.get_freeze_count()
        gc.callbacks.append(self._note)
        gc.enable()

    def stop(self) -> None:
        """Restore Python's own settings."""
        gc.callbacks.remove(self._note)
        if self._watch is not None:
            self._watch.cancel()

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        """Called by Python, on any thread, around each collection."""
        if phase != "stop" or info["generation"] < 2:
            return
        gc.freeze()
        self._rounds -= 1
        if self._rounds > 0:
            return
        new = gc.get_freeze_count() - 2 * self._known
        self._rounds = max(self._rounds_per_count, (self._max_new - new) // MOST_NEW)
        if new > BUSY_TIMES * self._max_new:
            self._loop.call_soon_threadsafe(self._look_through_all)
        elif new > self._max_new and not self._is_due:
            self._is_due = True
            self._loop.call_soon_threadsafe(self._watch_from, self._used_s())

    def _watch_from(self, used_s: float) -> None:
        """Collect everything if the process has been quiet for a while."""
        self._watch = self._loop.call_later(self._quiet_s, self._look_if_quiet, used_s)

    def _look_if_quiet(self, used_s: float) -> None:
        if not self._is_due:  # it could not wait any longer
            return
        now_s = self._used_s()
        if now_s - used_s > self._quiet_s * QUIET_PART:
            self._watch_from(now_s)
        else:
            self._look_through_all()

    def _look_through_all(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.collect()  # of nothing: Python waits for a quarter of what the last one left
        self._known = gc.get_freeze_count()
        self._is_due = False
