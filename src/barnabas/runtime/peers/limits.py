"""How much may be in flight to another node, and how long to wait for a connection."""

from dataclasses import dataclass

from barnabas.runtime.dice import Dice


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLimits:
    """For one node and one purpose, which is one connection."""

    max_calls: int = 256
    """The most calls that may wait, sent or not; any more are refused."""
    max_in_flight: int = 16
    """The most requests in flight; any more wait."""
    max_in_flight_bytes: int = 16 * 1024 * 1024
    """The most bytes in flight; any more wait, but one request is always sent."""
    max_request_bytes: int = 100 * 1024 * 1024
    max_answer_bytes: int = 100 * 1024 * 1024
    connect_timeout_s: float = 5.0
    """For a connection, its greeting and its authentication together."""
    min_backoff_s: float = 0.05
    max_backoff_s: float = 1.0


class Backoff:
    """How long to wait before the next attempt: longer after each failure, with jitter."""

    def __init__(self, dice: Dice, limits: PeerLimits) -> None:
        self._dice = dice
        self._limits = limits
        self._next_s = limits.min_backoff_s

    def reset(self) -> None:
        """An attempt succeeded: after the next failure start again with the shortest wait."""
        self._next_s = self._limits.min_backoff_s

    def throw_s(self) -> float:
        """The time to wait now: a random part of the current wait, at least half of it."""
        longest_s, self._next_s = self._next_s, min(2 * self._next_s, self._limits.max_backoff_s)
        return longest_s * (1000 + self._dice.randrange(1001)) / 2000
