"""How many jobs to fetch: one for everybody who waits, and ahead no more than were finished in the last second.

So quick jobs come in batches, and of slow ones nobody holds any that another worker could do. Pure.
"""

from collections import deque
from typing import Final

_WINDOW_S: Final = 1.0


class Pace:
    """Remembers when jobs were finished, at most `prefetch` of them."""

    def __init__(self, prefetch: int) -> None:
        self._finished: deque[float] = deque(maxlen=prefetch)

    def note_finished(self, now: float) -> None:
        self._finished.append(now)

    def room(self, now: float, *, waiting_count: int, buffered_count: int) -> int:
        """How many more to fetch."""
        while self._finished and self._finished[0] <= now - _WINDOW_S:
            self._finished.popleft()
        return max(0, waiting_count + len(self._finished) - buffered_count)
