"""What only Spark can tell of a pipeline: its plan, and what it refuses, with the place in the file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.spark.pipelines import Pipeline, PipelineError
from tests.spark.pipelines.conftest import ReadAll, SendJson

if TYPE_CHECKING:
    from barnabas.client import Bus

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'barnabas[spark]'")

FILE = """\
name: checked
bootstrap: {bootstrap}
sources:
  - {{name: records, type: topic, topic: {topic}, parse: {{format: json, schema: "id long, at string"}}}}
steps:
  - name: shaped
    sql: SELECT id, cast(at AS int) AS at, _topic, _partition, _offset FROM records
  - name: good
    parse: {{format: raw, checks: [at IS NOT NULL]}}
sinks:
  - {{name: out, type: topic, topic: {topic}.out, key: id}}
checkpoint: {checkpoint}
dead_letters: {topic}.dead
"""


@pytest.fixture
def text(bootstrap: str, topic: str, tmp_path: Path) -> str:
    return FILE.format(bootstrap=bootstrap, topic=topic, checkpoint=tmp_path / "checkpoint")


def test_the_plan_of_each_query_is_explained_and_nothing_is_run(spark: Any, text: str, tmp_path: Path) -> None:
    plan = Pipeline.from_yaml(text).explain(spark)

    assert "== checked.out ==" in plan
    assert "== checked.dead_letters ==" in plan
    assert "from_json" in plan
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("SELECT id,", "SELEC id,", "p.yaml:7:10: [PARSE_SYNTAX_ERROR]"),
        ("SELECT id,", "SELECT idd,", "p.yaml:7:10: [UNRESOLVED_COLUMN"),
        ("FROM records", "FROM recods", "p.yaml:7:10: [TABLE_OR_VIEW_NOT_FOUND]"),
        ('"id long, at string"', '"id lng, at string"', "p.yaml:4:"),
        ("key: id", "key: nothing", "p.yaml:11:5: [UNRESOLVED_COLUMN"),
        ("    parse: {format: raw, checks: [at IS NOT NULL]}", "    python: nowhere:f", "p.yaml:9:13: cannot import"),
    ],
)
def test_what_spark_refuses_has_its_place_in_the_file(spark: Any, text: str, old: str, new: str, said: str) -> None:
    assert old in text

    with pytest.raises(PipelineError) as refusal:
        Pipeline.from_yaml(text.replace(old, new), file="p.yaml").validate(spark)

    assert str(refusal.value).startswith(said)


def test_rows_that_fail_a_check_of_a_step_are_dead_letters(
    spark: Any, text: str, topic: str, client: "Bus", send_json: SendJson, read_all: ReadAll
) -> None:
    send_json(topic, [{"id": 1, "at": "5"}, {"id": 2, "at": "noon"}])

    Pipeline.from_yaml(text).run(spark, once=True)

    (good,) = read_all(f"{topic}.out")
    (dead,) = read_all(f"{topic}.dead")
    assert good.key == b"1"
    assert dict(dead.headers)["barnabas.offset"] == b"1"
    assert b'"id":2' in (dead.value or b"")
