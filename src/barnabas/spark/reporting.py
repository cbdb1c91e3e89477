"""What the progress of a query says of its sources, with the lag and the names that Spark leaves out of it.

Spark asks a source for both, if it is one of the JVM: for metrics (`ReportsSourceMetrics`) and for its text. What
stands in for a source in Python (`PythonMicroBatchStream`, Spark 4.3) has neither, so a progress has no
`avgOffsetsBehindLatest` and describes the source as an object of Java. But all of it follows from the offsets that are
there, `endOffset` and `latestOffset`: of our sources, and of Spark's own for Kafka, which writes them alike.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.core.model import TopicPartition
from barnabas.spark.source.offsets import Offsets, Position


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """One source of a query when a micro-batch was planned.

    `offsets_behind` has what there was to read after that batch, by partition; it is empty for sources that are not
    topics, which keep the description that Spark has for them.
    """

    description: str
    rows: int = 0
    offsets_behind: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def total_offsets_behind(self) -> int:
        return sum(self.offsets_behind.values())

    @property
    def metrics(self) -> dict[str, str]:
        """As Spark's own Kafka source has them in `metrics`."""
        behind = self.offsets_behind.values()
        if not behind:
            return {}
        return {
            "minOffsetsBehindLatest": str(min(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        }


def source_progress(query: Any) -> list[SourceProgress]:
    """The sources of a query (a `StreamingQuery`), or of one report of its progress, as listeners get them.

    A query that has not reported yet has none.
    """
    report = query.lastProgress if hasattr(query, "lastProgress") else query
    return [] if report is None else [_of_source(each) for each in report.get("sources") or []]


def _of_source(source: Mapping[str, Any]) -> SourceProgress:
    rows = int(source.get("numInputRows") or 0)
    reached, newest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if reached is None:
        return SourceProgress(str(source.get("description", "")), rows)
    behind = {key: max(end - reached.get(key, 0), 0) for key, end in (newest or {}).items()}
    return SourceProgress(_describe(reached), rows, behind)


def _describe(offsets: Offsets) -> str:
    """The topics and how many partitions: ``topics orders (4 partitions), returns (1 partition)``."""
    counts: dict[str, int] = {}
    for key in sorted(offsets):
        counts[key.topic] = counts.get(key.topic, 0) + 1
    named = [f"{topic} ({count} partition{'s'[: count != 1]})" for topic, count in counts.items()]
    return f"topic{'s'[: len(named) != 1]} {', '.join(named)}" if named else "no topics"


def _offsets(written: Any) -> Offsets | None:
    """Offsets of partitions, if that is what they are."""
    try:
        found = json.loads(written) if isinstance(written, str) else written
        is_ours = isinstance(found, Mapping) and all(isinstance(each, Mapping) for each in found.values())
        return Position.from_json({**found}).offsets if is_ours else None
    except (ValueError, TypeError):
        return None
