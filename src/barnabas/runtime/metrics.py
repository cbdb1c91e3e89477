"""Metrics: what the parts of a node count, under names, read on request.

A part counts with its own integer, or computes a number on request; it registers that once, when the node is built
(`report`):

    metrics.counter("connections_accepted_total", "Connections that were accepted.", lambda: self.accepted)

So counting costs an integer addition, and the rest of the cost is paid when reading: no lock, no object per request.
Everything is read on the loop. Names are in the style of Prometheus without a prefix: snake case, the unit last,
``_total`` at the end of a counter. An endpoint adds prefix and format.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

Number: TypeAlias = int | float


class Kind(Enum):
    """Whether a number only grows while the node runs, or goes up and down."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Sample(NamedTuple):
    """One number, as it was when it was read."""

    metric: "Metric"
    label: str
    """The value of the metric's label; empty if it has none."""
    value: Number


@dataclass(frozen=True, slots=True)
class Metric:
    """A name, its meaning, and how it is read: one number, or one for each value of a label."""

    name: str
    kind: Kind
    doc: str
    read: Callable[[], Number | Mapping[str, Number]]
    label_name: str = ""

    def samples(self) -> Iterator[Sample]:
        """Its current numbers."""
        found = self.read()
        if isinstance(found, Mapping):
            for label, value in found.items():
                yield Sample(self, label, value)
        else:
            yield Sample(self, "", found)


class Metrics:
    """All metrics of a node, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Metric] = {}

    def counter(self, name: str, doc: str, read: Callable[[], Number]) -> None:
        """Register a number that only grows."""
        assert name.endswith("_total"), name
        self._add(Metric(name, Kind.COUNTER, doc, read))

    def counters(self, name: str, doc: str, label_name: str, read: Callable[[], Mapping[str, Number]]) -> None:
        """Register numbers that only grow, one for each value of a label."""
        assert name.endswith("_total"), name
        self._add(Metric(name, Kind.COUNTER, doc, read, label_name))

    def gauge(self, name: str, doc: str, read: Callable[[], Number]) -> None:
        """Register a number that goes up and down."""
        assert not name.endswith("_total"), name
        self._add(Metric(name, Kind.GAUGE, doc, read))

    def _add(self, metric: Metric) -> None:
        assert _NAME.fullmatch(metric.name), metric.name
        assert metric.name not in self._by_name, f"two metrics have the name {metric.name}"
        self._by_name[metric.name] = metric

    def read(self) -> Iterator[Sample]:
        """All current numbers, in the order of the metrics' names."""
        for name in sorted(self._by_name):
            yield from self._by_name[name].samples()


class Reporter(Protocol):
    """A part of a node that counts something."""

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        ...
