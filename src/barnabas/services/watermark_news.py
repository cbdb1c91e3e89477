"""Passing the high watermark on to a follower that waits for records (KIP-392).

A follower hears of the high watermark with the answers to its fetches, and a leader without new records answers after
`replica.fetch.wait.max.ms`: so long a consumer at the follower would wait for what is committed already. So a leader
that sends consumers to followers answers soon after the watermark has moved. Not at once: while records come in, the
next ones take the news along, and a busy partition costs no more requests than before.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from barnabas.runtime.partition import Partition

PASS_ON_S: Final = 0.005
"""How long new records are waited for that would take the watermark along: at most so much later it is known."""


class WatermarkNews:
    """Hurries one waiting fetch."""

    __slots__ = ("_hurry", "_timer")

    def __init__(self, hurry: Callable[[], None]) -> None:
        self._hurry = hurry
        self._timer: asyncio.TimerHandle | None = None

    def note_growth(self, _: Partition) -> None:
        """The high watermark of a partition has moved."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PASS_ON_S, self._hurry)

    def cancel(self) -> None:
        """The fetch waits no longer."""
        if self._timer is not None:
            self._timer.cancel()
