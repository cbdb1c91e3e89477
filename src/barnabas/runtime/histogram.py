"""A histogram: how often something took how long, in buckets that are fixed beforehand.

Counting one value is a bisection and three additions; what Prometheus wants to see of it, counts that add up, is made
when it is read. A quantile is interpolated within its bucket, so it is as exact as the buckets are narrow.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""The upper bounds of the buckets for how long something takes."""


class Histogram:
    """Values by bucket. One task counts; anybody on the loop may read."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """How many values are in each bucket; the last is for those above all bounds."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """How many values are at most each bound, the bound as text."""
        bounds = (*(f"{bound:g}" for bound in self.bounds), "+Inf")
        return zip(bounds, accumulate(self.counts), strict=True)

    def quantile(self, part: float) -> float:
        """The value that this part of all values does not exceed; 0 if there are none."""
        return quantile_of(self.bounds, self.counts, part)


def quantile_of(bounds: Sequence[float], counts: Sequence[int], part: float) -> float:
    """The same for counts that were taken from a histogram, or are the difference of two."""
    wanted = part * sum(counts)
    if not wanted:
        return 0.0
    below = 0
    for at, count in enumerate(counts):
        if below + count >= wanted and count:
            if at >= len(bounds):
                return bounds[-1]  # nothing is known of how far above it is
            lower = bounds[at - 1] if at else 0.0
            return lower + (bounds[at] - lower) * (wanted - below) / count
        below += count
    return bounds[-1]
