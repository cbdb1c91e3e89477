"""A pipeline at work: its queries, watched until they end or are told to.

A query that fails ends the others: a pipeline is whole or stopped. Restarted, each goes on from its own checkpoint.
"""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from barnabas.spark.pipelines.compiling import Query
from barnabas.spark.pipelines.problems import PipelineFailed
from barnabas.spark.pipelines.progress import PipelineProgress, QueryProgress, State, write_progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S: Final = 0.2
_WRITE_EVERY_S: Final = 1.0


class RunningPipeline:
    """The started queries of a pipeline. `stop` it, or use it in a `with`."""

    def __init__(self, name: str, checkpoint: str) -> None:
        self._name = name
        self._checkpoint = checkpoint
        self._queries: dict[str, StreamingQuery] = {}
        self._progress: dict[str, QueryProgress] = {}
        self._state: State = "running"
        self._written_at_s = 0.0

    def start(self, queries: list[Query], trigger: str) -> Self:
        """Start all, or none."""
        try:
            for query in queries:
                checkpoint = f"{self._checkpoint}/{query.name}"
                stream = query.frame.writeStream.queryName(f"{self._name}.{query.name}")
                stream = query.writer(stream, checkpoint).option("checkpointLocation", checkpoint)
                if trigger in ("available_now", "once"):
                    stream = stream.trigger(availableNow=True)
                else:
                    period = "0 seconds" if trigger == "continuous" else trigger.removeprefix("every ")
                    stream = stream.trigger(processingTime=period)
                self._progress[query.name] = QueryProgress(query.name)
                self._queries[query.name] = stream.start()
        except BaseException:
            self.stop()
            raise
        self._write()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self._queries.values())

    def progress(self) -> dict[str, QueryProgress]:
        """Each query as it is now."""
        for name, query in self._queries.items():
            last = query.lastProgress
            if last is None:
                continue
            if last["batchId"] > self._progress[name].batch_id + 1:
                for report in query.recentProgress:
                    self._progress[name] = self._progress[name].advanced(report)
            else:
                self._progress[name] = self._progress[name].advanced(last)
        return dict(self._progress)

    def snapshot(self) -> PipelineProgress:
        return PipelineProgress(self._name, self._state, self.progress(), time.time())

    def wait(
        self,
        seconds: float | None = None,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        on_progress: Callable[[PipelineProgress], None] = lambda _: None,
    ) -> PipelineProgress:
        """Until all queries ended by themselves, or the time is over, or `should_stop`; raises `PipelineFailed`."""
        deadline_s = None if seconds is None else time.monotonic() + seconds
        while self.is_active and not self._failed():
            if should_stop() or (deadline_s is not None and time.monotonic() >= deadline_s):
                break
            time.sleep(_POLL_S)
            on_progress(self.snapshot())
            if time.monotonic() >= self._written_at_s + _WRITE_EVERY_S:
                self._write()
        self.stop()
        final = self.snapshot()
        on_progress(final)
        self._raise_failure()
        return final

    def stop(self) -> None:
        """End all queries; what a batch had begun is done again after a restart, without a trace of it."""
        if self._state != "running":
            return
        ended_alone = bool(self._queries) and not self.is_active
        for query in self._queries.values():
            query.stop()
        failed = self._failed()
        for name, reason in failed.items():
            self._progress[name] = replace(self._progress[name], error=reason)
        self._state = "failed" if failed else "done" if ended_alone else "stopped"
        if self._queries:
            self._write()

    def _failed(self) -> dict[str, str]:
        failed = {}
        for name, query in self._queries.items():
            if not query.isActive:
                error = query.exception()
                if error is not None:
                    failed[name] = reason_of(str(error))
        return failed

    def _raise_failure(self) -> None:
        failed = self._failed()
        if failed:
            raise PipelineFailed("; ".join(f"{self._name}.{name}: {reason}" for name, reason in failed.items()))

    def _write(self) -> None:
        self._written_at_s = time.monotonic()
        write_progress(self._checkpoint, self.snapshot())


_REFUSED: Final = re.compile(r"\bbarnabas(?:\.\w+)+: (.+)")
_RAISED: Final = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|[a-z][A-Z]\w+)): (.+)$", re.MULTILINE)


def reason_of(text: str) -> str:
    """The reason in what Spark says of a failed query: our refusal, what its Python part raised, or the first line."""
    refusals: list[str] = _REFUSED.findall(text)
    if refusals:
        return refusals[-1]
    _, traceback, raised = text.partition("Traceback (most recent call last)")
    if traceback:
        found = _RAISED.findall(raised)
        if found:
            kind, message = found[-1]
            return f"{kind}: {message}" if kind.endswith(("Error", "Exception")) else message
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].partition(" SQLSTATE:")[0] if lines else "failed"
