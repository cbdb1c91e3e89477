"""What is wrong with a pipeline file is said with line and column; no Spark is needed for it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("yaml", reason="PyYAML is not installed: pip install 'barnabas[spark]'")

from barnabas.cli.pipeline import app
from barnabas.core.errors import InvalidRequest
from barnabas.spark.pipelines import Pipeline, PipelineError, jobs
from barnabas.spark.pipelines.document import parse_document
from barnabas.spark.pipelines.model import DeltaSink, TopicSink, TopicSource, duration_ms
from barnabas.spark.pipelines.problems import FilePosition
from barnabas.spark.pipelines.schema import schema_text

ROOT = Path(__file__).parents[3]

GOOD = """\
name: orders
sources:
  - name: orders
    type: topic
    topic: orders
    parse: {format: json, schema: "id long"}
steps:
  - name: paid
    sql: SELECT * FROM orders
sinks:
  - type: delta
    path: out
trigger: available_now
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(PipelineError) as refusal:
        Pipeline.from_yaml(text, file="p.yaml")
    return [str(problem) for problem in refusal.value.problems]


def test_a_good_file_becomes_a_pipeline_with_a_query_for_each_sink_and_the_dead_letters() -> None:
    pipeline = Pipeline.from_yaml(GOOD)

    assert pipeline.name == "orders"
    assert pipeline.query_names == ["delta_0", "dead_letters"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: orders\n", "name: a b\n", "p.yaml:1:7: 'a b' does not match"),
        ("name: orders\n", "nam: orders\n", "p.yaml:1:1: unknown key 'nam': did you mean 'name'?"),
        ("name: orders\n", "name: [x]\n", "p.yaml:1:7: expected text, not a list"),
        ("name: orders\n", "name: 5\n", "p.yaml:1:7: expected text, not 5"),
        ("    type: topic\n", "    type: topik\n", "p.yaml:4:11: unknown type 'topik': did you mean 'topic'?"),
        ("    type: topic\n", "", "p.yaml:3:5: needs 'type': "),
        ("    topic: orders\n", "", "p.yaml:3:5: topic needs one of 'topic', 'topics' and 'pattern'"),
        ("    topic: orders\n", "    topic: orders\n    topics: [a]\n", "p.yaml:3:5: topic needs one of"),
        ("    topic: orders\n", "    topic: orders\n    group: ''\n", "p.yaml:6:12: must not be empty"),
        ("    topic: orders\n", "    topic: orders\n    max_per_trigger: 0\n", "p.yaml:6:22: 0 is below 1"),
        ("    topic: orders\n", "    topic: o\n    max_per_trigger: ten\n", "p.yaml:6:22: expected a whole number"),
        ("    topic: orders\n", "    topic: o\n    max_per_trigger: true\n", "p.yaml:6:22: expected a whole number"),
        (
            "    topic: orders\n",
            "    topic: orders\n    starting_timestamp: 5\n    ending_timestamp: 5\n",
            "p.yaml:7:23: ",
        ),
        (
            "    topic: orders\n",
            "    topic: orders\n    options: {startingOffsets: latest}\n",
            "p.yaml:6:32: use the key 'starting_offsets' of the source for it",
        ),
        ("format: json", "format: jsn", "p.yaml:6:21: 'jsn' is not allowed: did you mean 'json'?"),
        ("format: json", "format: raw", "p.yaml:6:12: format raw takes no schema"),
        (', schema: "id long"', "", "p.yaml:6:12: format json needs one of 'schema' and 'schema_file'"),
        ('"id long"', '"id"', "p.yaml:6:35: not a DDL schema"),
        ('"id long"', '"id array<long"', "p.yaml:6:35: not a DDL schema"),
        ('schema: "id long"', "schema_file: nowhere.avsc", "p.yaml:6:40: file nowhere.avsc does not exist"),
        ("schema:", "confluent: true, schema:", "p.yaml:6:38: only for Avro"),
        ("    sql: SELECT * FROM orders\n", "", "p.yaml:8:5: a step needs one of"),
        ("    sql: SELECT", "    python: a.b:c\n    sql: SELECT", "p.yaml:9:13: cannot be used with 'sql'"),
        ("    sql: SELECT * FROM orders", "    python: no-function", "p.yaml:9:13: 'no-function' does not match"),
        (
            "    sql: SELECT * FROM orders",
            "    python: a.b:c\n    inputs: [ordrs]",
            "p.yaml:10:14: no view 'ordrs' above: did you mean 'orders'?",
        ),
        ("  - name: paid", "  - name: orders", "p.yaml:8:11: the name 'orders' is taken by a view above"),
        ("    path: out\n", "", "p.yaml:11:5: delta needs 'path'"),
        (
            "    path: out\n",
            "    path: out\n    from: piad\n",
            "p.yaml:13:11: no view 'piad' above: did you mean 'paid'?",
        ),
        ("    path: out\n", "    path: out\n    evolve: maybe\n", "p.yaml:13:13: expected true or false, not 'maybe'"),
        ("    path: out\n", "    path: out\n    evolve: yes\n", "p.yaml:13:13: expected true or false, not 'yes'"),
        ("    path: out\n", "    path: out\n    merge: {keys: []}\n", "p.yaml:13:12: merge needs 'order_by'"),
        ("trigger: available_now", "trigger: every minute", "p.yaml:13:10: 'every minute' does not match"),
        ("trigger: available_now", "dead_letters: {topc: x}", "p.yaml:13:16: unknown key 'topc'"),
        ("trigger: available_now", "trigger: once\ntrigger: once", "p.yaml:14:1: the key 'trigger' is given twice"),
        ("trigger: available_now", "trigger: !!python/object:os.system x", "p.yaml:13:10: the tag"),
        ("trigger: available_now", "trigger: [", "p.yaml:14:1: not YAML"),
        ("steps:", "\tsteps:", "p.yaml:7:1: not YAML"),
    ],
)
def test_a_problem_is_said_with_its_place(old: str, new: str, said: str) -> None:
    assert old in GOOD

    found = problems_of(GOOD.replace(old, new, 1))

    assert any(problem.startswith(said) for problem in found), found


