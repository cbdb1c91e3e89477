"""Allowances: how much of something a client may use, so much a second, and how long it waits after more.

An allowance is a bucket that leaks: what is used fills it, and it drains at the rate of the limit. It holds `burst_s`
seconds' worth, which a client may use at once; a client over that waits until it has drained to the brim. With
`rate = used / burst_s` that is Kafka's delay, ``(rate - limit) / limit * burst_s``, but where Kafka sums up a ring of
samples and forgets the oldest whole, here nothing is forgotten before it is paid for: after the burst the average is
the limit, however large a single request is.

A drained allowance is as good as a new one, so one that is idle can be dropped without a trace.

Must not know: what is counted, for whom, what time it is.
"""

from math import ceil
from typing import Final

MAX_THROTTLE_MS: Final = 2**31 - 1
"""The longest throttle time that an answer can tell: 24 days."""


class Allowance:
    """What is left of one limit."""

    __slots__ = ("_at", "_level", "burst_s", "limit", "max_debt_s")

    def __init__(self, limit: float, *, burst_s: float, max_debt_s: float | None = None) -> None:
        assert limit > 0
        self.limit = limit  # a second
        self.burst_s = burst_s
        self.max_debt_s = max_debt_s
        """A client is never further behind than this, whatever it has used: None is as far as it goes. For limits
        whose delays are bounded, lest a client is throttled for hours after it has stopped."""
        self._level = 0.0
        self._at = 0.0

    def take(self, amount: float, *, now_s: float) -> float:
        """Count what was used; returns for how many seconds its client must wait."""
        level = self._drained(now_s) + amount
        if self.max_debt_s is not None:
            level = min(level, self.limit * (self.burst_s + self.max_debt_s))
        self._level = level
        return max(level / self.limit - self.burst_s, 0.0)

    def put_back(self, amount: float) -> None:
        """Something that was counted was not used after all."""
        self._level = max(self._level - amount, 0.0)

    def delay_s(self, *, now_s: float) -> float:
        """For how many seconds a client must wait for what it has used."""
        return max(self._drained(now_s) / self.limit - self.burst_s, 0.0)

    def is_idle(self, *, now_s: float) -> bool:
        """Whether it is as good as a new one."""
        return self._drained(now_s) == 0.0

    def change(self, limit: float, *, burst_s: float, now_s: float) -> None:
        """Another limit holds from now on. What was used under the old one is not held against the new one."""
        level = self._drained(now_s)
        self.limit, self.burst_s = limit, burst_s
        self._level = min(level, limit * burst_s)

    def _drained(self, now_s: float) -> float:
        """How much it holds now."""
        if now_s > self._at:
            self._level = max(self._level - self.limit * (now_s - self._at), 0.0)
            self._at = now_s
        return self._level


def throttle_ms(delay_s: float) -> int:
    """A delay as it is told to a client: never shorter than it is."""
    return min(ceil(delay_s * 1000), MAX_THROTTLE_MS)
