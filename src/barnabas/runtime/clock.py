"""Wall time, for people and for records, behind a port. For waiting, use the time of the event loop."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time. It may jump, back too: never measure a wait with it."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000
