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


WRONG = [
    ("SELECT id,", "SELEC id,", "SELEC", "[PARSE_SYNTAX_ERROR]"),
    ("SELECT id,", "SELECT idd,", "idd", "[UNRESOLVED_COLUMN"),
    ("FROM records", "FROM recods", "recods", "[TABLE_OR_VIEW_NOT_FOUND]"),
    ("cast(at AS int)", "cast(at AS itn)", "itn", "[UNSUPPORTED_DATATYPE]"),
    ("cast(at AS int)", "nofunction(at)", "nofunction", "[UNRESOLVED_ROUTINE]"),
    ("cast(at AS int)", "date_add(array(1), 2)", "date_add", "[DATATYPE_MISMATCH"),
    ('"id long, at string"', '"id long, at strng"', "strng", "[UNSUPPORTED_DATATYPE]"),
    ("at IS NOT NULL", "att IS NOT NULL", "att IS", "[UNRESOLVED_COLUMN"),
    ("at IS NOT NULL", "at IS NOT", "T]", "[PARSE_SYNTAX_ERROR]"),
    ("at IS NOT NULL", "at + 1", "at + 1", "a check must be true or false, and this is of type int: at + 1"),
    ("key: id", "key: nothing", "nothing", "[UNRESOLVED_COLUMN"),
    ("key: id", "key: concat(id", "d}", "[PARSE_SYNTAX_ERROR]"),
    ("key: id", "key: id, mode: complete", "complete", "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION]"),
    ("    parse: {format: raw, checks: [at IS NOT NULL]}", "    python: nowhere:f", "nowhere:f", "cannot import"),
]


@pytest.mark.parametrize(("old", "new", "place", "said"), WRONG, ids=[each[1] for each in WRONG])
def test_what_spark_refuses_has_its_place_in_the_file(
    spark: Any, text: str, old: str, new: str, place: str, said: str
) -> None:
    assert old in text
    wrong = text.replace(old, new)

    with pytest.raises(PipelineError) as refusal:
        Pipeline.from_yaml(wrong, file="p.yaml").validate(spark)

    (problem,) = refusal.value.problems
    assert problem.message.startswith(said)
    assert problem.position is not None
    line = wrong.splitlines()[problem.position.line - 1]
    assert line[problem.position.column - 1 :].startswith(place), problem


def test_the_place_within_sql_is_said_beside_that_in_the_file(spark: Any, text: str) -> None:
    sql = "    sql: |\n      -- of the day\n      SELECT id,\n             idd\n      FROM records\n"
    wrong = text.replace(next(line for line in text.splitlines(keepends=True) if "SELECT" in line), sql)

    with pytest.raises(PipelineError) as refusal:
        Pipeline.from_yaml(wrong, file="p.yaml").validate(spark)

    assert str(refusal.value).startswith("p.yaml:10:14: [UNRESOLVED_COLUMN")
    assert str(refusal.value).endswith("(line 3, column 8 of this text)")


def test_all_sinks_are_checked_and_a_view_is_said_to_be_wrong_once(spark: Any, text: str) -> None:
    two = text.replace("checkpoint:", "  - {name: other, type: delta, path: x, partition_by: [nowhere]}\ncheckpoint:")

    def problems(wrong: str) -> list[str]:
        with pytest.raises(PipelineError) as refusal:
            Pipeline.from_yaml(wrong, file="p.yaml").validate(spark)
        return [problem.message for problem in refusal.value.problems]

    assert [each.partition("]")[0] for each in problems(two.replace("key: id", "key: nothing"))] == [
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "no column nowhere; the columns are id, at, _topic, _partition, _offset",
    ]
    assert len(problems(two.replace("SELECT id,", "SELECT idd,"))) == 1


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