def test_all_problems_are_said_at_once_in_the_order_of_the_file() -> None:
    text = (
        GOOD.replace("name: orders\n", "name: a b\n", 1).replace("path: out", "pth: out").replace("trigger", "triger")
    )

    found = problems_of(text)

    assert [problem.split(": ")[0] for problem in found] == ["p.yaml:1:7", "p.yaml:11:5", "p.yaml:12:5", "p.yaml:13:1"]


@pytest.mark.parametrize("text", ["", "null", "[]", "just words", "a: &x [*x]", "name: \x00", "{" * 500])
def test_what_is_no_pipeline_at_all_is_refused_in_the_same_way(text: str) -> None:
    assert problems_of(text)


def test_dead_letters_without_anything_to_parse_are_refused() -> None:
    text = GOOD.replace('    parse: {format: json, schema: "id long"}\n', "") + "dead_letters: dead\n"

    assert problems_of(text) == ["p.yaml:13:15: nothing is parsed, so there are no dead letters"]


def test_a_pipeline_without_a_stream_is_refused() -> None:
    text = GOOD.replace("    type: topic\n    topic: orders\n", "    type: table\n    format: delta\n    path: x\n")
    text = text.replace('    parse: {format: json, schema: "id long"}\n', "")

    assert problems_of(text)[0].startswith("p.yaml:3:3: no source is a stream")


def test_a_problem_in_plain_values_has_a_path() -> None:
    with pytest.raises(PipelineError, match=r"pipeline: sinks\.0\.mode: 'appendd' is not allowed"):
        Pipeline.from_dict(
            {
                "name": "x",
                "sources": [{"name": "s", "type": "topic", "topic": "t"}],
                "sinks": [{"type": "console", "mode": "appendd"}],
            }
        )


STYLES = {
    "plain": "sql: SELECT a FROM here",
    "plain over lines": "sql: SELECT a\n      FROM here",
    "single quotes": "sql: 'SELECT a FROM here'",
    "double quotes": 'sql: "SELECT a FROM here"',
    "literal": "sql: |\n      SELECT a\n        FROM here\n",
    "literal, stripped": "sql: |-\n\n      SELECT a\n      FROM here\n",
    "folded": "sql: >-\n      SELECT a\n      FROM here\n",
}


@pytest.mark.parametrize("style", STYLES)
def test_a_place_in_a_text_is_found_in_the_file_however_it_is_written(style: str) -> None:
    file = f"steps:\n  - name: x\n    {STYLES[style]}"
    document = parse_document(file)
    sql: str = document.value["steps"][0]["sql"]
    before = sql[: sql.index("here")]

    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    position = document.problem(("steps", 0, "sql"), "wrong", inside=(line, column)).position

    assert position is not None
    assert file.splitlines()[position.line - 1][position.column - 1 :].startswith("here")


def test_a_place_beyond_an_escape_is_that_of_the_text() -> None:
    document = parse_document('sql: "SELECT\\ta FROM here"')

    assert document.problem(("sql",), "wrong", inside=(1, 15)).position == FilePosition(1, 6)


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"nowhere\.yaml: cannot be read"):
        Pipeline.load(tmp_path / "nowhere.yaml")


