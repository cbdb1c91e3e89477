"""How late the event loop is: a task that asks to be woken, and counts by how much it was woken too late.

What holds the loop holds every client of the node, so this is the first number to look at when all of them are slow.
"""

import asyncio
import time
from typing import Final

from barnabas.runtime.histogram import Histogram
from barnabas.runtime.metrics import Metrics

INTERVAL_S: Final = 0.1
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class LoopWatch:
    """Measures the delay of the loop; `run` is a task of the node."""

    def __init__(self) -> None:
        self.delays = Histogram(BOUNDS)
        self.beat_at = time.monotonic()
        """When the loop was last seen to turn."""

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        metrics.histogram(
            "event_loop_delay_seconds",
            "How much later than asked for the event loop woke a task.",
            lambda: self.delays,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            begun = time.monotonic()
            await asyncio.sleep(INTERVAL_S)
            self.beat_at = time.monotonic()
            self.delays.observe(max(self.beat_at - begun - INTERVAL_S, 0.0))
