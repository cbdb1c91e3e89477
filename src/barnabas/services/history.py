"""A short memory of a node: rates and latencies of the last hour, and the lag of groups of the last day.

For pictures without a Prometheus. Rings of fixed size: 360 steps of 10 seconds for the node and for each topic, 1,440
minutes for each group. Topics and groups beyond the limits have none, the ones with the least traffic or lag; what is
kept takes a few megabytes at most. A restart begins anew.
"""

import asyncio
from array import array
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.runtime.clock import Clock
from barnabas.runtime.histogram import Histogram, quantile_of
from barnabas.services.lag import GroupLag
from barnabas.services.served import ServedTopics

STEP_S: Final = 10
STEPS: Final = 360
LAG_STEP_S: Final = 60
LAG_STEPS: Final = 1440
MAX_TOPICS: Final = 200
MAX_GROUPS: Final = 200
"""200 x 360 x 3 and 200 x 1,440 x 2 numbers of eight bytes: 6 MB."""


class Ring:
    """The last values of several numbers, each step one of each; memory is taken as steps come."""

    __slots__ = ("_columns", "_first", "_most", "steps")

    def __init__(self, columns: int, most: int) -> None:
        self._columns = [array("d") for _ in range(columns)]
        self._most = most
        self._first = 0  # where the oldest is, once it is full
        self.steps = 0

    def add(self, *values: float) -> None:
        """One more step."""
        if self.steps < self._most:
            for column, value in zip(self._columns, values, strict=True):
                column.append(value)
            self.steps += 1
            return
        for column, value in zip(self._columns, values, strict=True):
            column[self._first] = value
        self._first = (self._first + 1) % self._most

    def last(self, number: int) -> float:
        """The value of the last step of one; 0 before the first."""
        column = self._columns[number]
        return column[self._first - 1] if column else 0.0

    def column(self, number: int) -> list[float]:
        """The values of one, the oldest first."""
        column = self._columns[number]
        return [*column[self._first :], *column[: self._first]]


class Series(NamedTuple):
    """Values of steps that end at `until_ms`."""

    step_s: int
    until_ms: int
    values: Mapping[str, list[float]]


class Totals(NamedTuple):
    """What has been counted up to now, of a topic or of all."""

    records_in: int
    bytes_in: int
    bytes_out: int


Times = Callable[[], Mapping[str, Histogram]]
NODE: Final = (
    "records_in_per_second",
    "bytes_in_per_second",
    "bytes_out_per_second",
    "produce_p50_seconds",
    "produce_p99_seconds",
    "fetch_p50_seconds",
    "fetch_p99_seconds",
)
TOPIC: Final = NODE[:3]
LAG: Final = ("lag_records", "lag_seconds")


class History:
    """Remembers; `run` is a task of the node. `times` are the latencies of produce and fetch."""

    def __init__(self, served: ServedTopics, clock: Clock, times: Times) -> None:
        self._served = served
        self._clock = clock
        self._times = times
        self._node = Ring(len(NODE), STEPS)
        self._topics: dict[str, Ring] = {}
        self._groups: dict[str, Ring] = {}
        self._last: dict[str, Totals] = {}
        self._last_counts: dict[str, list[int]] = {}
        self._at_ms = self._lag_at_ms = 0
        self._lag_due_ms = 0

    async def run(self) -> None:
        """Remember until cancelled."""
        self._last = self._totals()
        while True:
            await asyncio.sleep(STEP_S)
            self.step()

    def step(self) -> None:
        """One step is over."""
        self._at_ms = self._clock.now_ms()
        totals = self._totals()
        rates = {name: _rates(self._last.get(name), each) for name, each in totals.items()}
        self._last = totals
        summed = [sum(column) for column in zip(*rates.values(), strict=True)] or [0.0, 0.0, 0.0]
        self._node.add(*summed, *self._latencies())
        self._topics = {name: ring for name, ring in self._topics.items() if name in totals}
        busiest = sorted(rates, key=lambda name: -sum(rates[name]))
        for name in busiest:
            if name in self._topics or (any(rates[name]) and len(self._topics) < MAX_TOPICS):
                self._topics.setdefault(name, Ring(len(TOPIC), STEPS)).add(*rates[name])

    def note_lags(self, lags: Mapping[str, GroupLag]) -> None:
        """The lag of groups was measured; one value in a minute is kept."""
        now_ms = self._clock.now_ms()
        if now_ms < self._lag_due_ms:
            return
        self._lag_due_ms = now_ms + LAG_STEP_S * 1000 - 5000  # measured every 15 s: the next that is nearly a minute on
        self._lag_at_ms = now_ms
        self._groups = {name: ring for name, ring in self._groups.items() if name in lags}
        for name in sorted(lags, key=lambda name: -lags[name].lag):
            if name in self._groups or len(self._groups) < MAX_GROUPS:
                ring = self._groups.setdefault(name, Ring(len(LAG), LAG_STEPS))
                ring.add(float(lags[name].lag), max(lags[name].max_age_ms, 0) / 1000)

    def node(self) -> Series:
        """Of the whole node."""
        return Series(STEP_S, self._at_ms, {name: self._node.column(at) for at, name in enumerate(NODE)})

    def topic(self, name: str) -> Series | None:
        """Of what this node leads of a topic; None if there was none."""
        ring = self._topics.get(name)
        if ring is None:
            return None
        return Series(STEP_S, self._at_ms, {each: ring.column(at) for at, each in enumerate(TOPIC)})

    def rate_in(self, name: str) -> float:
        """Bytes per second that came to a topic in the last step; 0 if nothing is remembered of it."""
        ring = self._topics.get(name)
        return 0.0 if ring is None else ring.last(TOPIC.index("bytes_in_per_second"))

    def group(self, name: str) -> Series | None:
        """Of a group that this node coordinates; None if there is none."""
        ring = self._groups.get(name)
        if ring is None:
            return None
        return Series(LAG_STEP_S, self._lag_at_ms, {each: ring.column(at) for at, each in enumerate(LAG)})

    def _totals(self) -> dict[str, Totals]:
        return {
            name: Totals(topic.traffic.records_in, topic.traffic.bytes_in, topic.traffic.bytes_out)
            for name, topic in self._served.by_name.items()
        }

    def _latencies(self) -> list[float]:
        found: list[float] = []
        times = self._times()
        for name in ("produce", "fetch"):
            histogram = times.get(name)
            counts = [] if histogram is None else list(histogram.counts)
            before = self._last_counts.get(name, [0] * len(counts))
            self._last_counts[name] = counts
            delta = [now - then for now, then in zip(counts, before, strict=True)]
            bounds = () if histogram is None else histogram.bounds
            found += [quantile_of(bounds, delta, part) if delta else 0.0 for part in (0.5, 0.99)]
        return found


def _rates(before: Totals | None, now: Totals) -> tuple[float, float, float]:
    then = before or Totals(0, 0, 0)
    return (
        max(now.records_in - then.records_in, 0) / STEP_S,
        max(now.bytes_in - then.bytes_in, 0) / STEP_S,
        max(now.bytes_out - then.bytes_out, 0) / STEP_S,
    )
