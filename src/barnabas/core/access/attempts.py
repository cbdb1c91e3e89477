"""Failed logins, by address: how long the next answer that one failed is held back.

Whoever fails often waits longer each time, up to a limit; whoever succeeds never waits. Only so many addresses are
remembered, those that failed last, and of each only so many answers are held back at once.
"""

from collections import OrderedDict
from typing import Final

FREE: Final = 10
"""So many failures in a window wait no longer than the first."""
WINDOW_MS: Final = 60_000
MAX_DELAY_MS: Final = 5_000
MAX_HELD: Final = 100
MAX_ADDRESSES: Final = 10_000


class FailedLogins:
    """The failures of all addresses; times are in milliseconds of any clock that only goes forward."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, int]] = OrderedDict()  # when the window began, how many since
        self._held: dict[str, int] = {}
        self.count = 0

    def note(self, address: str, *, now_ms: int, delay_ms: int) -> int | None:
        """A login from an address failed: how long its answer is held back; None if too many are, and it gets none."""
        self.count += 1
        since_ms, failures = self._failures.pop(address, (now_ms, 0))
        if now_ms - since_ms >= WINDOW_MS:
            since_ms, failures = now_ms, 0
        self._failures[address] = (since_ms, failures + 1)
        if len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)
        if self._held.get(address, 0) >= MAX_HELD:
            return None
        doublings = min(max(failures + 1 - FREE, 0), 16)
        return min(delay_ms << doublings, max(MAX_DELAY_MS, delay_ms))

    def hold(self, address: str) -> None:
        """An answer is held back."""
        self._held[address] = self._held.get(address, 0) + 1

    def release(self, address: str) -> None:
        """An answer is held back no longer."""
        left = self._held[address] - 1
        if left:
            self._held[address] = left
        else:
            del self._held[address]
