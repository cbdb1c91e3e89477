"""How we measure: ours and the limit in turns within one run, so that a noisy machine disturbs both alike.

A figure is the median of its rounds; a ratio is the median of the rounds' ratios, never a ratio of two best times.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    name: str
    ours: str
    limit: str = ""
    ratio: float | None = None
    target: float | None = None

    @property
    def is_met(self) -> bool:
        return self.target is None or (self.ratio is not None and self.ratio >= self.target)


@dataclass(frozen=True, slots=True)
class Compared:
    """Rates of both sides, and the ratio of ours to the limit."""

    ours: float
    limit: float
    ratio: float


def seconds(work: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(ours: Callable[[], float], limit: Callable[[], float], *, amount: float, rounds: int = 5) -> Compared:
    """Run both in turns. Each returns the seconds it took for `amount` of work."""
    pairs = []
    for round_number in range(rounds):
        # Who goes first changes, so that neither always finds the caches as the other left them.
        if round_number % 2:
            ours_took = ours()
            limit_took = limit()
        else:
            limit_took = limit()
            ours_took = ours()
        pairs.append((amount / ours_took, amount / limit_took))
    return _compared(pairs)


def _compared(pairs: list[tuple[float, float]]) -> Compared:
    return Compared(
        ours=statistics.median(ours_rate for ours_rate, _ in pairs),
        limit=statistics.median(limit_rate for _, limit_rate in pairs),
        ratio=statistics.median(ours_rate / limit_rate for ours_rate, limit_rate in pairs),
    )


def take_turns(ours: Callable[[], object], limit: Callable[[], object], *, steps: int) -> tuple[float, float]:
    """Seconds of both sides over `steps` short steps each, one of ours after one of the limit's.

    A shared disk is slow or fast for seconds at a time: what takes turns every few milliseconds meets the same disk.
    """
    ours_took = limit_took = 0.0
    for step in range(steps):
        if step % 2:
            ours_took += seconds(ours)
            limit_took += seconds(limit)
        else:
            limit_took += seconds(limit)
            ours_took += seconds(ours)
    return ours_took, limit_took


def compare_rounds(one_round: Callable[[], tuple[float, float]], *, amount: float, rounds: int) -> Compared:
    """Of rounds that give the seconds of both sides for `amount` of work: the median rates, and of the ratios."""
    return _compared([(amount / ours, amount / limit) for ours, limit in (one_round() for _ in range(rounds))])


@contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """A directory on the disk that is measured: the temporary one, or what TMPDIR says."""
    path = Path(tempfile.mkdtemp(prefix="barnabas-bench-", dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def rate(value: float, unit: str) -> str:
    """A rate for people: 1,234 MB/s, 8.81 M rows/s."""
    if unit.startswith("MB"):
        return f"{value / 1e6:,.0f} {unit}"
    if value >= 1e6:
        return f"{value / 1e6:,.2f} M {unit}"
    return f"{value:,.0f} {unit}"
