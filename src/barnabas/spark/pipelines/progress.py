"""How far a pipeline is: what its queries report, and the file beside its checkpoints that says so to others.

The file is for people and `barnabas pipeline status`; nothing depends on it. What has been done is in the checkpoints.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from barnabas.spark.tables.files import local_path

State: TypeAlias = Literal["running", "stopped", "done", "failed"]
FILE_NAME: Final = "progress.json"


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """One query. `rows` were read by this run, bad ones included; `batch_id` is its last batch, -1 before the first."""

    name: str
    batch_id: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    offsets: str = ""
    watermark: str | None = None
    error: str | None = None

    def advanced(self, report: Mapping[str, Any]) -> "QueryProgress":
        """With a report of Spark's; one that is known already, or of an idle moment, changes nothing."""
        durations = report.get("durationMs") or {}
        batch_id = int(report["batchId"])
        # An idle query reports the batch that will be next, again and again; it has not added it.
        if batch_id <= self.batch_id or "addBatch" not in durations:
            return self
        sources = report.get("sources") or []
        return replace(
            self,
            batch_id=batch_id,
            rows=self.rows + int(report.get("numInputRows") or 0),
            rows_per_second=float(report.get("processedRowsPerSecond") or 0.0),
            batch_ms=int(durations.get("triggerExecution", 0)),
            offsets="; ".join(str(source["endOffset"]) for source in sources),
            watermark=(report.get("eventTime") or {}).get("watermark"),
        )


@dataclass(frozen=True, slots=True)
class PipelineProgress:
    """All queries of a pipeline at a moment."""

    name: str
    state: State
    queries: dict[str, QueryProgress]
    updated_s: float = 0.0

    @property
    def rows(self) -> int:
        """Rows read, by the query that read most: each reads the sources for itself."""
        return max((query.rows for query in self.queries.values()), default=0)


def write_progress(checkpoint: str, progress: PipelineProgress) -> None:
    """Replace the file; where the checkpoint is on another machine there is none."""
    folder = local_path(checkpoint)
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{FILE_NAME}.{os.getpid()}"
    unfinished.write_text(json.dumps(asdict(replace(progress, updated_s=time.time())), indent=2), encoding="utf-8")
    unfinished.replace(folder / FILE_NAME)


def read_progress(checkpoint: str) -> PipelineProgress | None:
    """What the last run said; None if there was none, or what is there cannot be read."""
    folder = local_path(checkpoint)
    try:
        found = json.loads(((folder or Path()) / FILE_NAME).read_text(encoding="utf-8"))
        queries = {name: QueryProgress(**query) for name, query in found["queries"].items()}
        return PipelineProgress(found["name"], found["state"], queries, found["updated_s"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def last_committed(checkpoint: str, query: str) -> int | None:
    """The last batch that a query's checkpoint says is done."""
    folder = local_path(checkpoint)
    if folder is None:
        return None
    try:
        names = os.listdir(folder / query / "commits")
    except OSError:
        return None
    return max((int(name) for name in names if name.isdigit()), default=None)
