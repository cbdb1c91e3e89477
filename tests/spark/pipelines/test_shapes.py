"""What a checkpoint is good for is written down beside it, and compared before the pipeline runs again."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

from barnabas.spark.pipelines import Pipeline, PipelineError, shapes
from barnabas.spark.pipelines.compiling import compile_pipeline
from barnabas.spark.pipelines.shapes import Shape

FILE = """\
name: shaped
bootstrap: 127.0.0.1:1
sources:
  - name: records
    type: topic
    topic: t
    parse: {format: json, schema: "c string, n long, at timestamp"}
    watermark: {column: at, delay: 1 minute}
steps:
  - {name: same, sql: "SELECT * FROM records WHERE n > 0"}
  - {name: sums, sql: "SELECT window.start AS at, c, sum(n) AS total FROM same GROUP BY window(at, '10 seconds'), c"}
sinks:
  - {name: windows, type: topic, topic: w, mode: append}
  - {name: rows, type: topic, topic: r, from: same}
"""


class Checkpoints:
    """Pipelines over one directory of checkpoints, in which nothing runs."""

    def __init__(self, folder: Path, spark: Any) -> None:
        self.folder, self._spark = folder, spark

    def shapes(self, text: str) -> dict[str, Shape]:
        pipeline = self.pipeline(text)
        queries = compile_pipeline(pipeline.model, pipeline._surroundings, self._spark)
        return shapes.shapes_of(pipeline.model, pipeline._surroundings, queries)

    def pipeline(self, text: str) -> Pipeline:
        return Pipeline.from_yaml(f"{text}checkpoint: {self.folder}\n", file=str(self.folder / "p.yaml"))

    def ran(self, text: str, *, known: bool = True) -> None:
        for name in self.pipeline(text).query_names:
            offsets = self.folder / name / "offsets"
            offsets.mkdir(parents=True)
            (offsets / "0").touch()
        if known:
            shapes.write_shapes(str(self.folder), self.shapes(text))

    def refused(self, text: str) -> list[str]:
        try:
            self.pipeline(text).validate(self._spark)
        except PipelineError as error:
            return [problem.message for problem in error.problems]
        return []


@pytest.fixture
def checkpoints(tmp_path: Path, spark: Any) -> Checkpoints:
    return Checkpoints(tmp_path, spark)


def test_the_state_of_a_query_is_said_in_words(checkpoints: Checkpoints) -> None:
    found = checkpoints.shapes(FILE)

    assert found["windows"].state == ("sum(same.n) bigint by window, same.c",)
    assert (found["rows"].state, found["rows"].windows, found["rows"].target) == ((), (), "the topic r")
    assert found == checkpoints.shapes(FILE), "the same each time"
    unique = FILE.replace("SELECT * FROM records WHERE n > 0", "SELECT DISTINCT c, n, at FROM records")
    assert checkpoints.shapes(unique)["rows"].state == ("rows seen by c, n, at",)


CHANGES = {
    "another aggregate": ("sum(n)", "max(n)", "has the state of sum(same.n) bigint by window, same.c, and the pipe"),
    "one more": ("sum(n) AS", "sum(n) AS a, count(*) AS", "now needs sum(same.n) bigint, count(1) bigint by window"),
    "other groups": ("), c", ")", "now needs first(same.c) string, sum(same.n) bigint by window: one cannot become"),
    "a longer window": ("'10 seconds'", "'20 seconds'", "by window, same.c, with other windows: one cannot become"),
    "a window that slides": ("'10 seconds'", "'10 seconds', '5 seconds'", "with other windows: one cannot become"),
    "no state": ("topic: w, ", "topic: w, from: same, ", "and the pipeline now needs nothing: one cannot become"),
    "another name": ("name: rows", "name: copies", "the topic r was written by a sink named 'rows' so far"),
}
HARMLESS = {
    "nothing": ("name: shaped", "name: shaped"),
    "a condition": ("n > 0", "n > 5"),
    "a delay": ("1 minute", "2 minutes"),
    "a column's name": ("AS total", "AS sum"),
    "another topic": ("topic: r,", "topic: s,"),
    "a new sink": ("sinks:\n", "sinks:\n  - {name: more, type: topic, topic: m, from: same}\n"),
}


def test_a_checkpoint_of_something_else_is_refused_and_harmless_changes_are_not(checkpoints: Checkpoints) -> None:
    checkpoints.ran(FILE)

    for what, (old, new, said) in CHANGES.items():
        assert old in FILE
        text = FILE.replace(old, new)
        text = text.replace("AS at, c,", "AS at, first(c) AS c,") if what == "other groups" else text
        (told,) = checkpoints.refused(text)
        assert said in told, what
    for what, (old, new) in HARMLESS.items():
        assert old in FILE
        assert checkpoints.refused(FILE.replace(old, new)) == [], what


def test_a_checkpoint_that_nothing_is_known_of_is_taken_as_it_is(checkpoints: Checkpoints) -> None:
    checkpoints.ran(FILE, known=False)
    assert checkpoints.refused(FILE.replace("sum(n)", "max(n)").replace("name: rows", "name: copies")) == []

    (checkpoints.folder / shapes.FILE_NAME).write_text("[1, 2")
    assert checkpoints.refused(FILE.replace("sum(n)", "max(n)")) == []


def test_what_is_gone_or_was_moved_is_not_compared(checkpoints: Checkpoints) -> None:
    checkpoints.ran(FILE)
    renamed = FILE.replace("name: rows", "name: copies")
    assert len(checkpoints.refused(renamed)) == 1

    (checkpoints.folder / "rows").rename(checkpoints.folder / "copies")

    assert checkpoints.refused(renamed) == []
