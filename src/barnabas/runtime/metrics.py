"""Metrics: what the parts of a node count, under names, read on request.

A part counts with its own integer, or computes a number on request; it registers that once, when the node is built
(`report`):

    metrics.counter("connections_accepted_total", "Connections that were accepted.", lambda: self.accepted)

So counting costs an integer addition, and the rest of the cost is paid when reading: no lock, no object per request.
Everything is read on the loop. Names are in the style of Prometheus without a prefix: snake case, the unit last,
``_total`` at the end of a counter. An endpoint adds prefix and format; a name that begins with ``kafka_`` is one that
the dashboards of Kafka's operators know, and stays as it is.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from barnabas.runtime.histogram import Histogram

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

Number: TypeAlias = int | float
Labels: TypeAlias = tuple[str, ...]
Reading: TypeAlias = Number | Histogram | Mapping[str, Number | Histogram] | Iterable[tuple[Labels, Number]]


class Kind(Enum):
    """Whether a number only grows while the node runs, goes up and down, or is a histogram of numbers."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Sample(NamedTuple):
    """One number, or one histogram, as it was when it was read."""

    metric: "Metric"
    labels: Labels
    """The values of the metric's labels, in their order."""
    value: Number | Histogram

    @property
    def label(self) -> str:
        """The value of the metric's only label; empty if it has none."""
        return self.labels[0] if self.labels else ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A name, its meaning, and how it is read: one number, or one for each value of its labels."""

    name: str
    kind: Kind
    doc: str
    read: Callable[[], Reading]
    label_names: Labels = ()
    is_detail: bool = False
    """Whether there is one number for each partition: read only by who asks for it."""

    @property
    def label_name(self) -> str:
        """The name of its only label; empty if it has none."""
        return self.label_names[0] if self.label_names else ""

    def samples(self) -> Iterator[Sample]:
        """Its current numbers. They may be read in pieces: what is left out between is no harm."""
        found = self.read()
        if isinstance(found, int | float | Histogram):
            yield Sample(self, (), found)
        elif isinstance(found, Mapping):
            for label, value in found.items():
                yield Sample(self, (label,), value)
        else:
            for labels, number in found:
                yield Sample(self, labels, number)


class Metrics:
    """All metrics of a node, by name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Metric] = {}

    def counter(self, name: str, doc: str, read: Callable[[], Number]) -> None:
        """Register a number that only grows."""
        self._add(Metric(name, Kind.COUNTER, doc, read))

    def counters(self, name: str, doc: str, label_name: str, read: Callable[[], Mapping[str, Number]]) -> None:
        """Register numbers that only grow, one for each value of a label."""
        self._add(Metric(name, Kind.COUNTER, doc, read, (label_name,)))

    def gauge(self, name: str, doc: str, read: Callable[[], Number]) -> None:
        """Register a number that goes up and down."""
        self._add(Metric(name, Kind.GAUGE, doc, read))

    def gauges(self, name: str, doc: str, label_name: str, read: Callable[[], Mapping[str, Number]]) -> None:
        """Register numbers that go up and down, one for each value of a label."""
        self._add(Metric(name, Kind.GAUGE, doc, read, (label_name,)))

    def histogram(self, name: str, doc: str, read: Callable[[], Histogram]) -> None:
        """Register a histogram."""
        self._add(Metric(name, Kind.HISTOGRAM, doc, read))

    def histograms(self, name: str, doc: str, label_name: str, read: Callable[[], Mapping[str, Histogram]]) -> None:
        """Register histograms, one for each value of a label."""
        self._add(Metric(name, Kind.HISTOGRAM, doc, read, (label_name,)))

    def family(
        self,
        name: str,
        doc: str,
        label_names: Labels,
        read: Callable[[], Iterable[tuple[Labels, Number]]],
        *,
        is_detail: bool = False,
    ) -> None:
        """Register numbers with several labels; a counter if its name ends as one."""
        kind = Kind.COUNTER if name.endswith("_total") else Kind.GAUGE
        self._add(Metric(name, kind, doc, read, label_names, is_detail))

    def _add(self, metric: Metric) -> None:
        assert _NAME.fullmatch(metric.name), metric.name
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        assert metric.name not in self._by_name, f"two metrics have the name {metric.name}"
        self._by_name[metric.name] = metric

    def all(self) -> list[Metric]:
        """All metrics, in the order of their names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def read(self) -> Iterator[Sample]:
        """All current numbers, in the order of the metrics' names."""
        for metric in self.all():
            yield from metric.samples()


class Reporter(Protocol):
    """A part of a node that counts something."""

    def report(self, metrics: Metrics) -> None:
        """Name what is counted here."""
        ...
