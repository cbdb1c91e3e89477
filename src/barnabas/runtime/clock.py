"""Time, behind a port: wall time, for people and for records, and elapsed time, for what must not be late.

For waiting, use the time of the event loop. That of uvloop is taken once in each turn: a process that was stopped in
the middle of one does not see by it how long it stood still.
"""

import time
from typing import Final, Protocol

_ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Wall time, which may jump, back too: never measure a wait with it. And elapsed time, which only goes forward."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment, those included in which the process or the machine stood still."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def elapsed_ms(self) -> int:
        """Milliseconds since the machine was started; a system that cannot say leaves out when it was suspended."""
        return time.clock_gettime_ns(_ELAPSED) // 1_000_000
