"""A running pipeline: its queries, watched until they end or are stopped.

A query that fails stops the others: a pipeline runs completely or not at all. Restarted, each continues from its own
checkpoint.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from barnabas.spark.connecting import close_session
from barnabas.spark.pipelines.compiling import Query
from barnabas.spark.pipelines.problems import PipelineFailed
from barnabas.spark.pipelines.progress import PipelineProgress, QueryProgress, State, write_progress
from barnabas.spark.pipelines.reasons import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_POLL_S: Final = 0.2
_WRITE_EVERY_S: Final = 1.0
_STARTS: Final = 3


class Companion(Protocol):
    """What runs beside the queries, from their start until after their end. It may fail, and they go on."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def notes(self) -> list[str]: ...


class RunningPipeline:
    """The started queries of a pipeline. `stop` it, or use it in a `with`."""

    def __init__(self, name: str, checkpoint: str, *, on_close: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._on_close = on_close
        self._checkpoint = checkpoint
        self._queries: dict[str, StreamingQuery] = {}
        self._streams: dict[str, DataStreamWriter] = {}
        self._restarts: dict[str, int] = {}
        self._progress: dict[str, QueryProgress] = {}
        self._state: State = "running"
        self._written_at_s = 0.0
        self._companions: list[Companion] = []
        self._sessions: list[SparkSession] = []

    def start(self, queries: list[Query], trigger: str, companions: Sequence[Companion] = ()) -> Self:
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
                self._progress[query.name] = QueryProgress(query.name, sink=query.sink)
                self._sessions.append(query.frame.sparkSession)
                self._streams[query.name] = stream
                self._queries[query.name] = _start(stream, f"{self._name}.{query.name}")
            for companion in companions:
                companion.start()
                self._companions.append(companion)
        except BaseException:
            self.close()
            raise
        self._write()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
        notes = [note for companion in self._companions for note in companion.notes()]
        return PipelineProgress(self._name, self._state, self.progress(), time.time(), notes=notes)

    def wait(
        self,
        seconds: float | None = None,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        on_progress: Callable[[PipelineProgress], None] = lambda _: None,
    ) -> PipelineProgress:
        """Until all queries ended by themselves, or the time is over, or `should_stop`; raises `PipelineFailed`."""
        deadline_s = None if seconds is None else time.monotonic() + seconds
        while not self._failed_for_good() and self.is_active:
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
        """Stop all queries; an unfinished batch is run again after a restart, and leaves no trace."""
        if self._state != "running":
            return
        ended_alone = bool(self._queries) and not self.is_active
        for query in self._queries.values():
            query.stop()
        for companion in self._companions:
            companion.stop()
        failed = self._failed()
        for name, reason in failed.items():
            self._progress[name] = replace(self._progress[name], error=reason)
        self._state = "failed" if failed else "done" if ended_alone else "stopped"
        if self._queries:
            self._write()

    def close(self) -> None:
        """Stop, and release Spark's resources; the last progress stays available."""
        self.stop()
        self.progress()
        self._queries.clear()
        while self._sessions:
            close_session(self._sessions.pop())
        on_close, self._on_close = self._on_close, lambda: None  # once: it may be another's by then
        on_close()

    def _failed_for_good(self) -> bool:
        """Whether a query has failed; one whose Python came too late is started again, a few times."""
        for name in self._queries:
            while self._restarts.get(name, 0) < _STARTS - 1:
                if self._queries[name].isActive or not _came_too_late(self._queries[name].exception()):
                    break
                self._restarts[name] = self._restarts.get(name, 0) + 1
                self._queries[name] = _start(self._streams[name], f"{self._name}.{name}")
        return bool(self._failed())

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


def _came_too_late(error: Exception | None) -> bool:
    """Spark waits ten seconds for each Python that it starts: with all queries starting at once on few cores that is
    not always enough, and a query has then done nothing yet.
    """
    return error is not None and "Python worker failed to connect back" in str(error)


def _start(stream: "DataStreamWriter", name: str) -> "StreamingQuery":
    from pyspark.errors import PySparkException

    for left in reversed(range(_STARTS)):
        try:
            return stream.start()
        except PySparkException as error:
            # For foreachBatch a Connect server starts a Python right away.
            if not left or not _came_too_late(error):
                raise PipelineFailed(f"{name}: {reason_of(str(error))}") from None
    raise AssertionError("there is a last time")
