"""How queries are watched, with queries that are not Spark's."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

from barnabas.spark.pipelines import running
from barnabas.spark.pipelines.compiling import Query
from barnabas.spark.pipelines.problems import PipelineFailed

TOO_LATE = "Python worker failed to connect back."


class Stream:
    """A stream writer, and the queries that it starts: each ends at once, as the next of `ends` says."""

    def __init__(self, *ends: str | None) -> None:
        self.ends = list(ends)
        self.started = 0

    def queryName(self, _name: str) -> "Stream":  # noqa: N802 - Spark's names
        return self

    def option(self, *_: str) -> "Stream":
        return self

    def trigger(self, **_: object) -> "Stream":
        return self

    def start(self) -> Any:
        self.started += 1
        end = self.ends.pop(0)
        error = None if end is None else RuntimeError(end)
        return SimpleNamespace(isActive=False, lastProgress=None, stop=lambda: None, exception=lambda: error)


class Noting:
    """Something that runs beside them."""

    def __init__(self) -> None:
        self.said = ["made"]

    def start(self) -> None:
        self.said = ["started"]

    def stop(self) -> None:
        self.said.append("stopped")

    def notes(self) -> list[str]:
        return self.said


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(running, "close_session", lambda _session: None)

    def start(stream: Stream, *companions: Noting) -> running.RunningPipeline:
        frame: Any = SimpleNamespace(writeStream=stream, sparkSession=None)
        query = Query("out", frame, lambda each, _checkpoint: each)
        return running.RunningPipeline("p", str(tmp_path)).start([query], "once", companions)

    return start


def test_a_query_whose_python_came_too_late_is_started_again(start: Any) -> None:
    stream = Stream(TOO_LATE, TOO_LATE, None)

    assert start(stream).wait().state == "done"
    assert stream.started == 3


def test_it_is_not_tried_for_ever_and_other_failures_not_again(start: Any) -> None:
    late, failing = Stream(TOO_LATE, TOO_LATE, TOO_LATE), Stream("ValueError: 5 is odd")

    with pytest.raises(PipelineFailed, match=r"p\.out: Python worker failed to connect back"):
        start(late).wait()
    with pytest.raises(PipelineFailed, match=r"p\.out: ValueError: 5 is odd"):
        start(failing).wait()
    assert (late.started, failing.started) == (3, 1)


def test_what_runs_beside_is_stopped_after_the_queries_and_heard_at_the_end(start: Any) -> None:
    assert start(Stream(None), Noting()).wait().notes == ["started", "stopped"]
