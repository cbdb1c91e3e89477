"""The progress of a pipeline: the reports of its queries, and the file beside its checkpoints that shows it to others.

The file is for users and `barnabas pipeline status`; nothing depends on it. What has been done is in the checkpoints.
"""

import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from barnabas.spark.private_files import make_private_folder, open_private
from barnabas.spark.reporting import source_progress
from barnabas.spark.tables.files import local_path

State: TypeAlias = Literal["running", "stopped", "done", "failed"]
FILE_NAME: Final = "progress.json"
ROWS_WRITTEN: Final = "barnabas_rows_written"  # the metric that a query of ours observes


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """One query in this run. `rows_written` were given to its sink by batches that are done; `rows` were read for that,
    bad ones included. `duplicates` and `late` were left out on the way, as having come before, or behind the watermark.
    `batch_id` is its last batch, -1 before the first. `lag` is how many offsets of its topics came after what it had
    reached when it last said so, None before that, and where it reads no topics.
    """

    name: str
    batch_id: int = -1
    rows: int = 0
    rows_written: int = 0
    duplicates: int = 0
    late: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    offsets: str = ""
    watermark: str | None = None
    error: str | None = None
    lag: int | None = None
    sink: str = ""

    def advanced(self, report: Mapping[str, Any]) -> "QueryProgress":
        """With a report of Spark's; one that is known already changes nothing, one of an idle moment only the lag."""
        durations = report.get("durationMs") or {}
        batch_id = int(report["batchId"])
        if batch_id <= self.batch_id:
            return self
        # An idle query reports the batch that will be next, again and again; it has not added it.
        if "addBatch" not in durations:
            return replace(self, lag=_lag(report, self.lag))
        sources = report.get("sources") or []
        return replace(
            self,
            batch_id=batch_id,
            rows=self.rows + int(_of_all_sources(report, "numInputRows")),
            rows_written=self.rows_written + _rows_written(report),
            duplicates=self.duplicates + _of_operators(report, "numDroppedDuplicateRows"),
            late=self.late + _of_operators(report, "numRowsDroppedByWatermark"),
            rows_per_second=float(_of_all_sources(report, "processedRowsPerSecond")),
            batch_ms=int(durations.get("triggerExecution", 0)),
            offsets="; ".join(str(source["endOffset"]) for source in sources),
            lag=_lag(report, self.lag),
            watermark=(report.get("eventTime") or {}).get("watermark"),
        )


def _lag(report: Mapping[str, Any], before: int | None) -> int | None:
    """Of all sources that are topics; what it was before, if the report does not tell."""
    of_topics = [each for each in source_progress(report) if each.offsets_behind]
    return sum(each.total_offsets_behind for each in of_topics) if of_topics else before


def _rows_written(report: Mapping[str, Any]) -> int:
    """As we counted them where Spark does not."""
    counted = (report.get("observedMetrics") or {}).get(ROWS_WRITTEN)
    if counted is not None:
        return _only_number(counted) or 0
    return max(0, int((report.get("sink") or {}).get("numOutputRows") or 0))


def _of_operators(report: Mapping[str, Any], name: str) -> int:
    """What the operators with state have counted, all together: by themselves, or as their own kind of metric."""
    counted = 0
    for operator in report.get("stateOperators") or []:
        counted += int(operator.get(name) or (operator.get("customMetrics") or {}).get(name) or 0)
    return counted


def _only_number(value: Any) -> int | None:
    """The number in a row of one; over Connect it comes in lists within it, and without its name."""
    if isinstance(value, int):
        return value
    if isinstance(value, Mapping):
        value = list(value.values())
    found = map(_only_number, value if isinstance(value, list | tuple) else ())
    return next((each for each in found if each is not None), None)


def _of_all_sources(report: Mapping[str, Any], name: str) -> float:
    """A number of the whole query. Over Connect only the sources say theirs."""
    whole = report.get(name)
    return whole if whole is not None else sum(source[name] or 0 for source in report.get("sources") or [])


@dataclass(frozen=True, slots=True)
class PipelineProgress:
    """All queries of a pipeline at a moment. `notes` are of what runs beside them; `process` is who wrote it down."""

    name: str
    state: State
    queries: dict[str, QueryProgress]
    updated_s: float = 0.0
    notes: list[str] = field(default_factory=list)
    process: str = ""

    @property
    def rows(self) -> int:
        """Rows read, by the query that read most: each reads the sources for itself."""
        return max((query.rows for query in self.queries.values()), default=0)

    def summary(self) -> str:
        """What each query has written, in one line."""
        return ", ".join(map(_summary, self.queries.values()))

    def describe_state(self) -> str:
        """The state, in words; a file that says "running" may be left over from a killed process."""
        if self.state != "running":
            return self.state
        host, _, process = self.process.partition("/")
        if host != socket.gethostname():
            silent_s = time.time() - self.updated_s
            return "running" if silent_s < _SILENT_S else f"unknown (was running on {host or 'another machine'})"
        return "running" if process == _process_id(process.partition(".")[0]) else "not running (was killed)"


def _summary(query: QueryProgress) -> str:
    rows = "1 row" if query.rows_written == 1 else f"{query.rows_written:,} rows"
    left_out = [("duplicate" if query.duplicates == 1 else "duplicates", query.duplicates), ("late", query.late)]
    dropped = " and ".join(f"{count:,} {what}" for what, count in left_out if count)
    return (
        f"{query.name} {rows} written"
        + (f" ({dropped} dropped)" if dropped else "")
        + ("" if query.batch_id < 0 else f" up to batch {query.batch_id}")
    )


_SILENT_S: Final = 30.0


def _process_id(pid: int | str) -> str | None:
    """A process that is alive, by its number and when it began: numbers are given out again. None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        return _process_without_proc(int(pid))
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else f"{pid}.{fields[19]}"


def _process_without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass  # somebody else's, so it is there
    return f"{pid}."


def write_progress(checkpoint: str, progress: PipelineProgress) -> None:
    """Replace the file; where the checkpoint is on another machine there is none."""
    folder = local_path(checkpoint)
    if folder is None:
        return
    make_private_folder(folder)
    unfinished = folder / f".{FILE_NAME}.{os.getpid()}"
    told = replace(progress, updated_s=time.time(), process=f"{socket.gethostname()}/{_process_id(os.getpid())}")
    with open_private(unfinished, "w") as file:
        json.dump(asdict(told), file, indent=2)
    unfinished.replace(folder / FILE_NAME)


def read_progress(checkpoint: str) -> PipelineProgress | None:
    """The progress of the last run; None if there was none, or the file cannot be read."""
    folder = local_path(checkpoint)
    try:
        found = json.loads(((folder or Path()) / FILE_NAME).read_text(encoding="utf-8"))
        queries = {name: QueryProgress(**query) for name, query in found["queries"].items()}
        notes, process = found.get("notes", []), found.get("process", "")
        return PipelineProgress(found["name"], found["state"], queries, found["updated_s"], notes, process)
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


def last_committed_s(checkpoint: str, query: str) -> float | None:
    """When that was; seconds since 1970."""
    folder, batch_id = local_path(checkpoint), last_committed(checkpoint, query)
    if folder is None or batch_id is None:
        return None
    try:
        return (folder / query / "commits" / str(batch_id)).stat().st_mtime
    except OSError:
        return None