JOBS: dict[str, Any] = {
    "archive": lambda: jobs.archive("t", "/x", schema="a long", checks=["a > 0"], dead_letters="d", group="g"),
    "archive raw": lambda: jobs.archive("t", "/x", table_format="parquet"),
    "archive iceberg": lambda: jobs.archive("a.t", "/x", table_format="iceberg", evolve=True),
    "replay": lambda: jobs.replay("t", table="/x", key="id"),
    "replay topic": lambda: jobs.replay("t", topic="s", start_ms=1, end_ms=2, where="offset > 5"),
    "cdc": lambda: jobs.cdc("t", "/x", keys=["a"], schema="a long, op string", delete="op = 'd'"),
    "cdc in order": lambda: jobs.cdc("t", "/x", keys=["a"], schema="a long", delete="a > 5", order_by=["a"]),
    "mirror": lambda: jobs.mirror("t", to_bootstrap="b:1", partitions=3),
    "mirror groups": lambda: jobs.mirror("t", to_bootstrap="b:1", sync_groups=["g", "team-.*"]),
    "aggregate": lambda: jobs.aggregate("t", aggregates={"n": "count(*)"}, window="1 minute", to_topic="u"),
    "dedupe": lambda: jobs.dedupe("t", "u", by=["key", "value"]),
    "enrich": lambda: jobs.enrich("t", table="/x", on=["a"], schema="a long", to_table="/y"),
    "redrive": lambda: jobs.redrive("d", where="error = 'not JSON'"),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_the_pipeline_that_its_yaml_says(name: str) -> None:
    pipeline = JOBS[name]()

    assert Pipeline.from_yaml(pipeline.to_yaml()).model == pipeline.model


def test_deletions_are_remembered_where_events_can_be_late() -> None:
    def remembered(**given: Any) -> str:
        pipeline = jobs.cdc("t", "/x", keys=["a"], schema="a long, at long", delete="a > 5", **given)
        sink = pipeline.model.sinks[0]
        assert isinstance(sink, DeltaSink)
        assert sink.merge is not None
        return sink.merge.remember_deletions

    assert remembered() == "0 days"
    assert remembered(order_by=["at"]) == "7 days"
    assert remembered(order_by=["at"], remember_deletions="1 hour") == "1 hour"
    assert duration_ms("90 minutes") == 5_400_000


def test_tombstones_without_an_order_are_passed_over_or_dead_but_never_lost() -> None:
    def made(**given: Any) -> tuple[str, list[str]]:
        model = jobs.cdc("t", "/x", keys=["a"], schema="a long, at long", **given).model
        source = model.sources[0]
        assert isinstance(source, TopicSource)
        assert source.parse is not None
        return model.steps[0].sql or "", source.parse.tombstone_keys

    assert made(order_by=["at"], delete="a > 5")[0].endswith("FROM records WHERE NOT _tombstone")
    assert made(order_by=["at"])[1] == [], "a row without a key, and so a dead letter"
    assert "_tombstone OR coalesce(a > 5, false) AS __delete" in made(delete="a > 5")[0]
    with pytest.raises(InvalidRequest, match="as many expressions as order_by has columns"):
        made(order_by=["at"], tombstone_order=["1", "2"])


MIRROR = """\
name: m
sources:
  - {name: r, type: topic, topic: t}
sinks:
  - {type: topic, topic: u, sync_groups: [g]}
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[g]", "['a(']", "p.yaml:5:43: not a regular expression: "),
        ("topic: t", "topics: [t, s]", "p.yaml:5:42: needs exactly one source of type topic"),
        ("topic: u", "topic: t", "p.yaml:5:42: the topic is mirrored into itself"),
    ],
)
def test_groups_that_cannot_be_kept_in_step_are_refused(old: str, new: str, said: str) -> None:
    Pipeline.from_yaml(MIRROR)

    found = problems_of(MIRROR.replace(old, new))

    assert [problem.startswith(said) for problem in found] == [True], found


def test_groups_are_given_on_the_command_line_by_names_and_regular_expressions() -> None:
    command = ["mirror", "t", "--to", "b:1", "--partitions", "1", "--sync-groups", "a, team-[0-9]{1,2}"]

    shown = CliRunner().invoke(app, [*command, "--sync-groups", "c", "--yaml"])

    (sink,) = Pipeline.from_yaml(shown.output).model.sinks
    assert isinstance(sink, TopicSink)
    assert sink.sync_groups == ["a", "team-[0-9]{1,2}", "c"]


def test_each_query_of_a_pipeline_has_a_group_of_its_own() -> None:
    pipeline = jobs.archive("t", "/x", schema="a long", group="g", bootstrap="b:1")

    assert pipeline.groups == {"archive": [("g.archive", "b:1")], "dead_letters": [("g.dead_letters", "b:1")]}
    assert jobs.archive("t", "/x", group="g", bootstrap="b:1").groups == {"archive": [("g", "b:1")]}


def test_the_published_schema_is_that_of_the_model() -> None:
    published = (ROOT / "docs" / "pipeline.schema.json").read_text()

    assert published == schema_text(), "write it anew: barnabas pipeline schema > docs/pipeline.schema.json"
    assert json.loads(published)["title"] == "A Barnabas pipeline"


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "pipelines").glob("*.yaml")), ids=lambda file: file.name)
def test_the_examples_are_valid(file: Path) -> None:
    Pipeline.load(file)
