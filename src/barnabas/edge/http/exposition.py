"""All metrics of a node as text that Prometheus reads, written in turns with everything else and kept for a moment.

The format is that of Prometheus (0.0.4), or OpenMetrics for who asks for it. Both are a few rules; our own writer keeps
the base install free of another dependency, and writes a piece at a time: thousands of lines at once would hold the
loop. Two scrapers that come at the same time are given the same text. There is a limit on the number of lines; what is
beyond it is left out, numbers with many labels first, and the text says how many.
"""

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.runtime.histogram import Histogram
from barnabas.runtime.metrics import Kind, Labels, Metric, Metrics, Number, Sample
from barnabas.runtime.turns import in_turns

PREFIX: Final = "barnabas_"
KAFKA: Final = "kafka_"
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LINES_PER_TURN: Final = 250
KEPT_S: Final = 1.0
DROPPED: Final = "metrics_series_dropped"
_DROPPED_DOC: Final = "Numbers that are left out of this answer: metrics.max.series."


class Form(NamedTuple):
    """Which of the texts is asked for."""

    has_partitions: bool = False
    is_open: bool = False  # OpenMetrics


class Exposition:
    """Writes the metrics of a node."""

    def __init__(self, metrics: Metrics, *, max_series: int) -> None:
        self._metrics = metrics
        self._max_series = max_series
        self._kept: dict[Form, tuple[float, bytes]] = {}
        self._writing: dict[Form, asyncio.Task[bytes]] = {}

    async def text(self, form: Form) -> bytes:
        """The text of this moment, or of the one just gone."""
        now = asyncio.get_running_loop().time()
        kept = self._kept.get(form)
        if kept is not None and now - kept[0] < KEPT_S:
            return kept[1]
        if form not in self._writing:
            task = self._writing[form] = asyncio.create_task(self._write(form))
            task.add_done_callback(lambda _: self._writing.pop(form, None))
        return await asyncio.shield(self._writing[form])

    async def _write(self, form: Form) -> bytes:
        lines = [line async for line in in_turns(self.lines(form), per_turn=LINES_PER_TURN)]
        text = "".join(lines).encode("utf-8", "backslashreplace")
        self._kept[form] = (asyncio.get_running_loop().time(), text)
        return text

    def lines(self, form: Form) -> Iterator[str]:
        """The lines, each with its end."""
        left, dropped = self._max_series, 0
        metrics = [each for each in self._metrics.all() if form.has_partitions or not each.is_detail]
        for metric in sorted(metrics, key=lambda each: (each.is_detail, len(each.label_names), each.name)):
            is_first = True
            for sample in metric.samples():
                if left <= 0:
                    dropped += 1
                    yield ""  # so that going on takes turns, too
                    continue
                if is_first:
                    yield from head(metric, is_open=form.is_open)
                    is_first = False
                for line in series(sample):
                    left -= 1
                    yield line
        yield from head(Metric(DROPPED, Kind.GAUGE, _DROPPED_DOC, lambda: 0), is_open=form.is_open)
        yield f"{PREFIX}{DROPPED} {dropped}\n"
        if form.is_open:
            yield "# EOF\n"


def full_name(name: str) -> str:
    """The name with the prefix that ours have."""
    return name if name.startswith(KAFKA) else PREFIX + name


def head(metric: Metric, *, is_open: bool) -> Iterator[str]:
    """The lines that say what a metric is."""
    name = full_name(metric.name)
    if is_open and metric.kind is Kind.COUNTER:
        name = name.removesuffix("_total")
    doc = metric.doc.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {name} {doc}\n"
    yield f"# TYPE {name} {metric.kind.value}\n"


def series(sample: Sample) -> Iterator[str]:
    """The lines of a sample: one, or several for a histogram."""
    name, names, labels = full_name(sample.metric.name), sample.metric.label_names, sample.labels
    value = sample.value
    if isinstance(value, Histogram):
        for bound, count in value.cumulative():
            yield f"{name}_bucket{_labels((*names, 'le'), (*labels, bound))} {count}\n"
        own = _labels(names, labels)
        yield f"{name}_sum{own} {_number(value.total)}\n"
        yield f"{name}_count{own} {value.count}\n"
    else:
        yield f"{name}{_labels(names, labels)} {_number(value)}\n"


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)) + "}"


def _escaped(value: str) -> str:
    """A value that cannot end its quotes or its line: names of groups are up to clients."""
    if value.isalnum():
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def _number(value: Number) -> str:
    return str(int(value)) if isinstance(value, int) else repr(value)
